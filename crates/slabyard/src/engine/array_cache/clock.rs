//! The clock algorithm of Linux 2.4: one hand sweeps all caches and reaps the best one examined.
//!
//! kmem_cache_reap ran whenever the kernel wanted memory, under one semaphore for all caches. From
//! the hand's position it examines up to [`SCANNED`] caches. It skips caches that must not be
//! reaped, that are growing, or that grew since the hand last passed; for every other cache it
//! drains this CPU's array and scores the free slabs. The first cache with [`PERFECT`] pages in
//! free slabs ends the search. Half of the best cache's free slabs are discarded.
//!
//! The code works on any [`Chain`]: yards ([`crate::reap`]) and the lab implement it.
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
