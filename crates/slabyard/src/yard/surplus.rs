//! A yard's state for its surplus, the dirty free pages that slow paths give back at once: the
//! bound above which there is a surplus, and the tokens for pages that are given back.
//!
//! Neighbour: [`crate::reclaim::surplus`] computes the surplus and gives it back. Invariant: the
//! words are hints, which threads overwrite without a lock: a lost update makes a guess wrong.

use crate::pages::purge::MOST_BYTES;
use crate::platform::GRANULE;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::yard::sparse::Sparse;

/// This many dirty granules may stay however little is live: 2 MiB.
pub(crate) const LEAST: usize = (2 << 20) / GRANULE;

/// A heap collapsed if so small a part of it is left, after this many looks that found less each.
const COLLAPSED_PART: usize = 4;

const FALLS: usize = 4;

/// It was a quarter larger than 12 MiB.
pub(crate) const SMALLEST: usize = (12 << 20) / GRANULE;

/// Tokens are spent by the slice.
pub(crate) const SLICE: usize = MOST_BYTES / GRANULE;

/// Metadata are this part of the region: 66 bytes for each granule.
const METADATA_PART: usize = GRANULE / 66;

/// Metadata of this many granules wait for a pass: 1 MiB.
const LEAST_METADATA: usize = (1 << 20) / GRANULE;

/// Tokens that a millisecond adds: a page that goes back and is faulted in again takes 0.5 us, 6 in
/// a virtual machine, which is 0.6 % of the time at most.
pub(crate) const A_MS: u64 = 1;

// Values of `Surplus::by`.
pub(crate) const SLOW_PATHS: usize = 1;

pub(crate) const HELPER: usize = 2;

/// What a yard knows of its surplus, in granules.
pub(crate) struct Surplus {
    /// Dirty granules above this are looked at; the largest number: never.
    pub(crate) bound: AtomicUsize,
    /// Granules that may go back.
    pub(crate) tokens: AtomicUsize,
    /// Granules of metadata that may be released: as many as there are, once for each larger heap
    /// that collapsed.
    pub(crate) metadata: AtomicUsize,
    /// When tokens came last, in milliseconds.
    pub(crate) filled: AtomicU64,
    /// What was live at the last look, and how often in a row less than at the look before.
    pub(crate) live: AtomicUsize,
    pub(crate) falls: AtomicUsize,
    /// 1: the heap had collapsed at the last look, or since the last tick.
    pub(crate) collapsed: AtomicUsize,
    /// The most that was touched, live or dirty, since a heap collapsed.
    pub(crate) high: AtomicUsize,
    /// The largest heap that collapsed.
    pub(crate) peak: AtomicUsize,
    /// Who gives back beside the ticker: [`SLOW_PATHS`], [`HELPER`], or nobody.
    pub(crate) by: AtomicUsize,
    /// Caches whose parked objects keep slabs: what is to become a surplus.
    pub(crate) sparse: Sparse,
}

impl Surplus {
    pub(crate) const fn new() -> Self {
        Surplus {
            bound: AtomicUsize::new(usize::MAX),
            tokens: AtomicUsize::new(0),
            metadata: AtomicUsize::new(0),
            filled: AtomicU64::new(0),
            live: AtomicUsize::new(0),
            falls: AtomicUsize::new(0),
            collapsed: AtomicUsize::new(0),
            high: AtomicUsize::new(0),
            peak: AtomicUsize::new(SMALLEST),
            by: AtomicUsize::new(0),
            sparse: Sparse::new(),
        }
    }

    /// Adds the tokens of the time that passed, up to those for the largest heap.
    pub(crate) fn fill(&self, now_ms: u64) -> usize {
        let passed = now_ms.saturating_sub(self.filled.swap(now_ms, Ordering::Relaxed));
        let new = usize::try_from(passed.saturating_mul(A_MS)).unwrap_or(usize::MAX);
        let most = self.peak.load(Ordering::Relaxed);
        let tokens = self.tokens.load(Ordering::Relaxed);
        let filled = tokens.max(tokens.saturating_add(new).min(most));
        self.tokens.store(filled, Ordering::Relaxed);
        filled
    }

    /// Looks whether a heap collapsed that is larger than those before; it gets its tokens. One of
    /// a few large blocks that replace each other has not, though little is left between two. True
    /// if it collapsed.
    pub(crate) fn look_at_heap(&self, live: usize, dirty: usize, region: usize) -> bool {
        let falls = match self.live.swap(live, Ordering::Relaxed) {
            before if live < before => self.falls.load(Ordering::Relaxed) + 1,
            before if live == before => self.falls.load(Ordering::Relaxed),
            _ => 0,
        };
        self.falls.store(falls, Ordering::Relaxed);
        let high = self.high.load(Ordering::Relaxed).max(live + dirty);
        let peak = self.peak.load(Ordering::Relaxed);
        let collapsed = live <= high / COLLAPSED_PART && falls >= FALLS;
        if collapsed && high > peak + peak / 4 {
            self.peak.store(high, Ordering::Relaxed);
            self.tokens.store(live + dirty, Ordering::Relaxed);
            self.metadata.store(region / METADATA_PART, Ordering::Relaxed);
        }
        self.high.store(if collapsed { 0 } else { high }, Ordering::Relaxed);
        self.collapsed.store(collapsed.into(), Ordering::Relaxed);
        collapsed
    }

    /// A large block is allocated: the heap does not collapse.
    #[inline]
    pub(crate) fn allocates(&self) {
        if self.falls.load(Ordering::Relaxed) != 0 {
            self.falls.store(0, Ordering::Relaxed);
        }
    }

    /// True if little is left of the heap, so that what is freed is to go back.
    #[inline]
    pub(crate) fn has_collapsed(&self) -> bool {
        self.collapsed.load(Ordering::Relaxed) != 0
    }

    /// True if the metadata of a large region are a quarter of what is live or more, and a slice of
    /// them may be released.
    pub(crate) fn is_bare(&self, region: usize) -> bool {
        let metadata = region / METADATA_PART;
        metadata >= LEAST_METADATA
            && self.live.load(Ordering::Relaxed) <= 4 * metadata
            && self.metadata.load(Ordering::Relaxed) >= SLICE
    }

    /// True if slow paths give the surplus back.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.by.load(Ordering::Relaxed) == SLOW_PATHS
    }

    /// True if a helper gives back what the ticker finds.
    #[inline]
    pub(crate) fn is_helped(&self) -> bool {
        self.by.load(Ordering::Relaxed) == HELPER
    }
}
