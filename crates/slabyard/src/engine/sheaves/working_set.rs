//! Adapts the limit of full sheaves in a barn to the program's use.
//!
//! The slow path of a free flushes objects to the slabs where the barn is full. Where the
//! same cache refills a sheaf from its slabs before the next reclaim pass, the barn should
//! have kept them: these objects count as *overflow misses*, and for each [`RISE`] sheaves'
//! worth of them the limit rises by one. At a pass the limit falls by the sheaves that were
//! unused since the last one (the depot's working set of Bonwick and Adams, USENIX 2001),
//! and by one part in [`FALL`] at least: what is needed once in a while is not worth its
//! memory. So a program whose number of objects goes up and down by more than sheaves hold
//! comes to exchange whole sheaves, and one that frees for good, or goes on with other
//! sizes, parks no more than before.
//!
//! An object of a cache line or less needs an eighth of its size or more for its element in
//! a sheaf, and such objects live by the million: there the limit may rise only to a share
//! of the objects that are out of the slabs.
//!
//! Neighbours: [`super::free`] counts what it flushed, [`super::alloc`] what it refilled,
//! [`super::barn`] holds the sheaves and reads the limit. The counts are hints: if one is
//! lost, the limit follows later. The limit changes under the barn's lock alone, so that
//! one that was set by hand stays.

use super::Sheaves;
use super::barn::most_full;
use crate::engine::slabs::Stacks;
use crate::engine::{Header, Shape};
use crate::sync::{AtomicU32, Ordering};

/// Sheaves' worth of overflow misses for which the limit rises by one.
const RISE: u32 = 4;
/// At each reclaim pass the limit falls by at least one part in so many of what it is above
/// its least.
const FALL: u32 = 4;
/// A barn of small objects may keep one part in so many of those that are out.
/// Without a bound objects of 12 to 32 bytes of two threads peak at 17.5 MiB in place of 15.9
/// (dcbd240); with a fixed barn trees of small nodes took 150 ms in place of 139 (4f00ceb).
const SMALL_PART: u64 = 8;

/// What was flushed, and what was refilled of it.
pub(super) struct WorkingSet {
    /// Objects flushed because the barn was full, since the last reclaim pass, less those
    /// refilled.
    flushed: AtomicU32,
    /// Objects flushed and refilled within a pass, less those that raised the limit.
    overflow_misses: AtomicU32,
    /// 1: the limit was set by hand, and does not follow use.
    is_fixed: AtomicU32,
}

impl WorkingSet {
    pub(super) const fn new() -> Self {
        WorkingSet {
            flushed: AtomicU32::new(0),
            overflow_misses: AtomicU32::new(0),
            is_fixed: AtomicU32::new(0),
        }
    }

    /// Keeps the limit as it is, from now on.
    pub(super) fn fix(&self) {
        self.is_fixed.store(1, Ordering::Relaxed);
    }

    fn is_fixed(&self) -> bool {
        self.is_fixed.load(Ordering::Relaxed) != 0
    }
}

impl<C, const TAGGED: bool> Sheaves<C, TAGGED> {
    /// Counts objects that were flushed because the barn was full.
    pub(super) fn count_flushed(&self, objects: u32) {
        self.working_set.flushed.fetch_add(objects, Ordering::Relaxed);
    }

    /// Counts objects that were refilled from slabs because the barn had none; raises the
    /// limit if enough of them had been flushed before.
    pub(super) fn count_refilled<S: Stacks<Chain = C>>(&self, on: S, objects: u32) {
        let WorkingSet { flushed, overflow_misses, .. } = &self.working_set;
        let left = flushed.load(Ordering::Relaxed);
        if left == 0 || !on.rules().adapts || self.working_set.is_fixed() {
            return;
        }
        let missed = left.min(objects);
        flushed.store(left - missed, Ordering::Relaxed);
        let misses = overflow_misses.load(Ordering::Relaxed) + missed;
        let price = RISE * on.cache().sheaf_capacity();
        if misses >= price {
            self.raise(on, misses / price);
        }
        overflow_misses.store(misses % price, Ordering::Relaxed);
    }

    #[cold]
    fn raise<S: Stacks<Chain = C>>(&self, on: S, sheaves: u32) {
        let _barn = self.barn.lock(on.park());
        if !self.working_set.is_fixed() {
            let limit = on.barn_full_limit();
            let raised = (limit + sheaves).min(Self::highest_limit(on.cache())).max(limit);
            on.set_barn_full_limit(raised);
        }
    }

    /// The highest limit that use may raise it to.
    fn highest_limit(cache: &Header) -> u32 {
        if cache.shape().geometry.size > Shape::SMALL {
            return u32::MAX;
        }
        (cache.out() / SMALL_PART) as u32 / cache.sheaf_capacity()
    }

    /// Called at each reclaim pass, under the barn's lock: so many full sheaves were unused
    /// since the last one.
    pub(super) fn lower_limit<S: Stacks<Chain = C>>(&self, on: S, sheaves: u32) {
        self.working_set.flushed.store(0, Ordering::Relaxed);
        if !self.working_set.is_fixed() {
            let least = most_full(on.cache().shape().geometry.size);
            let limit = on.barn_full_limit();
            let fall = sheaves.max(limit.saturating_sub(least).div_ceil(FALL));
            on.set_barn_full_limit(limit.saturating_sub(fall).max(least));
        }
    }
}
