//! The free pages of a zone, as a kernel has them after its boot: blocks by order and type, with
//! per-CPU page lists in front of them.
//!
//! - A block is taken from the head of its type's list of the lowest order that has one. When the
//!   block is split, the upper halves are added at the heads of their lists
//!   ([`super::free_lists`]).
//! - If the type has no block, another type's pageblock is taken over ([`super::pageblocks`]).
//! - Blocks up to order [`MOST_KEPT`] go through the lists of the requesting CPU ([`super::kept`]).
//!   The kernel does not count pages on these lists as free.
//!
//! A row of [`Rules`] holds what differs between releases.
//!
//! `super::memory` chooses between this zone and [`super::buddy`]; [`super::state`] reads a
//! kernel's reports. Invariant: a page is in at most one free block or per-CPU list.

use super::buddy::{Block, MOST_ORDER};
use super::free_lists::{FreeLists, ListEnd};
use super::kept::{Back, KeptPages, Limits, MOST_KEPT};
use super::mobility::{Mobility, Rules, Type};
use super::pageblocks::{Pageblocks, Search};
use std::ops::Range;

/// A kernel's buddy with its types of pages: where a block is taken from, and where it is put.
pub struct Zone {
    free: FreeLists,
    pageblocks: Pageblocks,
    rules: Rules,
    limits: Limits,
    /// What each CPU keeps, and which one asks.
    cpus: Vec<KeptPages>,
    cpu: usize,
}

/// Pages of a pageblock, which is as large as a huge page, as an order.
const PAGEBLOCK_ORDER: u8 = 9;

impl Zone {
    /// A zone of so many pages, none of which is free; types are those of pageblocks, in order.
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
            rules,
            limits: Limits { high: 0, most: 0, batch: 1 },
            cpus: vec![KeptPages::new(rules.adapts)],
            cpu: 0,
        }
    }

    /// A machine's zone, all of whose pages are free; none was requested yet. Its rules are those
    /// of 6.1.
    #[must_use]
    pub fn whole(pages: u32) -> Zone {
        // Fewer pageblocks than types: nothing is grouped.
        let mobility = if pages >> PAGEBLOCK_ORDER < 4 { Mobility::Off } else { Mobility::Grouped };
        let mut zone = Zone::new(Rules::of("6.1"), pages, mobility, PAGEBLOCK_ORDER, &[]);
        let mut at = 0;
        while at < pages {
            let aligned = if at == 0 { MOST_ORDER } else { at.trailing_zeros() as u8 };
            let order = MOST_ORDER.min(aligned).min((pages - at).ilog2() as u8);
            zone.begin_with((at, order), Type::Movable);
            at += 1 << order;
        }
        zone
    }

    /// From now on a CPU allocates and frees.
    pub fn on(&mut self, cpu: usize) {
        while self.cpus.len() <= cpu {
            let mut kept = KeptPages::new(self.rules.adapts);
            kept.limit(self.limits);
            self.cpus.push(kept);
        }
        self.cpu = cpu;
    }

    /// It spans no more than these pages; without this, all.
    pub fn span(&mut self, pages: Range<u32>) {
        self.pageblocks.span(pages);
    }

    /// A free block, behind the existing ones.
    pub fn begin_with(&mut self, (at, order): Block, of: Type) {
        self.free.list(at, order, of, ListEnd::Tail);
    }

    /// Limits are others from now on.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        self.cpus.iter_mut().for_each(|kept| kept.limit(limits));
    }

    /// Pages in free blocks.
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        self.free.pages()
    }

    /// Pages that CPUs keep.
    #[must_use]
    pub fn kept_pages(&self) -> u32 {
        self.cpus.iter().map(KeptPages::pages).sum()
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
        let kept = &mut self.cpus[self.cpu];
        kept.asked();
        if let Some(at) = kept.pop(order, of) {
            return Some(at);
        }
        for _ in 0..kept.wanted(order) {
            match self.pageblocks.take(&mut self.free, order, of, &mut search) {
                Some(at) => kept.refill(at, order, of),
                None => break,
            }
        }
        kept.pop(order, of)
    }

    /// Gives back a block.
    pub fn put(&mut self, (at, order): Block) {
        self.pageblocks.hold((at, order), false);
        let of = self.pageblocks.type_of(at);
        if order > MOST_KEPT {
            return self.free.put(at, order, of);
        }
        let back = self.cpus[self.cpu].put(at, order, of);
        self.put_all(back);
    }

    /// All that CPUs keep becomes free.
    pub fn drain(&mut self) {
        (0..self.cpus.len()).for_each(|cpu| self.drain_of(cpu));
    }

    /// All that a CPU keeps becomes free.
    pub fn drain_of(&mut self, cpu: usize) {
        if let Some(kept) = self.cpus.get_mut(cpu) {
            let back = kept.back(kept.pages(), 0);
            self.put_all(back);
        }
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
    fn each_cpu_keeps_its_own() {
        let mut zone = Zone::whole(2048);
        zone.limit(LIMITS);
        let taken: Vec<Block> = (0..10).map(|_| zone.take(0, Type::Unmovable).unwrap()).collect();
        for (cpu, block) in taken[..8].iter().enumerate() {
            zone.on(cpu % 2);
            zone.put(*block);
        }
        assert_eq!((zone.free_pages(), zone.kept_pages()), (2038, 8), "neither is at its limit");
        assert_eq!(zone.take(0, Type::Unmovable), Some(taken[7]), "what this CPU freed last");
        zone.drain_of(1);
        assert_eq!((zone.free_pages(), zone.kept_pages()), (2041, 4));
        zone.drain();
        assert_eq!((zone.free_pages(), zone.kept_pages()), (2045, 0));
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
