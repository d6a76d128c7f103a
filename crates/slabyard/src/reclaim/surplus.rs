//! The surplus: dirty free pages that slow paths give back at once, because the program may never
//! call the allocator again.
//!
//! The ticker gives back pages that have been free for the decay time, but only calls advance it.
//! No call can know that it is the last before the program goes idle. So a slow path that finds
//! more dirty free pages than [`LEAST`] plus a [`LIVE_PART`]th of the live memory gives back a
//! slice of them; freeing a block larger than a slice gives back pages in proportion.
//!
//! A program that fills and empties its heap in a loop would fault each page in again. So each page
//! that is given back here takes a token, and one token accrues per millisecond. A heap that
//! *collapsed*, to a quarter of its size or less, gets tokens for all its pages if it was a quarter
//! larger than the heap at the last collapse: so the cost of all such heaps together is
//! proportional to the largest. Pages for which there is no token wait for the decay time. (Tokens
//! form a leaky bucket, ITU-T I.371, as in [`crate::large`]; asking for a quarter more is an
//! unbounded search, Bentley and Yao, 1976: "An almost optimal algorithm for unbounded searching".)
//!
//! Tried and rejected: counting the pages that were touched again, and stopping when they were many
//! (73,000 page faults in the load `large` instead of 49,000); and tokens that accrue while the
//! program frees and allocates large blocks in turn (60,600).
//!
//! Neighbours: [`crate::slow_path`] and [`crate::large`] call it, before a slice of a pass; the
//! ticker has this module recompute the bound.
//! Invariant: the words are hints, which threads overwrite without a lock: a lost update makes a
//! guess wrong.

use crate::engine::Engine;
use crate::pages::{bank, purge, runs};
use crate::platform::{GRANULE, Platform};
use crate::reclaim::live::{is_large_warm, live_granules};
use crate::sync::{AtomicUsize, Ordering};
use crate::yard::Yard;
use crate::yard::surplus::{HELPER, LEAST, SLICE, SLOW_PATHS};

/// Beside [`LEAST`], this part of what is live may stay dirty.
const LIVE_PART: usize = 8;

fn take(from: &AtomicUsize, granules: usize) {
    from.store(from.load(Ordering::Relaxed).saturating_sub(granules), Ordering::Relaxed);
}

/// Sets whether slow paths give the surplus back, or a helper gives back in time.
pub fn give_surplus<P: Platform, E: Engine>(yard: &Yard<P, E>, on: bool) {
    let now = yard.platform().now_ms();
    yard.surplus.filled.store(now, Ordering::Relaxed);
    yard.surplus.sparse.begin(now);
    let by = if on { SLOW_PATHS } else { HELPER };
    yard.surplus.by.store(by, Ordering::Relaxed);
    yard.surplus.bound.store(if on { LEAST } else { usize::MAX }, Ordering::Relaxed);
}

/// True if there may be a surplus, as of the last look. Not while caches are flushed, from which
/// more of it comes.
#[inline]
pub(crate) fn has_surplus<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.heap.buddy.purgeable_hint() > yard.surplus.bound.load(Ordering::Relaxed)
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

/// At the free of a large block: gives back this many granules of the surplus, and then of the
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
        && purge::release_part_of(&yard.heap, 0)
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
    LEAST.saturating_sub(bank::room(&yard.heap) / GRANULE)
}

/// Finds the surplus for which there are tokens, and sets the bound anew.
fn find_surplus<P: Platform, E: Engine>(yard: &Yard<P, E>) -> usize {
    let state = &yard.surplus;
    let dirty = yard.heap.buddy.purgeable_hint();
    let live = live_granules(yard, runs::free_count(&yard.heap).free);
    let collapsed = state.look_at_heap(live, dirty, yard.heap.region.top());
    if collapsed {
        bank::close(&yard.heap);
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
