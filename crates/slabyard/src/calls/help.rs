//! Does work outside of the program's calls, in helper threads or in a thread that another process
//! stopped: slices of reclaim, answers to requests, and a drain when memory is short.
//!
//! Neighbours: [`crate::reclaim::ticker`] runs slices; [`crate::mail`] answers requests.

use crate::engine::Engine;
use crate::mail::{calls_program, shrink};
use crate::platform::Platform;
use crate::reclaim::ticker::{claim_tick, has_work, reclaim};
use crate::reclaim::walk::Stacks;
use crate::slow_path::{Background, enter_slow_path, enter_with};
use crate::yard::Yard;
use crate::yard::depth::{LOOK_CALLS, is_inside};
use slabyard_abi::region::outside;

/// Looks at the clock and makes one slice, for a helper thread of a program which makes no
/// calls itself. True while there is more to do at once; else the next call is due after
/// [`period_ms`](Yard::period_ms), while the [ticker runs](Yard::is_ticking).
///
/// It is no call of the program's, so it does not measure the program's rate.
pub fn help_reclaim<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    let Some(_slow_path) = enter_with(yard, 0, Background::None) else {
        return false;
    };
    let due = claim_tick(yard, yard.platform().now_ms());
    (due || has_work(yard)) && reclaim(yard, due) && has_work(yard)
}

/// Serves a request, if there is one, for a helper thread of a program that makes no calls.
#[inline(never)]
pub fn help_answer<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    drop(enter_with(yard, 0, Background::None));
}

/// Serves a request, if there is one, for a thread that another process stopped anywhere outside of
/// our code and let go on here (`abi::region::outside`, whose outcomes are the result).
///
/// The thread may hold any lock of the program's and of the C library's, which may wait for it.
/// So it takes ours alone, whose holders go on and wait for nothing else, and calls nothing of
/// the program's.
pub fn answer_outside<P: Platform, E: Engine>(yard: &Yard<P, E>) -> u64 {
    if is_inside(yard.platform()) || yard.gate.is_closed() {
        return outside::BUSY;
    }
    if calls_program(yard) {
        return outside::FOREIGN;
    }
    help_answer(yard);
    outside::LOOKED
}

/// Drains because memory is short, as a request for the whole yard does; returns the bytes that
/// went back. `None` in a signal handler that interrupted a slow path, and while another thread
/// forks.
pub fn relieve<P: Platform, E: Engine>(yard: &Yard<P, E>, relief: Relief) -> Option<u64> {
    let _slow_path = enter_slow_path(yard, LOOK_CALLS)?;
    let _guard = yard.drain.lock(yard.platform());
    Some(shrink(yard, Stacks::All, relief == Relief::Empties).bytes)
}

/// What a drain under memory pressure gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// All that is parked, and what is free.
    Full,
    /// Empty slabs and free pages; what CPUs and barns hold stays.
    Empties,
}
