//! Free pages of a kernel's zone, as a kernel has them after its boot: blocks by order and type, and
//! lists of pages on its CPU in front of them.
//!
//! - A block is taken from the head of the lowest order's list of its type; its upper halves go to
//!   the heads of their lists ([`super::free_lists`]).
//! - Where the type has none, another type's pageblock is taken over ([`super::pageblocks`]).
//! - Blocks up to [`MOST_KEPT`] go through lists of the CPU ([`super::kept`]). Such pages are not
//!   free, by the kernel's count.
//!
//! What differs between releases is a row of [`Rules`].
//!
//! Neighbours: `super::memory` chooses between this and [`super::buddy`]; [`super::state`] reads
//! what a kernel had. Invariant: a page is in one free block, in one list of the CPU, or in none.

use super::buddy::{Block, MOST_ORDER};
use super::free_lists::{At, FreeLists};
use super::kept::{Back, Kept, Limits, MOST_KEPT};
use super::mobility::{Mobility, Rules, Type};
use super::pageblocks::{Pageblocks, Search};
use std::ops::Range;

/// A zone.
pub struct Zone {
    free: FreeLists,
    pageblocks: Pageblocks,
    kept: Kept,
}

impl Zone {
    /// One of so many pages, none of which is free; types are those of pageblocks, in order.
    #[must_use]
    pub fn new(
        rules: Rules,
        pages: u32,
        mobility: Mobility,
        pageblock_order: u8,
        types: &[Type],
    ) -> Zone {
        let takes_over = rules.takes_over;
        Zone {
            free: FreeLists::new(pages),
            pageblocks: Pageblocks::new(takes_over, pages, mobility, pageblock_order, types),
            kept: Kept::new(rules.adapts),
        }
    }

    /// It spans no more than these pages; without this, all.
    pub fn span(&mut self, pages: Range<u32>) {
        self.pageblocks.span(pages);
    }

    /// A free block, behind those that are there.
    pub fn begin_with(&mut self, (at, order): Block, of: Type) {
        self.free.list(at, order, of, At::Tail);
    }

    /// Limits are others from now on.
    pub fn limit(&mut self, limits: Limits) {
        self.kept.limit(limits);
    }

    /// Pages in free blocks.
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        self.free.pages()
    }

    /// Pages that the CPU keeps.
    #[must_use]
    pub fn kept_pages(&self) -> u32 {
        self.kept.pages()
    }

    /// Free blocks of each order.
    #[must_use]
    pub fn counts(&self) -> [u32; MOST_ORDER as usize + 1] {
        self.free.counts()
    }

    /// Takes a block for a request of a type.
    pub fn take(&mut self, order: u8, of: Type) -> Option<Block> {
        let of = self.pageblocks.counts_as(of);
        let at = self.take_at(order, of)?;
        self.pageblocks.hold((at, order), of == Type::Movable);
        Some((at, order))
    }

    fn take_at(&mut self, order: u8, of: Type) -> Option<u32> {
        let mut search = Search::Own;
        if order > MOST_KEPT {
            return self.pageblocks.take(&mut self.free, order, of, &mut search);
        }
        self.kept.asked();
        if let Some(at) = self.kept.pop(order, of) {
            return Some(at);
        }
        for _ in 0..self.kept.wanted(order) {
            match self.pageblocks.take(&mut self.free, order, of, &mut search) {
                Some(at) => self.kept.refill(at, order, of),
                None => break,
            }
        }
        self.kept.pop(order, of)
    }

    /// Gives back a block.
    pub fn put(&mut self, (at, order): Block) {
        self.pageblocks.hold((at, order), false);
        let of = self.pageblocks.type_of(at);
        if order > MOST_KEPT {
            return self.free.put(at, order, of);
        }
        let back = self.kept.put(at, order, of);
        self.put_all(back);
    }

    /// All that the CPU keeps becomes free.
    pub fn drain(&mut self) {
        let back = self.kept.back(self.kept.pages(), 0);
        self.put_all(back);
    }

    fn put_all(&mut self, blocks: Vec<Back>) {
        for (at, order, list) in blocks {
            self.free.put(at, order, self.pageblocks.type_back(at, list));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mobility::RULES;
    use super::*;

    const LIMITS: Limits = Limits { high: 8, most: 8, batch: 1 };

    fn new(mobility: Mobility, types: &[Type]) -> Zone {
        Zone::new(Rules::of("6.1"), 2048, mobility, 9, types)
    }

    fn zone(mobility: Mobility) -> Zone {
        filled(new(mobility, &[]))
    }

    fn filled(mut zone: Zone) -> Zone {
        for at in [0, 512, 1024, 1536] {
            zone.begin_with((at, 9), Type::Movable);
        }
        zone
    }

    #[test]
    fn the_largest_block_of_another_type_is_taken_over() {
        let mut zone = new(Mobility::Off, &[]);
        zone.begin_with((4, 2), Type::Movable);
        zone.begin_with((512, 8), Type::Movable);
        assert_eq!(zone.take(4, Type::Movable), Some((512, 4)), "not of the small one");
        assert_eq!(zone.pageblocks.type_of(600), Type::Unmovable);
        assert_eq!(zone.take(2, Type::Unmovable), Some((528, 2)), "of what was taken over");
        assert_eq!(zone.counts()[2], 2);
    }

    /// As 6.12 does it: a pageblock that the zone has in part is left to its type.
    #[test]
    fn a_pageblock_is_claimed_whole_or_not_at_all() {
        let mut zone = Zone::new(Rules::of("6.12"), 2048, Mobility::Off, 9, &[]);
        zone.begin_with((4, 3), Type::Movable);
        zone.begin_with((1600, 8), Type::Movable);
        zone.span(0..2000);
        assert_eq!(zone.take(4, Type::Unmovable), Some((1600, 4)), "split off, by no claim");
        assert_eq!(
            (zone.pageblocks.type_of(1600), zone.pageblocks.type_of(4)),
            (Type::Movable, Type::Movable)
        );
        assert_eq!(zone.take(2, Type::Unmovable), Some((4, 2)), "of the pageblock that can be");
        assert_eq!(
            (zone.pageblocks.type_of(1600), zone.pageblocks.type_of(4)),
            (Type::Movable, Type::Unmovable)
        );
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
        let mut zone = new(Mobility::Off, &[Type::Unmovable; 4]);
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
        let each = [Mobility::Off, Mobility::Grouped];
        for (mobility, rules) in
            each.into_iter().flat_map(|mobility| RULES.map(|rules| (mobility, rules)))
        {
            let mut zone = filled(Zone::new(rules, 2048, mobility, 9, &[]));
            let mut taken: Vec<Block> = Vec::new();
            let mut seed = 1u32;
            for nth in 0..20_000 {
                if nth == 3000 {
                    zone.limit(Limits { high: 60, most: 300, batch: 3 });
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
