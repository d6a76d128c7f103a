//! Reaping: frees, a fifth at a time, objects and slabs unused since the last reap.
//!
//! A kernel's timer reaps each CPU's own arrays every 2 s, and the node's shared array and free
//! slabs every 4 s. In a yard the reclaim pass replaces the timer. The pass flushes whole arrays
//! whose tops did not move since the last pass, as it does for every engine; in every second pass
//! it reaps the node.
//!
//! Neighbours: a reclaim pass calls [`NodeArrays::reclaim_piece`]; on request,
//! [`drain`](NodeArrays::drain) frees everything.

use super::policy::Taken;
use super::{Arrays, Limits, NodeArrays, array, lists};
use crate::engine::{Found, Moving};
use crate::sync::Ordering;

/// A CPU reaps its own arrays so often, and first so long after its start, in 2.5
/// each CPU a little later than the one before, so that they do not all begin at once.
pub const PERIOD_MS: u64 = 2000;
const FIRST_MS: u64 = 1000;
const APART_MS: u64 = 3;
/// A node's shared array and free slabs of one cache are reaped so often, first at a time that
/// depends on where the cache is.
pub const NODE_PERIOD_MS: u64 = 4000;

/// When a CPU reaps first, after its start.
#[must_use]
pub const fn first_ms(cpu: u64) -> u64 {
    FIRST_MS + APART_MS * cpu
}

/// When a node's part of a cache is reaped first: kernels take the cache's address modulo the
/// period.
#[must_use]
pub const fn node_first_ms(cache: u64) -> u64 {
    NODE_PERIOD_MS + cache % NODE_PERIOD_MS
}

/// Part of the limit that one reap takes.
const PART: u32 = 5;
/// Passes from one reap of the node to the next.
const EVERY: u32 = 2;

/// Objects to flush out of an array that was not touched: a fifth of what it may hold, of one
/// that has fewer the half of these.
#[must_use]
pub fn to_free(limit: u32, objects: u32) -> u32 {
    let part = limit.div_ceil(PART);
    if part > objects { objects.div_ceil(2) } else { part }
}

/// Free slabs to end: those of a fifth of the free objects that the node may have.
pub fn to_end<S: Arrays>(on: S) -> u32 {
    let objects = on.cache().shape().geometry.objects;
    lists::free_limit(on).div_ceil(PART * objects)
}

impl<C> NodeArrays<C> {
    /// Makes a piece of a reap of the node, as [`crate::engine::SlowPaths::reclaim`]: flushes unused
    /// objects of the shared array, then ends unused free slabs.
    pub fn reclaim_piece<S: Arrays<Chain = C>>(
        &self,
        on: S,
        found: &mut Option<Found>,
        most: u32,
    ) -> bool {
        if self.policy().taken != Taken::ByTimers {
            return false;
        }
        let mut left = match found.take() {
            Some(left) => left,
            None if self.passes.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) => {
                self.look(on)
            }
            None => return false,
        };
        if left.unused > 0 {
            let flushed = self.flush_shared(on, left.unused.min(most));
            left.unused = if flushed > 0 { left.unused - flushed } else { 0 };
            *found = Some(left);
            return flushed > 0;
        }
        left.idle && lists::end_free(on, to_end(on).min(most)) > 0
    }

    /// Reaps the node whole.
    pub fn reap<S: Arrays<Chain = C>>(&self, on: S) {
        if self.policy().taken != Taken::ByTimers {
            return;
        }
        let found = self.look(on);
        self.flush_shared(on, found.unused);
        if found.idle {
            lists::end_free(on, to_end(on));
        }
    }

    /// What a reap of the node has to do: of `Found::idle`, whether free slabs were unused.
    pub fn look<S: Arrays<Chain = C>>(&self, on: S) -> Found {
        let capacity = Limits::of_cache(on.cache()).shared_capacity();
        let unused = self.unused_shared(on).map_or(0, |objects| to_free(capacity, objects));
        Found { unused, idle: !self.empties.clear_touched(), node: 0 }
    }

    /// Flushes the oldest objects of the shared array, this many at most; returns how many.
    fn flush_shared<S: Arrays<Chain = C>>(&self, on: S, most: u32) -> u32 {
        use crate::engine::slabs::Held;
        let _moving = Moving::aside(on);
        let Some(mut array) = self.take_oldest_shared(on, most) else { return 0 };
        let objects = array.len();
        array::return_all(on, &mut array);
        on.give_sheaf(array);
        objects
    }

    /// Returns all that is parked on the node to the slabs, and ends the free ones.
    pub fn drain<S: Arrays<Chain = C>>(&self, on: S) {
        let _moving = Moving::aside(on);
        if let Some(mut array) = self.take_whole_shared(on) {
            array::return_all(on, &mut array);
            on.give_sheaf(array);
        }
        lists::end_free(on, u32::MAX);
    }
}
