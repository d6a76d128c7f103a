//! The slow path: a thread enters through the gate, serves its call, and leaves. On leaving it
//! does a bounded piece of the background work that is due.
//!
//! Neighbours: on entry, a slow path serves a requested drain ([`super::reclaim::drain`]) and
//! another process's request ([`crate::observe`]); on leaving, it runs deferred frees
//! ([`crate::waiting::deferred`]) and a slice of a reclaim pass ([`super::reclaim::ticker`]), and
//! coalesces a block of a freed run (`pages::coalesce`).
//! Invariants: a thread is in at most one slow path; a signal handler that interrupts it finds
//! [`INSIDE`] and enters none. A fork waits for no slow path: its child first repairs what other
//! threads left half done ([`crate::child`]).

use crate::child::look_at_birth;
use crate::engine::Engine;
use crate::gate::Inside;
use crate::jumped::gave_jumped_up;
use crate::mail::answer_mail;
use crate::pages::coalesce;
use crate::platform::Platform;
#[cfg(target_os = "linux")]
use crate::platform::linux::{Counting, OnLinux};
use crate::platform::mark::{self, Mark};
use crate::reclaim::countdown::{kick_rows, kicks, restart_countdown};
use crate::reclaim::drain::answer_drain;
use crate::reclaim::surplus::{give_slice, has_surplus};
use crate::reclaim::ticker::{has_work, look_at_clock, reclaim, start_ticker_if_due};
use crate::sync::{Ordering, fence_behind_exchange, is_unwinding};
use crate::waiting::deferred::run_deferred;
use crate::waiting::look_at_waiting;
use crate::yard::Yard;
use crate::yard::depth::{INSIDE, LOOK_CALLS, RUN_CALLS};
use crate::yard::rate::{EVERY_CALL, LONGEST_INTERVAL};

/// While it does not run, once in this many.
const REST_CALLS: u32 = 1024;

/// True if a thread's count of calls reaches or crosses a multiple of a power of two between
/// two depth words.
fn crosses(multiple: u32, before: u32, after: u32) -> bool {
    (before ^ after) & (2 * multiple).wrapping_neg() != 0
}

/// Enters a slow path that a thread takes about once in this many calls. `None` in a signal
/// handler that interrupted one.
pub(crate) fn enter_slow_path<'a, P: Platform, E: Engine>(
    yard: &'a Yard<P, E>,
    calls: u32,
) -> Option<SlowPath<'a, P, E>> {
    enter_with(yard, calls, Background::Any)
}

/// As [`enter_slow_path`], with other background work.
#[inline(never)]
pub(crate) fn enter_with<'a, P: Platform, E: Engine>(
    yard: &'a Yard<P, E>,
    calls: u32,
    background: Background,
) -> Option<SlowPath<'a, P, E>> {
    enter(yard, calls, background, None)
}

/// As [`enter_slow_path`], of a free. If its row's countdown ran out (`spent`), this is the
/// periodic slow path, which comes once in the reclaim ticker's interval.
pub(crate) fn slow_path_of_free<'a, P: Platform, E: Engine>(
    yard: &'a Yard<P, E>,
    calls: u32,
    spent: bool,
    mark: &Mark,
) -> Option<SlowPath<'a, P, E>> {
    let background = if spent { Background::CountdownExpired } else { Background::Free };
    enter(yard, calls, background, Some(mark))
}

#[inline(always)]
pub(crate) fn enter<'a, P: Platform, E: Engine>(
    yard: &'a Yard<P, E>,
    calls: u32,
    background: Background,
    mark: Option<&Mark>,
) -> Option<SlowPath<'a, P, E>> {
    let p = yard.platform();
    let depth = &p.thread().depth;
    let mut before = depth.load(Ordering::Relaxed);
    if before & INSIDE != 0 {
        if !gave_jumped_up(yard, mark) {
            return None;
        }
        before &= !INSIDE;
    }
    if let Some(mark) = mark {
        mark.begin(p);
    }
    depth.store(before | INSIDE, Ordering::Relaxed);
    look_at_birth(yard);
    let kicks_before = kicks(yard);
    p.enter();
    let inside = yard.gate.enter(p);
    if let Some(mark) = mark {
        mark.is_counted(p);
    }
    let slow_path = SlowPath { yard, inside, before, calls, background, kicks: kicks_before };
    answer_drain(yard);
    answer_mail(yard);
    Some(slow_path)
}

/// Before a thread leaves its slow path: looks at the clock now and then, makes a slice of what
/// there is to reclaim, and starts this row's countdown again. Returns the thread's depth word.
fn serve_background<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    before: u32,
    calls: u32,
    background: Background,
) -> u32 {
    let interval = yard.interval.load(Ordering::Relaxed);
    let spent = background == Background::CountdownExpired;
    let calls = if spent && interval != 0 { interval } else { calls };
    let after = before.wrapping_add(2 * calls);
    let look = match interval {
        0 => before == 0 || crosses(REST_CALLS, before, after),
        LONGEST_INTERVAL => crosses(LOOK_CALLS, before, after),
        // Few slow paths: a look at the clock costs little.
        _ => true,
    };
    let measures = matches!(interval, EVERY_CALL | LONGEST_INTERVAL) || spent;
    let due = look && look_at_clock(yard, measures);
    let given = !due && has_surplus(yard) && give_slice(yard);
    if due || !given && has_work(yard) {
        reclaim(yard, due);
    }
    // An allocation of a run has enough to do.
    if background == Background::Any && calls != RUN_CALLS && coalesce::is_due(&yard.heap.buddy) {
        coalesce::one_block(&yard.heap);
    }
    restart_countdown(yard);
    start_ticker_if_due(yard);
    after
}

/// Runs `f` while no slow path is under way. `None` in a signal handler that interrupted one, and if
/// a thread stays in one ([`crate::gate`]).
pub(crate) fn while_closed<P: Platform, E: Engine, R>(
    yard: &Yard<P, E>,
    f: impl FnOnce() -> R,
) -> Option<R> {
    close(yard).then(|| {
        let result = f();
        open(yard);
        result
    })
}

#[inline(never)]
fn close<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    let p = yard.platform();
    let depth = &p.thread().depth;
    if depth.load(Ordering::Relaxed) & INSIDE != 0 {
        return false;
    }
    // First: a handler that interrupts this takes no slow path, and closes nothing.
    depth.fetch_or(INSIDE, Ordering::Relaxed);
    look_at_birth(yard);
    p.enter();
    let closed = yard.gate.close(p);
    if !closed {
        depth.fetch_and(!INSIDE, Ordering::Relaxed);
    }
    closed
}

#[inline(never)]
fn open<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let p = yard.platform();
    yard.gate.open(p);
    p.thread().depth.fetch_and(!INSIDE, Ordering::Relaxed);
}

/// Called before the program installs a filter of system calls: when it returns, no slow
/// path is under way that began before and makes calls which a filter may punish
/// ([`Linux::restrict`](crate::platform::linux::Linux::restrict)).
#[cfg(target_os = "linux")]
pub fn restrict<C: Counting, E: Engine>(yard: &Yard<OnLinux<C>, E>) {
    yard.platform().restrict();
    // A thread that is stopped and goes on makes a call that the filter may punish
    // (restart_syscall(2)).
    crate::mail::header::publish_word(yard, slabyard_abi::region::Word::Outside, 0);
    while_closed(yard, || ());
}

/// What kind of call takes the slow path, for its background work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Background {
    /// An allocation, or another call that may take its time.
    Any,
    Free,
    /// A free that found its row's countdown over.
    CountdownExpired,
    /// The helper thread, which makes slices itself.
    None,
}

/// The guard of a slow path under way.
pub(crate) struct SlowPath<'a, P: Platform, E: Engine> {
    yard: &'a Yard<P, E>,
    inside: Inside<'a>,
    /// The depth word before it.
    before: u32,
    calls: u32,
    background: Background,
    /// [`crate::reclaim::countdown::kicks`] when it began.
    kicks: u32,
}

impl<P: Platform, E: Engine> Drop for SlowPath<'_, P, E> {
    #[inline(never)]
    fn drop(&mut self) {
        let yard = self.yard;
        let p = yard.platform();
        if P::UNWINDS && is_unwinding() {
            return;
        }
        if yard.deferred.load(Ordering::Relaxed) != 0 {
            run_deferred(yard);
        }
        look_at_waiting(yard);
        let mut after = self.before;
        if self.background != Background::None {
            after = serve_background(yard, self.before, self.calls, self.background);
        }
        mark::about_to_leave(p);
        yard.gate.leave(p, self.inside);
        // If `kick_all_rows` ran meanwhile, this slow path may have overwritten what it stored: the
        // row's countdown, or an entry's stack. Our stores come before this load.
        fence_behind_exchange();
        if kicks(yard) != self.kicks {
            kick_rows(yard);
        }
        p.thread().depth.store(after, Ordering::Relaxed);
        mark::left(p);
    }
}
