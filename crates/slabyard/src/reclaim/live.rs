//! Computes what reclaim asks about the whole yard: how much memory is live, whether the program
//! frees slowly, and whether it has freed a large block recently.

use crate::engine::Engine;
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;
use crate::yard::Yard;

/// Dirty free pages beyond this part of what is live are too many.
pub(crate) const WARM_PART: usize = 4;

/// Live granules: those of the region less so many that are `free`, and those of mappings.
pub(crate) fn live_granules<P: Platform, E: Engine>(yard: &Yard<P, E>, free: usize) -> usize {
    yard.heap.region.top() - free + yard.heap.mappings.live().1 / GRANULE
}

/// True if the program is known to be slow ([`crate::yard::rate`]): the rate is measured only while
/// the ticker runs.
pub(crate) fn is_slow<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.is_ticking() && yard.rate.is_slow()
}

/// True if a large block was freed within the decay time.
pub(crate) fn is_large_warm<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    // 0: never.
    let freed = yard.large.freed.load(Ordering::Relaxed);
    freed != 0 && yard.platform().now_ms() + 1 - freed < u64::from(yard.decay_ms())
}
