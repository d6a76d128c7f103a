//! The capacities of arrays, by object size.
//!
//! Larger objects have smaller arrays, so that no CPU holds much memory. Source: `/proc/slabinfo`
//! of kernels from 2.6 to 6.7.

use crate::engine::Header;
use crate::sync::Ordering;

/// Objects that arrays hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In a CPU's array.
    pub limit: u32,
    /// Moved at once into an array or out of it.
    pub batchcount: u32,
    /// In the shared array, in batches; 0: there is none.
    pub sharedfactor: u32,
}

/// Objects in the array of a CPU, above this many bytes each.
const LIMITS: [(u32, u32); 3] = [(131_072, 1), (1024, 24), (256, 54)];
/// Those of objects larger than a page, and of small ones.
const ABOVE_A_PAGE: u32 = 8;
pub(crate) const SMALL: u32 = 120;
/// In 2.4, up to this many bytes each; of objects above a page there is no array.
const LIMITS_2_4: [(u32, u32); 2] = [(256, 252), (1024, 124)];
const TO_A_PAGE_2_4: u32 = 60;
/// Batches in a shared array.
const SHARED: u32 = 8;
/// Batches of a refill after a reap that found the array untouched are this small.
pub(super) const UNTOUCHED_BATCH: u32 = 16;

impl Limits {
    /// Those of a cache that begins. A shared array passes objects from one CPU to another:
    /// where only one is `possible`, there is none.
    #[must_use]
    pub fn of(size: u32, page_bytes: u32, possible_cpus: u32) -> Limits {
        let by_size = LIMITS.iter().find(|(above, _)| size > *above).map_or(SMALL, |row| row.1);
        let limit = if size > page_bytes { by_size.min(ABOVE_A_PAGE) } else { by_size };
        let has_shared = size <= page_bytes && possible_cpus > 1;
        let sharedfactor = if has_shared { SHARED } else { 0 };
        Limits { limit, batchcount: limit.div_ceil(2), sharedfactor }
    }

    /// Those of 2.4 and 2.5.39, where a batch is the half of an array.
    #[must_use]
    pub fn of_2_4(size: u32, page_bytes: u32) -> Limits {
        let by_size = LIMITS_2_4.iter().find(|(to, _)| size <= *to);
        let limit = by_size.map_or(TO_A_PAGE_2_4, |row| row.1);
        let limit = if size > page_bytes { 0 } else { limit };
        Limits { limit, batchcount: limit / 2, sharedfactor: 0 }
    }

    /// Those of a cache now.
    #[inline]
    #[must_use]
    pub fn of_cache(cache: &Header) -> Limits {
        let (batchcount, sharedfactor) = cache.cpu_partial();
        Limits { limit: cache.sheaf_capacity(), batchcount, sharedfactor }
    }

    /// Gives a cache these.
    pub fn publish(&self, cache: &Header) {
        let shown = &cache.shown;
        shown.sheaf_capacity.store(self.limit.into(), Ordering::Relaxed);
        shown.cpu_partial.store(self.batchcount.into(), Ordering::Relaxed);
        shown.cpu_partial_slabs.store(self.sharedfactor.into(), Ordering::Relaxed);
    }

    /// True if a kernel takes them: what it refuses of a line written to `/proc/slabinfo`.
    #[must_use]
    pub const fn are_sound(&self) -> bool {
        self.limit >= 1 && self.batchcount >= 1 && self.batchcount <= self.limit
    }

    /// Objects that the shared array may hold.
    #[must_use]
    pub const fn shared_capacity(&self) -> u32 {
        self.sharedfactor.saturating_mul(self.batchcount)
    }
}
