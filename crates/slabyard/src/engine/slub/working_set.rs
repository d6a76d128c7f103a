//! How many full sheaves a barn keeps follows use.
//!
//! What a barn had no room for goes home, into the slabs. Where the same cache takes
//! objects out of its slabs soon after, that way was for nothing: it is *overflow_misses*, and
//! for each few sheaves' worth of overflow_miss the barn may keep one more. At a round its limit
//! falls by the sheaves that nobody wanted since the last (the depot's working set of
//! Bonwick and Adams, USENIX 2001), by a part at least: what is needed once in a while is
//! not worth its memory. So a program that goes up and down by more than sheaves hold
//! exchanges them whole, and one that frees for good, or goes on with other sizes, parks
//! no more than before.
//!
//! Objects of a cache line or less have elements beside them of an eighth of their size and
//! more, and live by the million: there the barn may rise to a share of what is out of the
//! slabs.
//!
//! Neighbours: [`super::free`] tells what went home, [`super::alloc`] what was taken out of
//! slabs, [`super::barn`] holds the sheaves and asks for the limit. The counts are hints: a
//! lost one is a limit that follows later. The limit changes under the barn's lock alone,
//! so that one that somebody set stays.

use super::barn::most_full;
use super::{Cache, Shape};
use crate::pages::PageHeap;
use crate::platform::Platform;
use crate::sync::{AtomicU32, Ordering};

/// Sheaves' worth of overflow_miss for which the limit rises by one.
const RISE: u32 = 4;
/// One part of so many, of what the limit is above its least, falls at each round.
const FALL: u32 = 4;
/// Of small objects a barn may follow to one part of so many of those that are out.
const SMALL_PART: u64 = 8;

/// What was sent home, and what came back.
pub(super) struct WorkingSet {
    /// Objects for which there was no room, since the last round, less those that came back.
    count_flushed: AtomicU32,
    /// Objects that came back, less those paid for by a rise of the limit.
    overflow_misses: AtomicU32,
    /// 1: the limit does not follow, because somebody set it.
    is_fixed: AtomicU32,
}

impl WorkingSet {
    pub(super) const fn new() -> Self {
        WorkingSet {
            count_flushed: AtomicU32::new(0),
            overflow_misses: AtomicU32::new(0),
            is_fixed: AtomicU32::new(0),
        }
    }

    /// The limit stays as it is, from now on.
    pub(super) fn fix(&self) {
        self.is_fixed.store(1, Ordering::Relaxed);
    }

    fn is_fixed(&self) -> bool {
        self.is_fixed.load(Ordering::Relaxed) != 0
    }
}

impl Cache {
    /// So many objects went home because the barn was full.
    pub(super) fn count_flushed(&self, objects: u32) {
        self.working_set.count_flushed.fetch_add(objects, Ordering::Relaxed);
    }

    /// So many objects were taken out of slabs because the barn had none.
    pub(super) fn took_out<P: Platform>(&self, g: &PageHeap<P>, objects: u32) {
        let WorkingSet { count_flushed, overflow_misses, .. } = &self.working_set;
        let sent = count_flushed.load(Ordering::Relaxed);
        if sent == 0 || self.working_set.is_fixed() {
            return;
        }
        let back = sent.min(objects);
        count_flushed.store(sent - back, Ordering::Relaxed);
        let overflow_miss = overflow_misses.load(Ordering::Relaxed) + back;
        let price = RISE * self.sheaf_capacity();
        if overflow_miss >= price {
            self.raise(g, overflow_miss / price);
        }
        overflow_misses.store(overflow_miss % price, Ordering::Relaxed);
    }

    #[cold]
    fn raise<P: Platform>(&self, g: &PageHeap<P>, sheaves: u32) {
        let _barn = self.barn.lock(&g.platform);
        if !self.working_set.is_fixed() {
            let limit = self.barn_limits().0;
            let raised = (limit + sheaves).min(self.most_followed()).max(limit);
            self.shown.barn_full_limit.store(raised.into(), Ordering::Relaxed);
        }
    }

    /// The highest limit that follows use.
    fn most_followed(&self) -> u32 {
        if self.shape().geometry.size > Shape::SMALL {
            return u32::MAX;
        }
        (self.out() / SMALL_PART) as u32 / self.sheaf_capacity()
    }

    /// At a round: so many full sheaves were not wanted since the last. Under the barn's
    /// lock.
    pub(super) fn not_wanted(&self, sheaves: u32) {
        self.working_set.count_flushed.store(0, Ordering::Relaxed);
        if !self.working_set.is_fixed() {
            let least = most_full(self.shape().geometry.size);
            let limit = self.barn_limits().0;
            let fall = sheaves.max(limit.saturating_sub(least).div_ceil(FALL));
            let limit = limit.saturating_sub(fall).max(least);
            self.shown.barn_full_limit.store(limit.into(), Ordering::Relaxed);
        }
    }
}
