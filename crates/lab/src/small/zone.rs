//! Free pages of a kernel's zone, as a kernel has them after its boot: blocks by order and type, and
//! lists of pages on its CPU in front of them.
//!
//! The rules, as Linux 6.1 has them:
//!
//! - A block is taken from the head of the lowest order's list of its type; its upper halves go to
//!   the heads of their lists.
//! - Where the type has none, the largest block of another type is taken over, with all that is
//!   free of its pageblock; what moves goes to the tails. On a machine
//!   too small to group pages by mobility every request is unmovable, and pageblocks are movable
//!   until they are taken over so.
//! - A freed block is joined with its buddy, whatever that one's type. It goes to the head; but to
//!   the tail if it would be joined again as soon as its own buddy is freed: the next higher pair is
//!   free.
//! - Blocks up to [`MOST_KEPT`] go through a list of the CPU: freed ones to its head, and
//!   what is above the limit back, from the tails of all lists in turn. Such pages are not free, by
//!   the kernel's count.
//!
//! Neighbours: `super::memory` chooses between this and [`super::buddy`]; [`super::state`] reads
//! what a kernel had. Invariants: a page is in one free block, in one list of the CPU, or in none;
//! two free buddies of one order do not stay apart.

use super::buddy::{Block, MOST_ORDER};
use std::collections::VecDeque;

/// Blocks of up to this order are kept on CPUs.
pub const MOST_KEPT: u8 = 3;

/// Most doublings of what goes back from a CPU at once.
const MOST_DOUBLINGS: u32 = 5;

const ORDERS: usize = MOST_ORDER as usize + 1;
const KEPT_ORDERS: usize = MOST_KEPT as usize + 1;
const TYPES: usize = 3;

/// What a page may be moved or reclaimed by; numbers are the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// The kernel's own.
    #[default]
    Unmovable = 0,
    /// Of processes and files.
    Movable = 1,
    /// Of shrinkers.
    Reclaimable = 2,
}

impl Type {
    const ALL: [Type; TYPES] = [Type::Unmovable, Type::Movable, Type::Reclaimable];

    /// By the kernel's number; types that are set aside count as unmovable.
    #[must_use]
    pub fn of(number: u8) -> Type {
        Type::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// Whose blocks are taken over, in this order.
    fn others(self) -> [Type; 2] {
        match self {
            Type::Unmovable => [Type::Reclaimable, Type::Movable],
            Type::Movable => [Type::Reclaimable, Type::Unmovable],
            Type::Reclaimable => [Type::Unmovable, Type::Movable],
        }
    }
}

/// Limits of the CPU's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Pages from which on some go back; 0: each at once.
    pub high: u32,
    /// How many go back at least, and come at once.
    pub batch: u32,
}

/// Whether a request's type counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mobility {
    /// Pages are grouped by it.
    Grouped,
    /// The machine is too small for that.
    Off,
}

/// A free block begins there.
#[derive(Clone, Copy)]
struct Head {
    order: u8,
    stamp: u32,
}

/// A zone.
pub struct Zone {
    mobility: Mobility,
    /// Head first; entries of blocks that left meanwhile stay until they are met.
    lists: [[VecDeque<(u32, u32)>; TYPES]; ORDERS],
    heads: Vec<Option<Head>>,
    of_pageblock: Vec<Type>,
    pageblock_order: u8,
    counts: [u32; ORDERS],
    free_pages: u32,
    stamps: u32,
    kept: [[VecDeque<u32>; TYPES]; KEPT_ORDERS],
    kept_pages: u32,
    limits: Limits,
    /// Times that freed pages went back, without an allocation in between.
    doublings: u32,
}

/// Where a block is put in its list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Head,
    Tail,
}

impl Zone {
    /// One of so many pages, none of which is free; types are those of pageblocks, in order.
    #[must_use]
    pub fn new(pages: u32, mobility: Mobility, pageblock_order: u8, types: &[Type]) -> Zone {
        let pageblocks = (pages >> pageblock_order) as usize + 1;
        let mut of_pageblock = types.to_vec();
        of_pageblock.resize(pageblocks, Type::Movable);
        Zone {
            mobility,
            lists: Default::default(),
            heads: vec![None; pages as usize],
            of_pageblock,
            pageblock_order,
            counts: [0; ORDERS],
            free_pages: 0,
            stamps: 0,
            kept: Default::default(),
            kept_pages: 0,
            limits: Limits { high: 0, batch: 1 },
            doublings: 0,
        }
    }

    /// A free block, behind those that are there.
    pub fn begin_with(&mut self, (at, order): Block, of: Type) {
        self.list(at, order, of, At::Tail);
        self.free_pages += 1 << order;
    }

    /// Limits are others from now on.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Pages in free blocks.
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        self.free_pages
    }

    /// Pages that the CPU keeps.
    #[must_use]
    pub fn kept_pages(&self) -> u32 {
        self.kept_pages
    }

    /// Free blocks of each order.
    #[must_use]
    pub fn counts(&self) -> [u32; ORDERS] {
        self.counts
    }

    /// Takes a block for a request of a type.
    pub fn take(&mut self, order: u8, of: Type) -> Option<Block> {
        let of = if self.mobility == Mobility::Off { Type::Unmovable } else { of };
        if order > MOST_KEPT {
            return self.take_free(order, of).map(|at| (at, order));
        }
        self.doublings >>= 1;
        let list = (usize::from(order), of as usize);
        if self.kept[list.0][list.1].is_empty() {
            let batch = self.limits.batch;
            let wanted = if batch > 1 { (batch >> order).max(2) } else { 1 };
            for _ in 0..wanted {
                let Some(at) = self.take_free(order, of) else { break };
                self.kept[list.0][list.1].push_back(at);
                self.kept_pages += 1 << order;
            }
        }
        let at = self.kept[list.0][list.1].pop_front()?;
        self.kept_pages -= 1 << order;
        Some((at, order))
    }

    /// Gives back a block.
    pub fn put(&mut self, (at, order): Block) {
        let of = self.type_of(at);
        if order > MOST_KEPT {
            self.free(at, order, of);
            return;
        }
        self.kept[usize::from(order)][of as usize].push_front(at);
        self.kept_pages += 1 << order;
        let all = self.doublings > 0 && order > 0;
        let high = if all { 0 } else { self.limits.high };
        if self.kept_pages >= high {
            let count = if all { self.kept_pages } else { self.nr_back() };
            self.give_back(count, usize::from(order) * TYPES + of as usize);
        }
    }

    /// All that the CPU keeps becomes free.
    pub fn drain(&mut self) {
        self.give_back(self.kept_pages, 0);
    }

    fn nr_back(&mut self) -> u32 {
        let Limits { high, batch } = self.limits;
        if high < batch {
            return 1;
        }
        let most = high - batch;
        let count = batch << self.doublings;
        if count < most && self.doublings < MOST_DOUBLINGS {
            self.doublings += 1;
        }
        count.max(batch).min(most)
    }

    /// So many pages, from a list's tail first, then from the next lists'.
    fn give_back(&mut self, count: u32, first: usize) {
        let mut left = i64::from(count.min(self.kept_pages));
        let mut nth = first;
        while left > 0 {
            let (order, of) = (nth / TYPES, nth % TYPES);
            while left > 0
                && let Some(at) = self.kept[order][of].pop_back()
            {
                left -= 1 << order;
                self.kept_pages -= 1 << order;
                self.free(at, order as u8, Type::ALL[of]);
            }
            nth = (nth + 1) % (KEPT_ORDERS * TYPES);
        }
    }

    fn take_free(&mut self, order: u8, of: Type) -> Option<u32> {
        loop {
            if let Some(at) = self.take_of_type(order, of) {
                self.free_pages -= 1 << order;
                return Some(at);
            }
            self.take_over(order, of)?;
        }
    }

    fn take_of_type(&mut self, order: u8, of: Type) -> Option<u32> {
        let (at, from) = (order..=MOST_ORDER).find_map(|from| Some((self.pop(from, of)?, from)))?;
        for half in (order..from).rev() {
            self.list(at + (1 << half), half, of, At::Head);
        }
        Some(at)
    }

    /// Makes free pages of another type be of this one.
    fn take_over(&mut self, order: u8, of: Type) -> Option<()> {
        let (at, order) = (order..=MOST_ORDER).rev().find_map(|order| {
            let other = of.others().into_iter().find_map(|other| self.first(order, other));
            Some((other?, order))
        })?;
        let pageblock = at >> self.pageblock_order;
        let pages = 1 << self.pageblock_order;
        let mut page = pageblock << self.pageblock_order;
        let end = if order < self.pageblock_order { page + pages } else { at + (1 << order) };
        for pageblock in pageblock..end.div_ceil(pages) {
            self.of_pageblock[pageblock as usize] = of;
        }
        while page < end.min(self.heads.len() as u32) {
            page += match self.heads[page as usize] {
                Some(head) => {
                    self.unlist(page);
                    self.list(page, head.order, of, At::Tail);
                    1 << head.order
                }
                None => 1,
            };
        }
        Some(())
    }

    fn free(&mut self, mut at: u32, mut order: u8, of: Type) {
        self.free_pages += 1 << order;
        while order < MOST_ORDER && self.is_free(at ^ (1 << order), order) {
            self.unlist(at ^ (1 << order));
            at &= !(1 << order);
            order += 1;
        }
        let will_join = order + 1 < MOST_ORDER && {
            let pair = at & !(1 << order);
            self.is_free(pair ^ (1 << (order + 1)), order + 1)
        };
        self.list(at, order, of, if will_join { At::Tail } else { At::Head });
    }

    fn type_of(&self, at: u32) -> Type {
        self.of_pageblock[(at >> self.pageblock_order) as usize]
    }

    fn is_free(&self, at: u32, order: u8) -> bool {
        matches!(self.heads.get(at as usize), Some(Some(head)) if head.order == order)
    }

    fn is_listed(&self, (at, stamp): (u32, u32)) -> bool {
        matches!(self.heads[at as usize], Some(head) if head.stamp == stamp)
    }

    /// The list's head.
    fn first(&mut self, order: u8, of: Type) -> Option<u32> {
        let at = self.pop(order, of)?;
        self.list(at, order, of, At::Head);
        Some(at)
    }

    fn pop(&mut self, order: u8, of: Type) -> Option<u32> {
        loop {
            let entry = self.lists[usize::from(order)][of as usize].pop_front()?;
            if self.is_listed(entry) {
                self.unlist(entry.0);
                return Some(entry.0);
            }
        }
    }

    fn list(&mut self, at: u32, order: u8, of: Type, end: At) {
        self.stamps += 1;
        self.heads[at as usize] = Some(Head { order, stamp: self.stamps });
        self.counts[usize::from(order)] += 1;
        let list = &mut self.lists[usize::from(order)][of as usize];
        match end {
            At::Head => list.push_front((at, self.stamps)),
            At::Tail => list.push_back((at, self.stamps)),
        }
    }

    fn unlist(&mut self, at: u32) {
        if let Some(head) = self.heads[at as usize].take() {
            self.counts[usize::from(head.order)] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { high: 8, batch: 1 };

    fn zone(mobility: Mobility) -> Zone {
        let mut zone = Zone::new(2048, mobility, 9, &[]);
        for at in [0, 512, 1024, 1536] {
            zone.begin_with((at, 9), Type::Movable);
        }
        zone
    }

    #[test]
    fn the_largest_block_of_another_type_is_taken_over() {
        let mut zone = Zone::new(2048, Mobility::Off, 9, &[]);
        zone.begin_with((4, 2), Type::Movable);
        zone.begin_with((512, 8), Type::Movable);
        assert_eq!(zone.take(4, Type::Movable), Some((512, 4)), "not of the small one");
        assert_eq!(zone.type_of(600), Type::Unmovable);
        assert_eq!(zone.take(2, Type::Unmovable), Some((528, 2)), "of what was taken over");
        assert_eq!(zone.counts()[2], 2);
    }

    #[test]
    fn freed_pages_stay_on_the_cpu_up_to_its_limit() {
        let mut zone = zone(Mobility::Off);
        zone.limit(LIMITS);
        let taken: Vec<Block> = (0..20).map(|_| zone.take(0, Type::Unmovable).unwrap()).collect();
        assert_eq!((zone.free_pages(), zone.kept_pages()), (2028, 0));
        taken[..7].iter().for_each(|block| zone.put(*block));
        assert_eq!((zone.free_pages(), zone.kept_pages()), (2028, 7));
        assert_eq!(zone.take(0, Type::Unmovable), Some(taken[6]), "the one freed last");
        zone.put(taken[6]);
        zone.put(taken[7]);
        assert_eq!((zone.free_pages(), zone.kept_pages()), (2029, 7), "one went back");
        zone.put(taken[8]);
        assert_eq!((zone.free_pages(), zone.kept_pages()), (2031, 6), "then two");
        let pair = zone.take(1, Type::Unmovable).unwrap();
        zone.put(taken[9]);
        zone.put(taken[10]);
        zone.put(pair);
        assert_eq!(zone.kept_pages(), 0, "a block of an order above 0 takes all along");
        zone.drain();
        taken[11..].iter().for_each(|block| zone.put(*block));
        zone.drain();
        assert_eq!((zone.free_pages(), zone.counts()[9], zone.counts()[10]), (2048, 2, 1));
    }

    #[test]
    fn a_block_that_will_be_joined_again_is_taken_last() {
        let mut zone = Zone::new(2048, Mobility::Off, 9, &[Type::Unmovable; 4]);
        zone.begin_with((0, 9), Type::Unmovable);
        let mut taken: Vec<Block> =
            (0..16).map(|_| zone.take(0, Type::Unmovable).unwrap()).collect();
        assert_eq!(taken[15], (15, 0));
        // 2 and 3 are free as a pair, so page 0 will be joined with 1, and with the pair.
        for at in [12, 2, 3, 0] {
            zone.put(taken[at]);
        }
        taken.clear();
        let next: Vec<u32> = (0..2).map(|_| zone.take(0, Type::Unmovable).unwrap().0).collect();
        assert_eq!(next, [12, 0]);
    }

    #[test]
    fn pages_are_neither_lost_nor_doubled() {
        for mobility in [Mobility::Off, Mobility::Grouped] {
            let mut zone = zone(mobility);
            let mut taken: Vec<Block> = Vec::new();
            let mut seed = 1u32;
            for nth in 0..20_000 {
                if nth == 3000 {
                    zone.limit(Limits { high: 60, batch: 3 });
                }
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (order, of) = ((seed >> 24) as u8 % 6, Type::of((seed >> 12) as u8 % 3));
                if seed >> 31 == 0
                    && let Some(block) = zone.take(order, of)
                {
                    taken.push(block);
                } else if !taken.is_empty() {
                    zone.put(taken.swap_remove((seed >> 8) as usize % taken.len()));
                }
                let held: u32 = taken.iter().map(|(_, order)| 1 << order).sum();
                assert_eq!(held + zone.free_pages() + zone.kept_pages(), 2048);
            }
            taken.into_iter().for_each(|block| zone.put(block));
            zone.drain();
            assert_eq!((zone.free_pages(), zone.counts()[9] + 2 * zone.counts()[10]), (2048, 4));
        }
    }
}
