//! The clock algorithm of Linux 2.4: one hand over all caches, which reaps the best one examined.
//!
//! kmem_cache_reap ran whenever the kernel wanted memory, under one semaphore for all caches. From
//! the hand's position it examines up to [`SCANNED`] caches. It skips caches that must not be
//! reaped, that are growing, or that grew since the hand last passed; for each other one it drains
//! this CPU's array and scores the free slabs. The first cache with [`PERFECT`] pages in free slabs
//! ends the search. Half of the best cache's free slabs are discarded.
//!
//! The code works on any [`Chain`]: yards ([`crate::reap`]) and the lab have one.
//! Invariant: the caller holds the chain's lock, in place of the kernel's semaphore.

use crate::sync::{AtomicU32, Ordering};

/// Caches that one reap looks at (REAP_SCANLEN).
pub const SCANNED: u32 = 10;
/// Pages that end the search (REAP_PERFECT).
pub const PERFECT: u32 = 10;

/// What the clock sees of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Slabs without a live or parked object.
    pub free_slabs: u32,
    /// A slab has 2^order pages.
    pub order: u32,
    /// Objects were constructed, which would have to be done again.
    pub has_constructor: bool,
}

impl Look {
    /// Pages that the free slabs count as: those of a cache with a constructor four fifths, and
    /// those of slabs of several pages four fifths of that, as the kernel rounded it.
    #[must_use]
    pub const fn score(&self) -> u32 {
        let mut pages = self.free_slabs << self.order;
        if self.has_constructor {
            pages = (pages * 4 + 1) / 5;
        }
        if self.order > 0 {
            pages = (pages * 4 + 1) / 5;
        }
        pages
    }

    /// Slabs that end, if it is the best.
    #[must_use]
    pub const fn to_end(&self) -> u32 {
        self.free_slabs.div_ceil(2)
    }
}

/// The caches, in a ring.
pub trait Chain {
    /// The first cache from a number on, if there is one.
    fn next_cache(&self, from: usize) -> Option<usize>;
    /// False if this reap must pass over the cache. Forgets that it grew.
    fn may_reap(&self, cache: usize) -> bool;
    /// Drains this CPU's array.
    fn drain_own(&self, cache: usize);
    /// What the cache has.
    fn look(&self, cache: usize) -> Look;
    /// Discards free slabs, this many at most; returns how many.
    fn end_free(&self, cache: usize, most: u32) -> u32;
}

/// Totals of one turn of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Caches that it looked at.
    pub scanned: u32,
    /// Slabs that ended.
    pub slabs: u32,
    /// Pages of the discarded slabs.
    pub pages: u32,
}

/// Reaps once, from the position of the hand. The caller holds the semaphore.
pub fn reap(hand: &AtomicU32, chain: &impl Chain) -> Reaped {
    let from = |at: usize| chain.next_cache(at).or_else(|| chain.next_cache(0));
    let Some(first) = from(hand.load(Ordering::Relaxed) as usize) else {
        return Reaped::default();
    };
    let mut best: Option<(usize, Look)> = None;
    let (mut at, mut scanned) = (first, 0);
    loop {
        scanned += 1;
        if chain.may_reap(at) {
            chain.drain_own(at);
            let look = chain.look(at);
            if look.score() > best.map_or(0, |(_, best)| best.score()) {
                best = Some((at, look));
            }
        }
        at = from(at + 1).unwrap_or(first);
        let is_perfect = best.is_some_and(|(_, best)| best.score() >= PERFECT);
        if is_perfect || scanned == SCANNED || at == first {
            break;
        }
    }
    hand.store(at as u32, Ordering::Relaxed);
    let Some((cache, look)) = best else { return Reaped { scanned, ..Reaped::default() } };
    let slabs = chain.end_free(cache, look.to_end());
    Reaped { scanned, slabs, pages: slabs << look.order }
}

/// Moves the hand on by as many caches as one reap looks at; returns where it stood.
pub fn pass_on(hand: &AtomicU32, chain: &impl Chain) -> u32 {
    let from = |at: usize| chain.next_cache(at).or_else(|| chain.next_cache(0)).unwrap_or(0);
    let next = |stood: u32| (0..SCANNED).fold(stood as usize, |at, _| from(at) + 1) as u32;
    // A hint: what a cache has is under the cache's own lock.
    let moved = hand.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |stood| Some(next(stood)));
    moved.unwrap_or_else(|stood| stood)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;
    use std::vec::Vec;

    #[derive(Default)]
    struct Ring {
        looks: Vec<Look>,
        /// Those to pass over, once.
        grown: RefCell<Vec<usize>>,
        drained: RefCell<Vec<usize>>,
        ended: RefCell<Vec<(usize, u32)>>,
    }

    impl Chain for Ring {
        fn next_cache(&self, from: usize) -> Option<usize> {
            (from < self.looks.len()).then_some(from)
        }
        fn may_reap(&self, cache: usize) -> bool {
            let mut grown = self.grown.borrow_mut();
            let before = grown.len();
            grown.retain(|grown| *grown != cache);
            grown.len() == before
        }
        fn drain_own(&self, cache: usize) {
            self.drained.borrow_mut().push(cache);
        }
        fn look(&self, cache: usize) -> Look {
            self.looks[cache]
        }
        fn end_free(&self, cache: usize, most: u32) -> u32 {
            self.ended.borrow_mut().push((cache, most));
            most
        }
    }

    fn ring(free: impl IntoIterator<Item = u32>) -> Ring {
        let look = |free_slabs| Look { free_slabs, ..Look::default() };
        Ring { looks: free.into_iter().map(look).collect(), ..Ring::default() }
    }

    #[test]
    fn constructors_and_orders_count_four_fifths() {
        for (free_slabs, order, has_constructor, score) in [
            (0, 0, false, 0),
            (1, 0, false, 1),
            (1, 0, true, 1),
            (10, 0, true, 8),
            (10, 1, false, 16),
            // 20 pages, 16 of a constructor, 13 of several pages.
            (10, 1, true, 13),
            (3, 2, true, 7),
        ] {
            let look = Look { free_slabs, order, has_constructor };
            assert_eq!(look.score(), score, "{look:?}");
        }
    }

    #[test]
    fn the_half_of_the_best_ends() {
        let hand = AtomicU32::new(0);
        for (free, ended) in [(1, 1), (2, 1), (3, 2), (9, 5)] {
            let ring = ring([0, free, 0]);
            let reaped = reap(&hand, &ring);
            assert_eq!(reaped, Reaped { scanned: 3, slabs: ended, pages: ended });
            assert_eq!(ring.ended.into_inner(), [(1, ended)]);
        }
        assert_eq!(reap(&hand, &ring([])), Reaped::default());
        assert_eq!(reap(&hand, &ring([0, 0])), Reaped { scanned: 2, ..Reaped::default() });
    }

    #[test]
    fn ten_caches_are_looked_at_and_the_next_time_the_next_ten() {
        let hand = AtomicU32::new(0);
        let ring = ring((0..25).map(|nth| u32::from(nth == 13)));
        assert_eq!(reap(&hand, &ring), Reaped { scanned: 10, ..Reaped::default() });
        assert_eq!(reap(&hand, &ring), Reaped { scanned: 10, slabs: 1, pages: 1 });
        assert_eq!(reap(&hand, &ring), Reaped { scanned: 10, ..Reaped::default() });
        let drained = ring.drained.into_inner();
        assert!(drained.into_iter().eq((0..25).chain(0..5)));
    }

    #[test]
    fn who_reaps_beside_others_has_ten_caches_of_its_own() {
        let (hand, ring) = (AtomicU32::new(0), ring((0..25).map(|_| 0)));
        let stood = core::array::from_fn(|_| pass_on(&hand, &ring));
        assert_eq!(stood, [0, 10, 20, 5]);
    }

    #[test]
    fn a_perfect_one_ends_the_search() {
        let hand = AtomicU32::new(0);
        let ring = ring([9, 10, 50]);
        assert_eq!(reap(&hand, &ring), Reaped { scanned: 2, slabs: 5, pages: 5 });
        assert_eq!(hand.load(Ordering::Relaxed), 2);
        assert_eq!(reap(&hand, &ring), Reaped { scanned: 1, slabs: 25, pages: 25 });
    }

    #[test]
    fn what_grew_is_passed_over_once() {
        let hand = AtomicU32::new(0);
        let ring = Ring { grown: RefCell::new(std::vec![1]), ..ring([1, 9]) };
        reap(&hand, &ring);
        assert_eq!(*ring.ended.borrow(), [(0, 1)]);
        assert_eq!(*ring.drained.borrow(), [0], "nor is its array drained");
        reap(&hand, &ring);
        assert_eq!(ring.ended.into_inner(), [(0, 1), (1, 5)]);
    }
}
