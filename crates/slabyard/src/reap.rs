//! Reaps a yard's caches by the clock algorithm of Linux 2.4 (kmem_cache_reap), and decides which
//! thread may advance the clock.
//!
//! The yard's drain lock replaces the kernel's semaphore; a reclaim pass already holds it, and
//! reaps once, as the kernel did when it needed memory. [`reap`] serves callers who need memory at
//! once, and measures what one semaphore costs compared with a lock per cache.
//!
//! Neighbours: [`crate::engine::array_cache::clock`] has the policy; `reclaim::pass` calls
//! [`reap_in_pass`](crate::reclaim::clock::reap_in_pass). Invariant: the position of the clock is
//! stored in the first size class's engine, and the clock serves all caches of a yard or none.

use crate::engine::Engine;
use crate::engine::array_cache::clock::{self, Reaped};
use crate::platform::Platform;
use crate::reclaim::clock::{Ring, of_first};
use crate::slow_path::enter_slow_path;
use crate::sync::AtomicU32;
use crate::yard::Yard;
use crate::yard::depth::LOOK_CALLS;

/// How a caller of [`reap`] takes its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// After all that came before (down).
    Wait,
    /// Not at all, if another thread reaps (down_trylock, of callers that may not sleep).
    Try,
    /// Beside the others: from the position of the hand each has caches of its own, under each
    /// cache's locks. No kernel had that.
    Beside,
    /// As [`Turn::Wait`], and the arrays of all CPUs are drained, not this one's alone: a fence
    /// of all CPUs for each cache, as kmem_cache_shrink interrupted them.
    WaitAndStop,
}

/// How long a thread waited for the clock, and what the clock reaped then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turned {
    /// What the clock did.
    pub reaped: Reaped,
    /// Nanoseconds until it was this thread's turn, on a platform that counts.
    pub waited_ns: u64,
}

/// Turns the clock once, whatever the policy. `None` if there is none for it: no array
/// caches, another thread's [turn](Turn::Try), a handler that interrupted a slow path.
pub fn reap<P: Platform, E: Engine>(yard: &Yard<P, E>, turn: Turn) -> Option<Turned> {
    let first = of_first(yard)?;
    let _slow_path = enter_slow_path(yard, LOOK_CALLS)?;
    let p = yard.platform();
    let ring = Ring { yard, stops: turn == Turn::WaitAndStop && p.can_stop() };
    if turn == Turn::Beside {
        let hand = AtomicU32::new(clock::pass_on(first.hand(), &ring));
        return Some(Turned { reaped: clock::reap(&hand, &ring), waited_ns: 0 });
    }
    let now = || if p.counts() { p.now_ns() } else { 0 };
    let begun = now();
    let _semaphore = match turn {
        Turn::Try => yard.drain.try_lock(p)?,
        _ => yard.drain.lock(p),
    };
    let waited_ns = now() - begun;
    Some(Turned { reaped: clock::reap(first.hand(), &ring), waited_ns })
}
