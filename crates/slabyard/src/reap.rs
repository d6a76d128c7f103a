//! A yard's caches as the clock of 2.4 sees them, and who may turn it: kmem_cache_reap.
//!
//! The semaphore is the yard's drain lock, which a reclaim pass holds already: such a pass is
//! what memory's want was in the kernel, and reaps once. [`Yard::reap`] is for callers who want
//! memory at once, and for measuring what one semaphore costs beside each cache's own lock.
//!
//! Neighbours: [`crate::engine::array_cache::clock`] is the policy; `yard::reclaim::pass` calls
//! [`reap_in_pass`].
//! Invariant: the hand is in the first class's engine, and the clock serves all caches of a yard
//! or none.

use crate::engine::array_cache::clock::{self, Chain, Look, Reaped};
use crate::engine::array_cache::policy::Taken;
use crate::engine::array_cache::{ArrayCaches, Choice};
use crate::engine::{Any, Engine};
use crate::platform::Platform;
use crate::sync::AtomicU32;
use crate::yard::Yard;
use crate::yard::reclaim::drain::drain_stacks;
use crate::yard::slow_path::{LOOK_CALLS, enter_slow_path};
use crate::yard::stacks::Stacks;

/// How a caller of [`Yard::reap`] takes its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// After all that came before (down).
    Wait,
    /// Not at all, if another thread reaps (down_trylock, of callers that may not sleep).
    Try,
    /// Beside the others: from where the hand stands each has caches of its own, under each
    /// cache's locks. No kernel had that.
    Beside,
    /// As [`Turn::Wait`], and the arrays of all CPUs are drained, not this one's alone: a fence
    /// of all CPUs for each cache, as kmem_cache_shrink interrupted them.
    WaitAndStop,
}

/// What a turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turned {
    /// What the clock did.
    pub reaped: Reaped,
    /// Nanoseconds until it was this thread's turn, on a platform that counts.
    pub waited_ns: u64,
}

impl<P: Platform> Yard<P, Any> {
    /// Chooses SLAB for all caches, by a policy of its free slabs. Call it before [`Yard::init`].
    pub fn choose_arrays(&self, choice: Choice) {
        self.caches.classes().iter().for_each(|cache| _ = cache.engine.choose_arrays(choice));
    }
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Turns the clock once, whatever the policy. `None` if there is none for it: no array
    /// caches, another thread's [turn](Turn::Try), a handler that interrupted a slow path.
    pub fn reap(&self, turn: Turn) -> Option<Turned> {
        let first = of_first(self)?;
        let _slow_path = enter_slow_path(self, LOOK_CALLS)?;
        let p = self.platform();
        let ring = Ring { yard: self, stops: turn == Turn::WaitAndStop && p.can_stop() };
        if turn == Turn::Beside {
            let hand = AtomicU32::new(clock::pass_on(first.hand(), &ring));
            return Some(Turned { reaped: clock::reap(&hand, &ring), waited_ns: 0 });
        }
        let now = || if p.counts() { p.now_ns() } else { 0 };
        let begun = now();
        let _semaphore = match turn {
            Turn::Try => self.drain.try_lock(p)?,
            _ => self.drain.lock(p),
        };
        let waited_ns = now() - begun;
        Some(Turned { reaped: clock::reap(first.hand(), &ring), waited_ns })
    }
}

fn of_first<P: Platform, E: Engine>(yard: &Yard<P, E>) -> Option<&ArrayCaches> {
    if E::REAPS { yard.caches.classes()[0].engine.arrays() } else { None }
}

/// True if memory is taken back by the clock.
#[inline(always)]
pub(crate) fn has_clock<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    let taken = |arrays: &ArrayCaches| arrays.choice().reclaim.policy().taken;
    E::REAPS && of_first(yard).is_some_and(|arrays| taken(arrays) == Taken::ByClock)
}

/// Reaps once in a pass, which holds the drain lock; `reaped` is above 0 if it did. Returns
/// the slabs that ended, if any did.
pub(crate) fn reap_in_pass<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    reaped: &mut usize,
) -> Option<usize> {
    let first = of_first(yard).filter(|_| *reaped == 0)?;
    *reaped = 1;
    let ring = Ring { yard: yard, stops: false };
    let slabs = clock::reap(first.hand(), &ring).slabs;
    Some(slabs as usize).filter(|slabs| *slabs > 0)
}

/// The caches in use.
struct Ring<'a, P, E> {
    yard: &'a Yard<P, E>,
    /// Other CPUs' arrays are drained, too: the drain lock is held.
    stops: bool,
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
        self.arrays(cache).is_some_and(ArrayCaches::may_reap)
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
        let free_slabs = self.arrays(cache).map_or(0, ArrayCaches::nr_free);
        let order = shape.geometry.order;
        Look { free_slabs, order, has_constructor: shape.constructor.is_some() }
    }

    fn end_free(&self, cache: usize, most: u32) -> u32 {
        let on = self.yard.caches.get(cache).on(&self.yard.heap);
        self.arrays(cache).map_or(0, |arrays| arrays.end_free(on, most))
    }
}
