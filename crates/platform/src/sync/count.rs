//! Counts of slow paths under way, which each slow path changes at its start and its end: the
//! gate's ([`crate::gate`]), and a cache's, which readers in other processes compare.
//!
//! Neighbour: [`super::lock::Park`] knows whether the process has only one thread.

use super::lock::Park;
use super::{AtomicU32, Ordering, compiler_fence};

/// Adds to a count. The only thread of a process does so without an atomic instruction, because no
/// other thread can add meanwhile. A slow path adds four times, which took 3 % of the time of a load
/// of stacks (`slabyard-bench compare --only lifo`).
///
/// Not for locks, nor for other words by which memory is handed out: [`Park::is_only_thread`] does
/// not know of a thread that the program made without the C library.
#[inline(always)]
#[cfg_attr(loom, track_caller)]
pub fn count<P: Park>(p: &P, word: &AtomicU32, more: u32, ordering: Ordering) {
    if p.is_only_thread() {
        let sum = word.load(Ordering::Relaxed).wrapping_add(more);
        // Release, and no later store before it: readers outside read in order. (Where a processor
        // stores out of order, `is_only_thread` is false.)
        word.store(sum, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    } else {
        word.fetch_add(more, ordering);
    }
}
