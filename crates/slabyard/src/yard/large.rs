//! A yard's state for its large blocks, and the limits of the sizes that runs serve.
//!
//! Neighbours: [`crate::large`] allocates and frees them; [`crate::calls::resize`] resizes them.
//! Invariant: the words are hints: concurrent threads may lose a count.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::yard::guarded::Guarded;

/// The largest block that is always a run. A larger one is a mapping, unless large blocks come
/// and go.
pub const LARGEST_RUN: usize = 1 << 20;

/// The largest run where large blocks come and go. Blocks of 1 to 64 MiB that replace each other
/// had 492,000 page faults as mappings and have 56,000 as runs (3e13e7d). Runs from the first block
/// on had a tenth fewer, but a large block that is never freed would be among small objects; the
/// best fit instead of the most dirty extent has a third more.
pub const LARGEST_WARM_RUN: usize = 256 << 20;

/// Bytes of such mappings in a millisecond, in the mean. A page that is faulted in anew costs 0.5
/// to 6 us, the most in a virtual machine: 0.6 % of the time at most.
const FAULTING_PER_MS: usize = 4 << 10;

/// And at once: this many milliseconds' worth, 2 MiB.
const FAULTING_MS: u64 = 512;

/// What a mapping of so many bytes that faults after its free costs: the milliseconds that pay it.
fn cost_ms(bytes: usize) -> u64 {
    bytes.div_ceil(FAULTING_PER_MS) as u64
}

/// What a yard remembers of its large blocks.
pub(crate) struct Large {
    /// When one was last freed, in milliseconds plus one; 0: never.
    pub(crate) freed: AtomicU64,
    /// The size of that block.
    pub(crate) freed_bytes: AtomicUsize,
    /// The most live granules at the allocation of one.
    pub(crate) peak: AtomicUsize,
    /// Bytes of zeroed blocks that may be faulted in whole; a hint.
    pub(crate) touched: AtomicUsize,
    /// Until when the blocks that were made mappings are paid for, in milliseconds.
    pub(crate) paid_until: AtomicU64,
    /// Their debugging.
    pub(crate) guarded: Guarded,
}

impl Large {
    pub(crate) const fn new() -> Self {
        Large {
            freed: AtomicU64::new(0),
            freed_bytes: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            touched: AtomicUsize::new(0),
            paid_until: AtomicU64::new(0),
            guarded: Guarded::new(),
        }
    }

    /// True if another block may be a mapping only so that it faults after its free: what such
    /// blocks cost is spread over time. (Turner's leaky bucket as a virtual clock: ITU-T I.371.)
    /// Relaxed: two threads that count at the same time count one block.
    pub(crate) fn may_fault(&self, now_ms: u64, bytes: usize) -> bool {
        let may = self.has_paid(now_ms, bytes);
        if may {
            let paid = self.paid_until.load(Ordering::Relaxed).max(now_ms);
            self.paid_until.store(paid + cost_ms(bytes), Ordering::Relaxed);
        }
        may
    }

    pub(crate) fn has_paid(&self, now_ms: u64, bytes: usize) -> bool {
        let paid = self.paid_until.load(Ordering::Relaxed).max(now_ms);
        paid + cost_ms(bytes) <= now_ms + FAULTING_MS
    }
}
