//! A machine's pages with the slabs in them: caches allocate blocks for new slabs here, through
//! [`Supply`].
//!
//! A new slab first requests a block of its cache's order; if a smaller block would do, the kernel
//! reclaims no pages for this request. If the request fails, the slab requests a block of the
//! minimum order, for which per-CPU page lists are drained. Slabs from before the start get all
//! their pages, in smaller blocks if no block is large enough.
//!
//! [`super::memory`] holds the free blocks; [`super::machine`] and [`crate::replay`] use this
//! module. Invariant: free pages + pages on CPUs' lists + slabs' pages, including those that wait
//! for RCU readers, + requested pages = the machine's pages, less what the kernel itself held at
//! the start.

use super::buddy::{Block, MOST_ORDER};
use super::kept::Limits;
use super::memory::Memory;
use super::mobility::Type;
use super::zone::Zone;
use slabyard_model::cache::supply::{Order, Supply};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;

/// Free pages at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// Pages in free blocks.
    pub pages: u32,
    /// How many of each order.
    pub blocks: [u32; MOST_ORDER as usize + 1],
    /// Pages that CPUs keep: a kernel counts them as neither free nor taken.
    pub kept: u32,
}

/// What slabs of a cache are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slabs {
    /// The cache's number.
    pub cache: u32,
    /// The cache's, which a slab has unless memory is short.
    pub order: u8,
    /// The least that holds an object; where it is the same no slab falls back.
    pub least: u8,
    /// What their pages count as.
    pub of: Type,
    /// Readers may access a slab for this long after it was freed.
    pub delay_ns: u64,
}

/// What happened to the pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Slabs of the least order, for want of a block of the cache's.
    pub fallbacks: u64,
    /// Slabs that found no pages.
    pub refused: u64,
    /// Pages of slabs, and of what is too large for one.
    pub of_slabs: u32,
    /// Those of caches that a shrinker frees from.
    pub reclaimable: u32,
    /// Most of them at a time.
    pub most_of_slabs: u32,
    /// Those that steps take as pages.
    pub of_requests: u32,
    /// Pages that are lacking for what existed before.
    pub lacking: u64,
}

/// A handle: all clones share the memory.
#[derive(Clone)]
pub struct Pages(Rc<RefCell<State>>);

struct State {
    memory: Memory,
    /// Blocks of slabs that a kernel had: the first slabs of their orders are in them.
    of_begin: Vec<Block>,
    now_ns: u64,
    /// By cache and number.
    of_slabs: HashMap<(u32, u32), Vec<Block>>,
    /// Set aside for slabs that are to be put in place, by cache.
    aside: HashMap<u32, Vec<Vec<Block>>>,
    /// By the time when they are free.
    waiting: BinaryHeap<Reverse<(u64, Ended)>>,
    counts: Counts,
    fewest: Free,
}

/// Blocks of a slab, and whether they count as reclaimable.
type Ended = (Vec<Block>, bool);

impl Pages {
    /// A machine of so many pages, all free.
    #[must_use]
    pub fn new(pages: u32, page_size: u32, cpus: u32) -> Pages {
        let mut zone = Zone::whole(pages);
        zone.limit(Limits::of(pages, page_size, cpus));
        Pages::of(Memory::Kernel(Box::new(zone)), Vec::new())
    }

    /// Those of a machine whose kernel had slabs in some blocks already.
    pub(super) fn of(memory: Memory, of_begin: Vec<Block>) -> Pages {
        let fewest = free_of(&memory, 0);
        Pages(Rc::new(RefCell::new(State {
            memory,
            of_begin,
            now_ns: 0,
            of_slabs: HashMap::new(),
            aside: HashMap::new(),
            waiting: BinaryHeap::new(),
            counts: Counts::default(),
            fewest,
        })))
    }

    /// Time passes, and from now on this CPU makes the requests.
    pub fn at(&self, now_ns: u64, cpu: usize) {
        let state = &mut *self.0.borrow_mut();
        state.now_ns = now_ns;
        state.memory.on(cpu);
        state.free_until(now_ns);
    }

    /// What a cache's slabs get their pages by.
    #[must_use]
    pub fn supply(&self, slabs: Slabs) -> Box<dyn Supply> {
        Box::new(OfCache { pages: self.clone(), slabs })
    }

    /// Sets pages aside for a slab that existed before, and is put in place later or never.
    pub fn set_aside(&self, slabs: Slabs) {
        let state = &mut *self.0.borrow_mut();
        let blocks = state.whole(slabs);
        state.aside.entry(slabs.cache).or_default().push(blocks);
    }

    /// Takes a block for a request; what CPUs keep becomes free for it.
    #[must_use]
    pub fn take(&self, order: u8, of: Type) -> Option<Block> {
        let state = &mut *self.0.borrow_mut();
        let block = state.take_drained(order, of)?;
        state.counts.of_requests += 1 << order;
        state.look();
        Some(block)
    }

    /// As [`Pages::take`], of a request from before: where there is no block it has smaller ones.
    #[must_use]
    pub fn take_before(&self, order: u8, of: Type) -> Vec<Block> {
        let state = &mut *self.0.borrow_mut();
        let blocks = state.in_parts(order, of);
        state.counts.of_requests += pages_of(&blocks);
        state.look();
        blocks
    }

    /// Gives a request's block, or a part of it, back.
    pub fn put(&self, block: Block) {
        let state = &mut *self.0.borrow_mut();
        state.counts.of_requests -= 1 << block.1;
        state.memory.put(block);
    }

    /// Takes a block for an object that is too large for a slab; it counts as one.
    pub(super) fn take_large(&self, order: u8) -> Option<Block> {
        let state = &mut *self.0.borrow_mut();
        let block = state.take_drained(order, Type::Unmovable)?;
        state.counts.of_slabs += 1 << order;
        state.look();
        Some(block)
    }

    /// Gives such a block back.
    pub(super) fn put_large(&self, block: Block) {
        self.0.borrow_mut().give((vec![block], false));
    }

    /// Pages that nobody was given become free: the kernel's own, from its start.
    pub(super) fn release(&self, block: Block) {
        self.0.borrow_mut().memory.put(block);
    }

    /// Slabs that the kernel had at the start, and that nobody needs, become free.
    pub(super) fn release_slabs_of_begin(&self) {
        let state = &mut *self.0.borrow_mut();
        while let Some(block) = state.of_begin.pop() {
            state.memory.put(block);
        }
    }

    /// Lists of pages on CPUs have other limits.
    pub(super) fn limit(&self, limits: Limits) {
        self.0.borrow_mut().memory.limit(limits);
    }

    /// A slab of this number is allocated; `None`: there is no block for it.
    pub(super) fn begin_slab(&self, slabs: Slabs, slab: u32) -> Option<Order> {
        let state = &mut *self.0.borrow_mut();
        let found = state.block_for(slabs);
        state.counts.refused += u64::from(found.is_none());
        let (block, got) = found?;
        state.counts.fallbacks += u64::from(got == Order::Least);
        state.count(&[block], slabs);
        state.of_slabs.insert((slabs.cache, slab), vec![block]);
        state.look();
        Some(got)
    }

    pub(super) fn end_slab(&self, slabs: Slabs, slab: u32) {
        let state = &mut *self.0.borrow_mut();
        let blocks = state.of_slabs.remove(&(slabs.cache, slab)).unwrap_or_default();
        let ended = (blocks, slabs.of == Type::Reclaimable);
        match slabs.delay_ns {
            0 => state.give(ended),
            delay => state.waiting.push(Reverse((state.now_ns + delay, ended))),
        }
    }

    /// What a CPU keeps becomes free.
    pub fn unplug(&self, cpu: usize) {
        self.0.borrow_mut().memory.drain_of(cpu);
    }

    /// True if a slab would find pages.
    #[must_use]
    pub fn has(&self, slabs: Slabs) -> bool {
        let state = &mut *self.0.borrow_mut();
        let found = state.take_drained(slabs.least, slabs.of);
        let has = found.is_some();
        found.into_iter().for_each(|block| state.memory.put(block));
        has
    }

    /// Those that nobody has, by order, and those that CPUs keep.
    #[must_use]
    pub fn free(&self) -> Free {
        let state = self.0.borrow();
        free_of(&state.memory, state.now_ns)
    }

    /// When they were fewest, those that CPUs keep counted as free.
    #[must_use]
    pub fn fewest(&self) -> Free {
        self.0.borrow().fewest
    }

    /// From now on the fewest are looked for.
    pub fn begin(&self) {
        let state = &mut *self.0.borrow_mut();
        state.fewest = free_of(&state.memory, state.now_ns);
        state.counts.most_of_slabs = state.counts.of_slabs;
    }

    /// What happened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.borrow().counts
    }

    /// Pages of freed slabs that readers may still access.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.0.borrow().waiting.iter().map(|Reverse((_, (blocks, _)))| pages_of(blocks)).sum()
    }
}

impl State {
    fn take_drained(&mut self, order: u8, of: Type) -> Option<Block> {
        self.memory.take(order, of).or_else(|| {
            self.memory.drain();
            self.memory.take(order, of)
        })
    }

    /// Of the cache's order, or of the least.
    fn block_for(&mut self, slabs: Slabs) -> Option<(Block, Order)> {
        let Slabs { order, least, of, .. } = slabs;
        if let Some(nth) = self.of_begin.iter().rposition(|block| block.1 == order) {
            return Some((self.of_begin.remove(nth), Order::Cache));
        }
        if order == least {
            return Some((self.take_drained(order, of)?, Order::Cache));
        }
        match self.memory.take(order, of) {
            Some(block) => Some((block, Order::Cache)),
            None => Some((self.take_drained(least, of)?, Order::Least)),
        }
    }

    fn count(&mut self, blocks: &[Block], slabs: Slabs) {
        self.counts.of_slabs += pages_of(blocks);
        if slabs.of == Type::Reclaimable {
            self.counts.reclaimable += pages_of(blocks);
        }
    }

    /// Blocks of a slab that existed before.
    fn whole(&mut self, slabs: Slabs) -> Vec<Block> {
        let blocks = self.in_parts(slabs.order, slabs.of);
        self.count(&blocks, slabs);
        self.look();
        blocks
    }

    /// As many pages as a block of an order has, in the largest blocks that there are.
    fn in_parts(&mut self, order: u8, of: Type) -> Vec<Block> {
        let (mut left, mut blocks) = (1u32 << order, Vec::new());
        for order in (0..=order).rev() {
            while left >= 1 << order
                && let Some(block) = self.take_drained(order, of)
            {
                left -= 1 << order;
                blocks.push(block);
            }
        }
        self.counts.lacking += u64::from(left);
        blocks
    }

    fn free_until(&mut self, now_ns: u64) {
        while self.waiting.peek().is_some_and(|Reverse((at, _))| *at <= now_ns) {
            let Some(Reverse((_, ended))) = self.waiting.pop() else { break };
            self.give(ended);
        }
    }

    fn give(&mut self, (blocks, reclaimable): Ended) {
        let pages = pages_of(&blocks);
        self.counts.of_slabs -= pages;
        self.counts.reclaimable -= if reclaimable { pages } else { 0 };
        blocks.into_iter().for_each(|block| self.memory.put(block));
    }

    /// Pages were taken.
    fn look(&mut self) {
        self.counts.most_of_slabs = self.counts.most_of_slabs.max(self.counts.of_slabs);
        let free = self.memory.free_pages() + self.memory.kept_pages();
        if free < self.fewest.pages + self.fewest.kept {
            self.fewest = free_of(&self.memory, self.now_ns);
        }
    }
}

fn free_of(memory: &Memory, time_ns: u64) -> Free {
    let (pages, kept) = (memory.free_pages(), memory.kept_pages());
    Free { time_ns, pages, blocks: memory.counts(), kept }
}

fn pages_of(blocks: &[Block]) -> u32 {
    blocks.iter().map(|(_, order)| 1 << order).sum()
}

/// The pages as one cache requests them.
struct OfCache {
    pages: Pages,
    slabs: Slabs,
}

impl Supply for OfCache {
    fn begin(&self, slab: u32, _: u16) -> Option<Order> {
        self.pages.begin_slab(self.slabs, slab)
    }

    fn adopt(&self, slab: u32, _: u16) {
        let state = &mut *self.pages.0.borrow_mut();
        let aside = state.aside.get_mut(&self.slabs.cache).and_then(Vec::pop);
        let blocks = aside.unwrap_or_else(|| state.whole(self.slabs));
        state.of_slabs.insert((self.slabs.cache, slab), blocks);
    }

    fn end(&self, slab: u32) {
        self.pages.end_slab(self.slabs, slab);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLABS: Slabs = Slabs { cache: 0, order: 2, least: 0, of: Type::Unmovable, delay_ns: 0 };

    fn sum(pages: &Pages) -> u32 {
        let (free, counts) = (pages.free(), pages.counts());
        free.pages + free.kept + counts.of_slabs + counts.of_requests
    }

    /// 16 pages, of which every second one is held by a single request: 8 are free, no two in a
    /// row.
    #[test]
    fn a_slab_without_a_block_of_its_order_gets_the_least() {
        let pages = Pages::new(16, 4096, 1);
        let single: Vec<Block> =
            (0..16).map(|_| pages.take(0, Type::Unmovable).expect("a page")).collect();
        single.iter().filter(|(at, _)| at % 2 == 1).for_each(|block| pages.put(*block));
        let supply = pages.supply(SLABS);
        let got: Vec<Option<Order>> = (1..=9).map(|slab| supply.begin(slab, 0)).collect();
        assert_eq!(got[..8], [Some(Order::Least); 8]);
        assert_eq!((got[8], pages.has(SLABS), pages.counts().fallbacks), (None, false, 8));
        assert_eq!((pages.fewest().pages, pages.fewest().kept), (0, 0));
        assert_eq!(sum(&pages), 16);
        supply.end(3);
        assert!(pages.has(SLABS));
        // SLAB's caches ask for their order alone.
        let alone = pages.supply(Slabs { cache: 1, least: 2, ..SLABS });
        assert_eq!(alone.begin(1, 0), None);
        single.iter().filter(|(at, _)| at % 2 == 0).for_each(|block| pages.put(*block));
        (1..=2).for_each(|slab| supply.end(slab));
        assert_eq!(alone.begin(1, 0), Some(Order::Cache));
        assert_eq!(sum(&pages), 16);
    }

    #[test]
    fn what_readers_may_look_at_is_not_free() {
        let pages = Pages::new(8, 4096, 1);
        let supply = pages.supply(Slabs { order: 3, least: 3, delay_ns: 1000, ..SLABS });
        pages.at(100, 0);
        assert_eq!(supply.begin(1, 0), Some(Order::Cache));
        supply.end(1);
        assert_eq!((supply.begin(1, 0), pages.waiting(), pages.counts().of_slabs), (None, 8, 8));
        pages.at(1099, 0);
        assert!(!pages.has(SLABS));
        pages.at(1100, 0);
        assert_eq!((supply.begin(1, 0), pages.waiting()), (Some(Order::Cache), 0));
    }

    #[test]
    fn what_was_before_is_whole_and_lacks_what_is_not_there() {
        let pages = Pages::new(11, 4096, 1);
        pages.set_aside(SLABS);
        let supply = pages.supply(SLABS);
        supply.adopt(1, 0);
        assert_eq!(pages.counts().of_slabs, 4, "those that were set aside");
        supply.adopt(2, 0);
        supply.adopt(3, 0);
        assert_eq!((pages.counts().of_slabs, pages.counts().lacking), (11, 1));
        assert_eq!(pages.take_before(1, Type::Movable), []);
        assert_eq!((pages.counts().lacking, sum(&pages)), (3, 11));
    }
}
