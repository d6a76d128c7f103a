//! A machine whose memory for slabs has an end: pages in blocks, what is done when they are
//! short, and the end.
//!
//! A slab takes one block of its order; where there is none, smaller blocks, as a kernel falls
//! back to a smaller slab (the model keeps the slab's objects; it is counted). When there are too few pages,
//! what [`Relief`] says is done once, and without enough pages after that the run ends. By SLAB,
//! whose arrays hold objects of slabs that are partly used, the object is first looked for again
//! among those that the relief made free, as a kernel does whose page allocation failed.
//!
//! Neighbours: [`super::replay`] runs; a command shows [`Told`].
//! Invariants: free pages and those of slabs are the limit's; a page that goes back after a grace
//! period is a slab's until then, and no relief hastens it; slabs of the start that the model puts in place on
//! its way take their pages then.

use super::plan::{Limit, Plan, Relief};
use crate::prepare::truth::Change;
use crate::prepare::{Op, Step};
use slabyard::engine::counted::{KernelCache, Page};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

/// The highest order of a block.
pub const MOST_ORDER: u8 = 10;

/// The slab that there was no memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Steps done, this one included.
    pub step: usize,
    /// Its time.
    pub time_ns: u64,
    /// The cache.
    pub cache: usize,
    /// The slab's order.
    pub order: u8,
}

/// What became of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What there was.
    pub limit: Limit,
    /// Free blocks, by order.
    pub free_blocks: [u32; MOST_ORDER as usize + 1],
    /// Pages that a grace period holds.
    pub waiting_pages: u64,
    /// How often something was done.
    pub reliefs: u64,
    /// Pages that this gave back.
    pub relieved_pages: u64,
    /// Objects that it made free, and that took the place of one of a new slab.
    pub retried: u64,
    /// Slabs that found no block of their order.
    pub fallbacks: u64,
    /// The fewest free pages.
    pub least_free_pages: u64,
    /// Where it was not enough.
    pub failed: Option<Failed>,
}

impl Told {
    /// Free pages.
    #[must_use]
    pub fn free_pages(&self) -> u64 {
        self.free_blocks.iter().enumerate().map(|(order, n)| u64::from(*n) << order).sum()
    }
}

/// A block: its first page, and its order.
type Block = (u32, u8);

/// Free blocks: a buddy allocator, the lowest address first.
#[derive(Default)]
struct Blocks {
    free: [BTreeSet<u32>; MOST_ORDER as usize + 1],
    pages: u64,
}

impl Blocks {
    fn of(pages: u32) -> Blocks {
        let mut blocks = Blocks::default();
        let mut at = 0;
        while at < pages {
            let aligned = if at == 0 { MOST_ORDER } else { at.trailing_zeros() as u8 };
            let fits = (pages - at).ilog2() as u8;
            let order = MOST_ORDER.min(aligned).min(fits);
            blocks.put((at, order));
            at += 1 << order;
        }
        blocks
    }

    fn take(&mut self, order: u8) -> Option<Block> {
        let from = (order..=MOST_ORDER).find(|order| !self.free[*order as usize].is_empty())?;
        let at = self.free[from as usize].pop_first()?;
        for half in order..from {
            self.free[half as usize].insert(at + (1 << half));
        }
        self.pages -= 1 << order;
        Some((at, order))
    }

    fn put(&mut self, (mut at, mut order): Block) {
        self.pages += 1 << order;
        while order < MOST_ORDER && self.free[order as usize].remove(&(at ^ 1 << order)) {
            at &= !(1 << order);
            order += 1;
        }
        self.free[order as usize].insert(at);
    }
}

/// The memory.
pub(super) struct Memory {
    limit: Limit,
    blocks: Blocks,
    /// Blocks of each slab, by cache and number.
    of_slabs: HashMap<(usize, u32), Vec<Block>>,
    /// Of slabs of the start, whose numbers nobody told.
    of_start: Vec<Vec<Vec<Block>>>,
    /// Slabs of each cache that have blocks or want some.
    known: Vec<u32>,
    /// Slabs that want blocks; `None`: of the start.
    wanting: Vec<(usize, Option<u32>)>,
    /// By the time when they are free.
    waiting: BinaryHeap<Reverse<(u64, Vec<Block>)>>,
    /// The slabs of the start have blocks.
    begun: bool,
    told: Told,
}

impl Memory {
    pub(super) fn new(limit: Limit, plan: &Plan<'_>, caches: &[KernelCache]) -> Memory {
        let pages = limit.bytes / u64::from(plan.page_size);
        let pages = u32::try_from(pages).unwrap_or(u32::MAX >> 1);
        let told = Told {
            limit,
            free_blocks: [0; MOST_ORDER as usize + 1],
            waiting_pages: 0,
            reliefs: 0,
            relieved_pages: 0,
            retried: 0,
            fallbacks: 0,
            least_free_pages: pages.into(),
            failed: None,
        };
        Memory {
            limit,
            blocks: Blocks::of(pages),
            of_slabs: HashMap::new(),
            of_start: vec![Vec::new(); caches.len()],
            known: vec![0; caches.len()],
            wanting: Vec::new(),
            waiting: BinaryHeap::new(),
            begun: false,
            told,
        }
    }

    /// A slab began, or ended; the pages of one that ended are free at a time.
    pub(super) fn note(&mut self, cache: usize, page: Page, free_at_ns: u64) {
        match page {
            Page::New(slab) => {
                self.wanting.push((cache, Some(slab)));
                self.known[cache] += 1;
            }
            Page::Freed(slab) => {
                self.known[cache] = self.known[cache].saturating_sub(1);
                if let Some(at) = self.wanting.iter().position(|it| *it == (cache, Some(slab))) {
                    self.wanting.swap_remove(at);
                    return;
                }
                let blocks = self.of_slabs.remove(&(cache, slab));
                if let Some(blocks) = blocks.or_else(|| self.of_start[cache].pop()) {
                    self.waiting.push(Reverse((free_at_ns, blocks)));
                }
            }
        }
    }

    /// After a step: gives blocks to the slabs that want some. False: there are none.
    pub(super) fn follow(
        &mut self,
        plan: &Plan<'_>,
        nth: usize,
        step: &Step,
        caches: &mut [KernelCache],
        slab_of: &mut [u32],
        changes: &mut Vec<Change>,
    ) -> bool {
        let own = step.cache as usize;
        let all = if self.begun { own..own + 1 } else { 0..caches.len() };
        self.begun = true;
        for cache in all {
            // Those of the start, of which no page tells.
            for _ in self.known[cache]..caches[cache].nr_slabs() {
                self.known[cache] += 1;
                self.wanting.push((cache, None));
            }
        }
        if self.wanting.is_empty() {
            return true;
        }
        self.free_until(step.time_ns);
        if self.serve(plan) {
            return true;
        }
        if self.limit.relief != Relief::None {
            self.relieve(plan, step, caches, changes);
            if self.serve(plan) {
                return true;
            }
            let object = &mut slab_of[step.object as usize];
            if step.op == Op::Alloc && self.retry(plan, step, caches, object, changes) {
                return self.serve(plan);
            }
        }
        let cache = self.wanting.last().map_or(step.cache as usize, |it| it.0);
        let (order, time_ns) = (plan.orders[cache], step.time_ns);
        self.told.failed = Some(Failed { step: nth + 1, time_ns, cache, order });
        false
    }

    fn free_until(&mut self, now_ns: u64) {
        while self.waiting.peek().is_some_and(|Reverse((at, _))| *at <= now_ns) {
            let Some(Reverse((_, blocks))) = self.waiting.pop() else { break };
            blocks.into_iter().for_each(|block| self.blocks.put(block));
        }
    }

    /// False if some want blocks still.
    fn serve(&mut self, plan: &Plan<'_>) -> bool {
        while let Some((cache, slab)) = self.wanting.last().copied() {
            let order = plan.orders[cache];
            let blocks = match self.blocks.take(order) {
                Some(block) => vec![block],
                None if self.blocks.pages >= 1 << order => {
                    self.told.fallbacks += 1;
                    self.smaller(order)
                }
                None => return false,
            };
            match slab {
                Some(slab) => drop(self.of_slabs.insert((cache, slab), blocks)),
                None => self.of_start[cache].push(blocks),
            }
            self.wanting.pop();
            self.told.least_free_pages = self.told.least_free_pages.min(self.blocks.pages);
        }
        true
    }

    /// Blocks of smaller orders that are as many pages; there are as many.
    fn smaller(&mut self, order: u8) -> Vec<Block> {
        let (mut left, mut blocks) = (1u64 << order, Vec::new());
        for order in (0..order).rev() {
            while left >= 1 << order
                && let Some(block) = self.blocks.take(order)
            {
                left -= 1 << order;
                blocks.push(block);
            }
        }
        blocks
    }

    fn relieve(
        &mut self,
        plan: &Plan<'_>,
        step: &Step,
        caches: &mut [KernelCache],
        changes: &mut Vec<Change>,
    ) {
        self.told.reliefs += 1;
        for (number, cache) in caches.iter_mut().enumerate() {
            match self.limit.relief {
                Relief::None => {}
                Relief::Empties => cache.end_empties(),
                Relief::Full => cache.shrink(),
            }
            let delay = plan.prepared.caches[number].return_delay_ns;
            self.note_all(cache, number, step, delay, changes);
        }
        let before = self.blocks.pages;
        self.free_until(step.time_ns);
        self.told.relieved_pages += self.blocks.pages - before;
    }

    /// Looks for the step's object again, whose new slab finds no pages; false if no other slab has
    /// a free one.
    fn retry(
        &mut self,
        plan: &Plan<'_>,
        step: &Step,
        caches: &mut [KernelCache],
        object: &mut u32,
        changes: &mut Vec<Change>,
    ) -> bool {
        let number = step.cache as usize;
        let cache = &mut caches[number];
        let cpu = step.cpu as usize % plan.node_of.len();
        let wants = (number, Some(cache.slab_of(*object)));
        let other = self.wanting.contains(&wants).then(|| cache.retry_in_array(cpu, *object));
        let Some(other) = other.flatten() else { return false };
        *object = other;
        self.told.retried += 1;
        let delay = plan.prepared.caches[number].return_delay_ns;
        self.note_all(cache, number, step, delay, changes);
        true
    }

    /// Notes the slabs that a cache began and ended beside the step's own.
    fn note_all(
        &mut self,
        cache: &mut KernelCache,
        number: usize,
        step: &Step,
        delay: u64,
        changes: &mut Vec<Change>,
    ) {
        for page in cache.take_pages() {
            self.note(number, page, step.time_ns + delay);
            let by = if matches!(page, Page::New(_)) { 1 } else { -1 };
            changes.push(Change {
                time_ns: step.time_ns + if by > 0 { 0 } else { delay },
                cache: number as u16,
                by,
            });
        }
    }

    pub(super) fn told(mut self) -> Told {
        for (n, blocks) in self.told.free_blocks.iter_mut().zip(&self.blocks.free) {
            *n = blocks.len() as u32;
        }
        let waiting = self.waiting.iter().flat_map(|Reverse((_, blocks))| blocks);
        self.told.waiting_pages = waiting.map(|(_, order)| 1 << order).sum();
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_split_and_join() {
        let mut blocks = Blocks::of(1027);
        assert_eq!((blocks.pages, blocks.free[10].len(), blocks.free[1].len()), (1027, 1, 1));
        assert_eq!(blocks.free[0].len(), 1);
        let odd = blocks.take(0).unwrap();
        assert_eq!(odd, (1026, 0), "the smallest that fits");
        let two: Vec<Block> = (0..2).map(|_| blocks.take(3).unwrap()).collect();
        assert_eq!(two, [(0, 3), (8, 3)]);
        assert_eq!(blocks.pages, 1027 - 17);
        for block in two.into_iter().chain([odd]) {
            blocks.put(block);
        }
        assert_eq!((blocks.pages, blocks.free[10].len(), blocks.free[3].len()), (1027, 1, 0));
    }

    #[test]
    fn without_a_block_of_an_order_smaller_ones_do() {
        let mut blocks = Blocks::of(16);
        let all: Vec<Block> = (0..16).map(|_| blocks.take(0).unwrap()).collect();
        all.iter().filter(|(at, _)| at % 2 == 0).for_each(|block| blocks.put(*block));
        assert_eq!((blocks.pages, blocks.take(1)), (8, None), "no two are beside one another");
    }
}
