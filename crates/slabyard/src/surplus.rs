//! The surplus: dirty free pages that slow paths give back at once, because the program may make
//! no call after this one.
//!
//! The ticker gives back what has been free for the decay time, and needs calls for it. Nobody
//! knows which call is the last one before a rest. So a slow path that finds more dirty free pages
//! than [`LEAST`] and a [`LIVE_PART`]th of what is live gives back a slice of them, and the free of
//! a block above a slice's size in proportion to it.
//!
//! A program that fills and empties its heap in a loop would fault each page in again. So a page
//! that goes back here takes a token, and one token comes in a millisecond. A heap that
//! *collapsed*, of which a quarter is left, gets tokens for all its pages, if it was larger by a
//! quarter than the one before that did: what this costs all such heaps together is in
//! proportion to the largest. Without tokens pages wait for the decay time. (A leaky bucket,
//! ITU-T I.371, as in [`crate::large`]; a search by a factor, Bentley and Yao, "An almost optimal
//! algorithm for unbounded searching", 1976.)
//!
//! Tried and refused: to count the pages that were touched again and to stop when they were many,
//! 73,000 page faults of `large` in place of 49,000; and tokens of time while large blocks come and
//! go, 60,600.
//!
//! Neighbours: [`crate::yard::slow_path`] and [`crate::large`] call it, before a slice of a
//! pass; the ticker has the bound looked at again.
//! Invariant: the words are hints, which threads overwrite without a lock: a lost count makes a
//! wrong guess.

use crate::engine::Engine;
use crate::large::is_large_warm;
use crate::pages::purge::MOST_BYTES;
use crate::platform::{GRANULE, Platform};
use crate::sparse::Sparse;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::yard::Yard;
use crate::yard::reclaim::ticker::live_granules;

/// So many dirty granules may stay however little is live: 2 MiB.
const LEAST: usize = (2 << 20) / GRANULE;
/// And this part of what is live.
const LIVE_PART: usize = 8;
/// A heap collapsed if so small a part of it is left, after so many looks that found less each.
const COLLAPSED_PART: usize = 4;
const FALLS: usize = 4;
/// It was a quarter larger than 12 MiB.
const SMALLEST: usize = (12 << 20) / GRANULE;
/// Tokens are spent by the slice.
const SLICE: usize = MOST_BYTES / GRANULE;
/// Metadata are this part of the region: 66 bytes for each granule.
const METADATA_PART: usize = GRANULE / 66;
/// Metadata of so many granules wait for a pass: 1 MiB.
const LEAST_METADATA: usize = (1 << 20) / GRANULE;
/// Tokens that a millisecond adds: a page that goes back and is faulted in again takes 0.5 us, 6 in
/// a virtual machine, which is 0.6 % of the time at most.
const A_MS: u64 = 1;

// Values of `Surplus::by`.
const SLOW_PATHS: usize = 1;
const HELPER: usize = 2;

/// What a yard knows of its surplus, in granules.
pub(crate) struct Surplus {
    /// Dirty granules above this are looked at; the largest number: never.
    bound: AtomicUsize,
    /// Granules that may go back.
    tokens: AtomicUsize,
    /// Granules of metadata that may be released: as many as there are, once for each larger heap
    /// that collapsed.
    metadata: AtomicUsize,
    /// When tokens came last, in milliseconds.
    filled: AtomicU64,
    /// What was live at the last look, and how often in a row less than at the look before.
    live: AtomicUsize,
    falls: AtomicUsize,
    /// 1: the heap had collapsed at the last look, or since the last tick.
    collapsed: AtomicUsize,
    /// The most that was touched, live or dirty, since a heap collapsed.
    high: AtomicUsize,
    /// The largest heap that collapsed.
    peak: AtomicUsize,
    /// Who gives back beside the ticker: [`SLOW_PATHS`], [`HELPER`], or nobody.
    by: AtomicUsize,
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
    fn fill(&self, now_ms: u64) -> usize {
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
    fn look_at_heap(&self, live: usize, dirty: usize, region: usize) -> bool {
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
    fn is_bare(&self, region: usize) -> bool {
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

fn take(from: &AtomicUsize, granules: usize) {
    from.store(from.load(Ordering::Relaxed).saturating_sub(granules), Ordering::Relaxed);
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Sets whether slow paths give the surplus back, or a helper gives back in time.
    pub fn give_surplus(&self, on: bool) {
        let now = self.platform().now_ms();
        self.surplus.filled.store(now, Ordering::Relaxed);
        self.surplus.sparse.begin(now);
        let by = if on { SLOW_PATHS } else { HELPER };
        self.surplus.by.store(by, Ordering::Relaxed);
        self.surplus.bound.store(if on { LEAST } else { usize::MAX }, Ordering::Relaxed);
    }
}

/// True if there may be a surplus, as of the last look. Not while caches are flushed, from which
/// more of it comes.
#[inline]
pub(crate) fn has_surplus<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.heap.buddy.waiting_hint() > yard.surplus.bound.load(Ordering::Relaxed)
        && !yard.surplus.sparse.is_asked()
}

/// Gives a slice of the surplus back. False if there was none.
#[cold]
#[inline(never)]
pub(crate) fn give_slice<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    if find_surplus(yard) == 0 {
        return false;
    }
    let went = yard.heap.purge_part(0);
    take(&yard.surplus.tokens, went.unwrap_or(0));
    went.is_some()
}

/// At the free of a large block: gives back so many granules of the surplus, and then of the
/// metadata, where these are much beside it.
pub(crate) fn give_surplus_of<P: Platform, E: Engine>(yard: &Yard<P, E>, granules: usize) {
    let mut left = granules;
    if has_surplus(yard) {
        let surplus = find_surplus(yard).min(granules);
        if surplus > 0 {
            let went = yard.heap.purge(0, surplus);
            take(&yard.surplus.tokens, went);
            left = left.saturating_sub(went);
        }
    }
    while left > 0
        && yard.surplus.is_bare(yard.heap.region.top())
        && yard.heap.release_metadata_now()
    {
        take(&yard.surplus.metadata, SLICE);
        left = left.saturating_sub(SLICE);
    }
}

/// In a pass: gives back a part of what is so old. The next look at the surplus is due so much
/// earlier.
pub(crate) fn purge_old<P: Platform, E: Engine>(yard: &Yard<P, E>, age_ms: u32) -> Option<usize> {
    let went = yard.heap.purge_part(age_ms)?;
    let bound = yard.surplus.bound.load(Ordering::Relaxed);
    if bound != usize::MAX {
        take(&yard.surplus.bound, went);
    }
    Some(went)
}

/// At a tick, and where much is dirty: has the next slow path look.
pub(crate) fn look_at_surplus<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if yard.surplus.is_on() {
        yard.surplus.bound.store(least(yard), Ordering::Relaxed);
        yard.surplus.collapsed.store(0, Ordering::Relaxed);
    }
}

/// Dirty granules that may stay however little is live: what this CPU's banks may have is among
/// them.
fn least<P: Platform, E: Engine>(yard: &Yard<P, E>) -> usize {
    LEAST.saturating_sub(yard.heap.banked_room() / GRANULE)
}

/// Finds the surplus for which there are tokens, and sets the bound anew.
fn find_surplus<P: Platform, E: Engine>(yard: &Yard<P, E>) -> usize {
    let state = &yard.surplus;
    let dirty = yard.heap.buddy.waiting_hint();
    let live = live_granules(yard, yard.heap.free_count().free);
    let collapsed = state.look_at_heap(live, dirty, yard.heap.region.top());
    if collapsed {
        yard.heap.close_banks();
    }
    let bound = least(yard) + live / LIVE_PART;
    let surplus = dirty.saturating_sub(bound);
    // Where large blocks come and go, a hole has the next one lie elsewhere, on other pages.
    let tokens = if is_large_warm(yard) {
        state.tokens.load(Ordering::Relaxed)
    } else {
        state.fill(yard.platform().now_ms())
    };
    let may_go = if tokens < surplus.min(SLICE) { 0 } else { surplus.min(tokens) };
    let next = match surplus > may_go {
        // Until the next tick, or until it may be collapsing.
        true if may_go == 0 && collapsed => usize::MAX,
        true if live > dirty => (live + dirty) / 2,
        _ => bound,
    };
    state.bound.store(next, Ordering::Relaxed);
    may_go
}
