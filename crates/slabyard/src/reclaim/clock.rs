//! Reaps a yard's caches by the clock algorithm of Linux 2.4 (kmem_cache_reap).
//!
//! Neighbours: [`crate::engine::array_cache::clock`] has the policy; [`super::pass`] and
//! [`crate::reap`] advance the clock.
//! Invariant: the position of the clock is stored in the first size class's engine, and the clock
//! serves all caches of a yard or none.

use crate::engine::Engine;
use crate::engine::array_cache::clock::{Chain, Look};
use crate::engine::array_cache::policy::Taken;
use crate::engine::array_cache::{ArrayCaches, NodeArrays, clock};
use crate::platform::Platform;
use crate::reclaim::drain::drain_stacks;
use crate::reclaim::walk::Stacks;
use crate::yard::Yard;

pub(crate) fn of_first<P: Platform, E: Engine>(yard: &Yard<P, E>) -> Option<&NodeArrays> {
    if E::REAPS { yard.caches.classes()[0].engine.arrays().map(ArrayCaches::first) } else { None }
}

/// True if memory is taken back by the clock.
#[inline(always)]
pub(crate) fn has_clock<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    let taken = |arrays: &NodeArrays| arrays.choice().reclaim.policy().taken;
    E::REAPS && of_first(yard).is_some_and(|arrays| taken(arrays) == Taken::ByClock)
}

/// Reaps once in a pass, which holds the drain lock; `reaped` is above 0 if it did. Returns
/// the discarded slabs, if any did.
pub(crate) fn reap_in_pass<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    reaped: &mut usize,
) -> Option<usize> {
    let first = of_first(yard).filter(|_| *reaped == 0)?;
    *reaped = 1;
    let ring = Ring { yard, stops: false };
    let slabs = clock::reap(first.hand(), &ring).slabs;
    Some(slabs as usize).filter(|slabs| *slabs > 0)
}

/// The caches in use.
pub(crate) struct Ring<'a, P, E> {
    pub(crate) yard: &'a Yard<P, E>,
    /// Other CPUs' arrays are drained, too: the drain lock is held.
    pub(crate) stops: bool,
}

impl<P: Platform, E: Engine> Ring<'_, P, E> {
    fn arrays(&self, cache: usize) -> Option<&ArrayCaches> {
        self.yard.caches.get(cache).engine.arrays()
    }
}

impl<P: Platform, E: Engine> Chain for Ring<'_, P, E> {
    fn next_cache(&self, from: usize) -> Option<usize> {
        self.yard.caches.used.next_cache(from)
    }

    fn may_reap(&self, cache: usize) -> bool {
        self.arrays(cache).is_some_and(|arrays| arrays.first().may_reap())
    }

    fn drain_own(&self, cache: usize) {
        if self.stops {
            return drain_stacks(self.yard, Stacks::Cache(cache));
        }
        let cache = self.yard.caches.get(cache);
        if cache.sheaf_capacity() > 0 {
            cache.engine.flush_own(cache.on(&self.yard.heap), cache.shape().main());
        }
    }

    fn look(&self, cache: usize) -> Look {
        let shape = self.yard.caches.get(cache).shape();
        let free_slabs = self.arrays(cache).map_or(0, |arrays| arrays.first().nr_free());
        let order = shape.geometry.order;
        Look { free_slabs, order, has_constructor: shape.constructor.is_some() }
    }

    fn end_free(&self, cache: usize, most: u32) -> u32 {
        let on = self.yard.caches.get(cache).on(&self.yard.heap);
        self.arrays(cache).map_or(0, |arrays| arrays.end_free(on, most))
    }
}
