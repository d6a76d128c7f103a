//! A yard's state for its sparse caches: which of them are to be flushed, the tokens for flushed
//! objects, and when the next check is due.
//!
//! Neighbour: [`crate::reclaim::sparse`] checks and flushes. Invariant: the words are hints, except
//! the position in [`Flushing`], which the drain lock protects.

use crate::cache::slots::number_of;
use crate::platform::stack::Slot;
use crate::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Tokens that a millisecond adds: 1 % of the time. With 0.2 % the load `relay` kept 47 MiB at
/// rest, not 10, and `strings` 16 to 52, not 5 to 8 (`ci/rest-by-hand`).
pub(crate) const A_MS: u64 = 100;

/// The most that there are at a time, for each granule of the region: 0.4 us, which is what it takes
/// to fault it in.
const TOKENS_A_PAGE: u64 = 4;

/// Of these a process has this many at its start.
const FIRST_TOKENS: u64 = 1;

/// So many slow frees after caches were found, all are looked at again.
const WATCH: u32 = 32;

/// What a look at all caches costs, with those slow frees, which a short countdown makes.
pub(crate) const TOKENS_A_LOOK: u64 = 32 + 2 * WATCH as u64;

/// Frees until the next slow path while caches are flushed, less one.
const SOON: i32 = 3;

/// The same while others are looked for: twice as many after each look that found none.
const FIRST_FREES: u32 = 16;

const LAST_FREES: u32 = 64 * FIRST_FREES;

/// This many slow frees do not look after there were no tokens.
const MUTE: u32 = 256;

/// What a yard knows of its sparse caches.
pub(crate) struct Sparse {
    /// A bit for each number of a cache, modulo 64, to flush.
    pub(crate) caches: AtomicU64,
    /// Tokens that came with time, and those that were taken.
    pub(crate) come: AtomicU64,
    pub(crate) spent: AtomicU64,
    /// While others are looked for, frees until the next slow path, 0: they are not; and slow frees
    /// until the next look at all caches.
    pub(crate) watch: AtomicU32,
    pub(crate) left: AtomicU32,
    /// Frees of a row until the next slow path at most, less one: it follows from `caches` and
    /// `watch`, and each slow path reads it.
    pub(crate) most_frees: AtomicI32,
    /// Slow frees until the next look, after there were no tokens.
    pub(crate) mute: AtomicU32,
    /// The next cache that a rare free looks at.
    pub(crate) next: AtomicU32,
    /// When tokens came last, in milliseconds.
    pub(crate) filled: AtomicU64,
}

impl Sparse {
    pub(crate) const fn new() -> Self {
        Sparse {
            caches: AtomicU64::new(0),
            come: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            watch: AtomicU32::new(0),
            left: AtomicU32::new(0),
            most_frees: AtomicI32::new(i32::MAX),
            mute: AtomicU32::new(0),
            next: AtomicU32::new(0),
            filled: AtomicU64::new(0),
        }
    }

    /// Tokens come from now on.
    pub(crate) fn begin(&self, now_ms: u64) {
        self.filled.store(now_ms, Ordering::Relaxed);
    }

    /// True if caches are to be flushed.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.caches.load(Ordering::Relaxed) != 0
    }

    /// True for a while after caches were found: others become sparse with them.
    #[inline]
    pub(crate) fn is_watching(&self) -> bool {
        self.watch.load(Ordering::Relaxed) != 0
    }

    fn choose_most_frees(&self) {
        let most = match self.watch.load(Ordering::Relaxed) {
            _ if self.is_asked() => SOON,
            0 => i32::MAX,
            frees => frees as i32 - 1,
        };
        self.most_frees.store(most, Ordering::Relaxed);
    }

    /// These caches are flushed.
    pub(crate) fn flushed(&self, caches: u64) {
        self.caches.fetch_and(!caches, Ordering::Relaxed);
        self.choose_most_frees();
    }

    /// Counts a slow free while watching. True if all caches are to be looked at.
    pub(crate) fn count_look(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left <= 1 && self.is_watching()
    }

    /// Tokens that there are in a heap of this many granules.
    pub(crate) fn refill(&self, now_ms: u64, heap: u64) -> u64 {
        let passed = now_ms.saturating_sub(self.filled.swap(now_ms, Ordering::Relaxed));
        let come = self.come.load(Ordering::Relaxed).saturating_add(passed.saturating_mul(A_MS));
        let spent = self.spent.load(Ordering::Relaxed);
        let come = come.min(spent + (TOKENS_A_PAGE - FIRST_TOKENS) * heap);
        self.come.store(come, Ordering::Relaxed);
        (come + FIRST_TOKENS * heap).saturating_sub(spent)
    }

    /// True for this many slow frees after there were no tokens.
    pub(crate) fn is_muted(&self) -> bool {
        let left = self.mute.load(Ordering::Relaxed);
        if left > 0 {
            self.mute.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// All caches were looked at, and these are to be flushed: the next look comes soon, or later
    /// each time that there were none, and at last no more. If others `lack` tokens, nobody looks for
    /// a while.
    pub(crate) fn found(&self, caches: u64, lack: bool) {
        let watch = match self.watch.load(Ordering::Relaxed) {
            _ if lack => 0,
            _ if caches != 0 => FIRST_FREES,
            LAST_FREES => 0,
            frees => 2 * frees,
        };
        self.watch.store(watch, Ordering::Relaxed);
        self.left.store(WATCH, Ordering::Relaxed);
        self.mute.store(if lack { MUTE } else { 0 }, Ordering::Relaxed);
        self.caches.fetch_or(caches, Ordering::Relaxed);
        self.choose_most_frees();
    }
}

/// The position of what is being flushed.
pub(crate) struct Flushing {
    /// The caches, as in [`Sparse`]; 0: none.
    pub(crate) caches: u64,
    /// The next entry: its row and slot.
    pub(crate) at: (usize, u16),
    /// The next cache whose barn is flushed.
    pub(crate) cache: usize,
}

impl Flushing {
    pub(crate) const NONE: Self = Flushing { caches: 0, at: (0, 0), cache: 0 };
}

/// True if an entry is of a cache among those of some bits.
pub(crate) fn is_of(caches: u64, slot: Slot) -> bool {
    number_of(slot).is_some_and(|number| is_among(caches, number))
}

/// True if a cache is among those of some bits.
pub(crate) fn is_among(caches: u64, number: usize) -> bool {
    caches & bit(number) != 0
}

pub(crate) fn bit(cache: usize) -> u64 {
    1 << (cache % u64::BITS as usize)
}
