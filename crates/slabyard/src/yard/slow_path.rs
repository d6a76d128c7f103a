//! A slow_path: one slow path under way, from its entry through the gate to its end.
//!
//! Neighbours: what is done on the way, if it is due: a drain that was asked for
//! ([`super::reclaim::drain`]), a step of a pass ([`super::reclaim::ticker`]), mail ([`super::mailbox`]),
//! deferred frees ([`super::deferred`]), a block of a freed run to join
//! ([`crate::pages`]'s `freed`).
//! Invariant: a thread is in one slow path at a time; a handler that interrupts it finds
//! [`INSIDE`] and gets none. Nobody is in one while a thread forks.

use super::Yard;
use super::gate::{Inside, Purpose};
use super::large::RUN_CALLS;
use super::reclaim::rate::{EVERY_CALL, LONGEST_INTERVAL};
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

/// Bit of the depth word: this thread is inside of a slow path. The other bits
/// count its calls, as slow paths guess them.
pub(super) const INSIDE: u32 = 1;
/// During the reclaim ticker a thread looks at the clock once in so many calls.
pub(super) const LOOK_CALLS: u32 = 128;
/// Without one, once in so many.
const REST_CALLS: u32 = 1024;

/// Steps that frees leave to the allocations, and then ticks: these are slow now and then
/// anyway, and who frees counts on no work. A program that frees all that it has often
/// allocates soon after.
const MOST_LEFT: u32 = 8;
const TICKS_LEFT: u32 = 2;
/// They wait for nobody if so many granules are backlog: 64 MiB.
const LARGE_BACKLOG: usize = (64 << 20) / GRANULE;

/// Who comes by.
#[derive(Clone, Copy)]
enum Caller {
    Allocation,
    Free,
}

/// True if a thread's calls, counted from 0 or a count before to another, come to or
/// pass a multiple of a power of two.
fn passes(multiple: u32, before: u32, after: u32) -> bool {
    (before ^ after) & (2 * multiple).wrapping_neg() != 0
}

impl<P: Platform> Yard<P> {
    /// Enters a slow path that comes about once in so many calls; `None` inside of one
    /// that a signal interrupted, and while another thread forks.
    pub(super) fn slow_path(&self, calls: u32) -> Option<SlowPath<'_, P>> {
        let slow_path = self.slow_path_as(Caller::Allocation, calls, false)?;
        // Who wants a run has enough to do.
        if calls != RUN_CALLS && self.heap.has_uncoalesced() {
            self.heap.coalesce_one();
        }
        Some(slow_path)
    }

    /// As [`Yard::slow_path`], of a free; if its row's frees were `spent`, it comes once in a
    /// step of the reclaim ticker.
    pub(super) fn slow_path_of_free(&self, calls: u32, spent: bool) -> Option<SlowPath<'_, P>> {
        self.slow_path_as(Caller::Free, calls, spent)
    }

    fn slow_path_as(&self, caller: Caller, calls: u32, spent: bool) -> Option<SlowPath<'_, P>> {
        let interval = self.interval.load(Ordering::Relaxed);
        let coalesces = spent && self.heap.has_uncoalesced();
        // Then it was asked to come soon, and made fewer frees than a step.
        let spent = spent && !coalesces;
        let calls = if spent && interval != 0 { interval } else { calls };
        let (slow_path, before) = self.begin_slow_path(calls)?;
        let look = match interval {
            0 => before == 0 || passes(REST_CALLS, before, slow_path.after),
            LONGEST_INTERVAL => passes(LOOK_CALLS, before, slow_path.after),
            // A slow program: the clock costs it nothing.
            _ => true,
        };
        let waits = self.waits();
        if look || waits {
            let steps = matches!(interval, EVERY_CALL | LONGEST_INTERVAL) || spent;
            self.tick(look, steps, waits, || self.is_turn_of(caller));
        }
        if coalesces {
            self.heap.coalesce_one();
        }
        self.restart_countdown();
        Some(slow_path)
    }

    /// True if a step of what waits is for who comes by: an allocation, or a free if for a
    /// while no allocation came by.
    fn is_turn_of(&self, caller: Caller) -> bool {
        let left = self.left_to_allocations.load(Ordering::Relaxed);
        let next = match caller {
            Caller::Allocation => 0,
            Caller::Free => left.max(MOST_LEFT.min(left + 1)),
        };
        if next != left {
            self.left_to_allocations.store(next, Ordering::Relaxed);
        }
        next == 0
            || next >= MOST_LEFT + TICKS_LEFT
            || self.backlog.load(Ordering::Relaxed) > LARGE_BACKLOG
            || self.is_slow()
    }

    /// At a tick: counts it, if frees alone came by.
    pub(super) fn count_tick_left(&self) {
        let left = self.left_to_allocations.load(Ordering::Relaxed);
        if (MOST_LEFT..MOST_LEFT + TICKS_LEFT).contains(&left) {
            self.left_to_allocations.store(left + 1, Ordering::Relaxed);
        }
    }

    /// A slow_path, and the depth word before it; nothing of what waits is done yet.
    #[inline(always)]
    pub(super) fn begin_slow_path(&self, calls: u32) -> Option<(SlowPath<'_, P>, u32)> {
        let p = self.platform();
        let depth = p.depth();
        let before = depth.load(Ordering::Relaxed);
        if before & INSIDE != 0 {
            return None;
        }
        depth.store(before | INSIDE, Ordering::Relaxed);
        let asks = self.asks();
        p.enter();
        let Some(inside) = self.gate.enter(p) else {
            depth.store(before, Ordering::Relaxed);
            return None;
        };
        let after = before.wrapping_add(2 * calls);
        let slow_path = SlowPath { yard: self, inside, after, asks };
        self.answer_drain();
        self.answer_mail();
        Some((slow_path, before))
    }

    /// Closes the gate: when it returns, no slow path is under way, and none begins until
    /// [`Yard::open`]. For fork: other threads' calls are served meanwhile as those of a
    /// handler that interrupted a slow path.
    pub fn close(&self) {
        if self.platform().depth().load(Ordering::Relaxed) & INSIDE == 0 {
            self.gate.close(self.platform(), Purpose::Fork);
        }
    }

    /// In the child of a fork, before the gate is opened: what other threads left at it
    /// and in the mailbox.
    pub fn forget_others(&self) {
        let inside = self.platform().depth().load(Ordering::Relaxed) & INSIDE != 0;
        self.gate.forget_others(self.platform(), inside);
        self.forget_mail();
    }

    /// Opens the gate again.
    pub fn open(&self) {
        if self.platform().depth().load(Ordering::Relaxed) & INSIDE == 0 {
            self.gate.open(self.platform());
        }
    }
}

impl Yard<crate::platform::linux::Linux> {
    /// A filter of system calls is about to be installed: when it returns, no slow path is
    /// under way that began before and makes calls which a filter may punish
    /// ([`Linux::restrict`](crate::platform::linux::Linux::restrict)).
    pub fn restrict(&self) {
        let p = self.platform();
        p.restrict();
        let outside = p.depth().load(Ordering::Relaxed) & INSIDE == 0;
        if outside && self.gate.close(p, Purpose::Look) {
            self.gate.open(p);
        }
    }
}

/// A slow path under way.
pub(super) struct SlowPath<'a, P: Platform> {
    yard: &'a Yard<P>,
    inside: Inside<'a>,
    /// The depth word after it.
    after: u32,
    /// [`Yard::asks`] at its begin.
    asks: u32,
}

impl<P: Platform> Drop for SlowPath<'_, P> {
    fn drop(&mut self) {
        let yard = self.yard;
        let p = yard.platform();
        if yard.deferred.load(Ordering::Relaxed) != 0 {
            yard.run_deferred();
        }
        yard.start_ticker_if_due();
        if yard.heap.has_many_uncoalesced() {
            self.after = self.after.wrapping_add(2 * yard.shorten_countdown());
        }
        yard.gate.leave(p, self.inside);
        // It may have granted frees without end, or put a stack into a row, when rows were
        // asked meanwhile. What it stored comes before this look: the gate's exchange is
        // between.
        if yard.asks() != self.asks {
            yard.ask_rows();
        }
        p.depth().store(self.after, Ordering::Relaxed);
    }
}
