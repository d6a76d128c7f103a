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
//! Neighbours: [`crate::yard::slow_path`] and [`crate::large`] call it, before a slice of a
//! pass; the ticker has the bound looked at again.
//! Invariant: the words are hints, which threads overwrite without a lock: a lost count makes a
//! wrong guess.

use crate::engine::Engine;
use crate::pages::purge::MOST_BYTES;
use crate::platform::{GRANULE, Platform};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::yard::Yard;

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
/// Tokens that a millisecond adds: a page that goes back and is faulted in again takes 0.5 us, 6 in
/// a virtual machine, which is 0.6 % of the time at most.
const A_MS: u64 = 1;

/// What a yard knows of its surplus, in granules.
pub(crate) struct Surplus {
    /// Dirty granules above this are looked at; the largest number: never.
    bound: AtomicUsize,
    /// Granules that may go back.
    tokens: AtomicUsize,
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
    /// 1: slow paths give the surplus back.
    on: AtomicUsize,
}

impl Surplus {
    pub(crate) const fn new() -> Self {
        Surplus {
            bound: AtomicUsize::new(usize::MAX),
            tokens: AtomicUsize::new(0),
            filled: AtomicU64::new(0),
            live: AtomicUsize::new(0),
            falls: AtomicUsize::new(0),
            collapsed: AtomicUsize::new(0),
            high: AtomicUsize::new(0),
            peak: AtomicUsize::new(SMALLEST),
            on: AtomicUsize::new(0),
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
    fn look_at_heap(&self, live: usize, dirty: usize) -> bool {
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

    fn take(&self, granules: usize) {
        let tokens = self.tokens.load(Ordering::Relaxed);
        self.tokens.store(tokens.saturating_sub(granules), Ordering::Relaxed);
    }
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Sets whether slow paths give the surplus back: not where a helper gives back in time.
    pub fn give_surplus(&self, on: bool) {
        self.surplus.filled.store(self.platform().now_ms(), Ordering::Relaxed);
        self.surplus.on.store(on.into(), Ordering::Relaxed);
        self.surplus.bound.store(if on { LEAST } else { usize::MAX }, Ordering::Relaxed);
    }

    /// True if there may be a surplus, as of the last look.
    #[inline]
    pub(crate) fn has_surplus(&self) -> bool {
        self.heap.buddy.waiting_hint() > self.surplus.bound.load(Ordering::Relaxed)
    }

    /// Gives a slice of the surplus back. False if there was none.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_slice(&self) -> bool {
        if self.find_surplus() == 0 {
            return false;
        }
        let went = self.heap.purge_part(0);
        self.surplus.take(went.unwrap_or(0));
        went.is_some()
    }

    /// At the free of a large block: gives back so many granules of the surplus.
    pub(crate) fn give_surplus_of(&self, granules: usize) {
        if self.has_surplus() {
            let surplus = self.find_surplus().min(granules);
            if surplus > 0 {
                self.surplus.take(self.heap.purge(0, surplus));
            }
        }
    }

    /// At a tick, and where much is dirty: has the next slow path look.
    pub(crate) fn look_at_surplus(&self) {
        if self.surplus.on.load(Ordering::Relaxed) != 0 {
            self.surplus.bound.store(self.least(), Ordering::Relaxed);
            self.surplus.collapsed.store(0, Ordering::Relaxed);
        }
    }

    /// Dirty granules that may stay however little is live: what this CPU's banks may have is among
    /// them.
    fn least(&self) -> usize {
        LEAST.saturating_sub(self.heap.banked_room() / GRANULE)
    }

    /// Finds the surplus for which there are tokens, and sets the bound anew.
    fn find_surplus(&self) -> usize {
        let state = &self.surplus;
        let dirty = self.heap.buddy.waiting_hint();
        let live = self.live_granules(self.heap.free_count().free);
        let collapsed = state.look_at_heap(live, dirty);
        if collapsed {
            self.heap.close_banks();
        }
        let bound = self.least() + live / LIVE_PART;
        let surplus = dirty.saturating_sub(bound);
        // Where large blocks come and go, a hole has the next one lie elsewhere, on other pages.
        let tokens = if self.is_large_warm() {
            state.tokens.load(Ordering::Relaxed)
        } else {
            state.fill(self.platform().now_ms())
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
}
