//! The check, on a program's request, of the objects of all caches with debugging.
//!
//! Neighbour: [`crate::debugging`] does the checks.

use crate::cache::debug_of;
use crate::cache::slots::number_of;
use crate::debugging::validate_inside;
use crate::engine::Engine;
use crate::platform::Platform;
use crate::slab::debug::aside;
use crate::slow_path::enter_slow_path;
use crate::waiting::each_waiting;
use crate::yard::Yard;
use crate::yard::depth::RUN_CALLS;

/// Tells each cache with debugging how many of its objects wait for readers: they are live.
pub(super) fn expect_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if E::SIZED {
        each_waiting(yard, &mut |slot, address| {
            if let Some(number) = number_of(slot)
                && yard.heap.class_at(address) == Some(number)
                && let cache = yard.cache(number)
                && let Some(debug) = debug_of(cache)
                && let begin = address & !(cache.shape().geometry.slab_bytes() - 1)
                && let Some(slab) = yard.heap.region.granule_of(begin)
                && !aside::is_slab_aside(&yard.heap.region, slab)
            {
                debug.expect_waiting();
            }
        });
    }
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Looks through the objects of all caches with debugging; returns how many were wrong, each
    /// of which was reported. `None` in a signal handler that interrupted a slow path.
    pub fn validate(&self) -> Option<u64> {
        let _slow_path = enter_slow_path(self, RUN_CALLS)?;
        Some(validate_inside(self))
    }
}
