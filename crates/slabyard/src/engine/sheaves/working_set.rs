//! Adapts a barn's limit of full sheaves to the program's use.
//!
//! The slow path of a free flushes objects to their slabs if the barn is full. If the same cache
//! refills a sheaf from its slabs before the next reclaim pass, the barn should have kept those
//! objects. These objects count as *overflow misses*, and for each [`RISE`] sheaves' worth of them the limit
//! rises by one. In each pass the limit falls by the number of sheaves that were unused since the
//! last pass (the depot's working set of Bonwick and Adams, USENIX 2001), and by at least one part
//! in [`FALL`]. Sheaves that are rarely needed are not worth their memory. So if a program's live
//! objects rise and fall in number by more than the CPUs' sheaves hold, it ends up exchanging whole
//! sheaves. A program that frees for good, or changes to other sizes, parks no more than before.
//!
//! For an object of at most a cache line, the sheaf element takes an eighth of the object's size or
//! more, and programs have millions of such objects. So their caches' limits may rise only to a
//! share of the objects that are out of the slabs.
//!
//! Neighbours: [`super::free`] counts the objects that it flushed, [`super::alloc`] those that it
//! refilled, [`super::barn`] holds the sheaves and reads the limit. The counts are hints: if one is
//! lost, the limit is adjusted later. The limit changes only under the barn's lock, so that a limit
//! set by hand is kept.

use crate::sync::{AtomicU32, Ordering};

/// Sheaves' worth of overflow misses for which the limit rises by one.
pub(crate) const RISE: u32 = 4;
/// At each reclaim pass the limit falls by at least one part in this many of what it is above
/// its least.
pub(crate) const FALL: u32 = 4;
/// A barn of small objects may keep one part in this many of those that are out.
/// Without a bound objects of 12 to 32 bytes of two threads peak at 17.5 MiB instead of 15.9
/// (dcbd240); with a fixed barn trees of small nodes took 150 ms instead of 139 (4f00ceb).
pub(crate) const SMALL_PART: u64 = 8;

/// What was flushed, and what was refilled of it.
pub(super) struct WorkingSet {
    /// Objects flushed because the barn was full, since the last reclaim pass, less those refilled.
    pub(super) flushed: AtomicU32,
    /// Objects flushed and refilled within a pass, less those that raised the limit.
    pub(super) overflow_misses: AtomicU32,
    /// 1: the limit was set by hand, and does not follow use.
    pub(super) is_fixed: AtomicU32,
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

    pub(super) fn is_fixed(&self) -> bool {
        self.is_fixed.load(Ordering::Relaxed) != 0
    }
}
