//! The depth word of a thread: whether the thread is inside of a slow path, and its slow paths'
//! estimate of how many calls it made.
//!
//! Neighbour: [`crate::slow_path`] sets it.
//! Invariant: a signal handler that interrupts a slow path finds [`INSIDE`], and enters none.

use crate::platform::Platform;
use crate::sync::Ordering;

/// Each call about a run or a mapping is a slow path.
pub(crate) const RUN_CALLS: u32 = 1;

/// Bit of the depth word: this thread is inside of a slow path. The other bits count the
/// thread's calls, as its slow paths estimate them.
pub(crate) const INSIDE: u32 = 1;

/// While the reclaim ticker runs, a thread looks at the clock once in this many calls.
pub(crate) const LOOK_CALLS: u32 = 128;

/// True in a signal handler that interrupted a slow path.
pub(crate) fn is_inside<P: Platform>(p: &P) -> bool {
    p.thread().depth.load(Ordering::Relaxed) & INSIDE != 0
}
