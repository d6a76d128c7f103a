//! The slow-path guard: a thread holds a [`SlowPath`] from its entry through the gate to its
//! end, and does the background work that is due on the way.
//!
//! Neighbours, each with a piece of that work: a requested drain ([`super::reclaim::drain`]), a
//! slice of a reclaim pass ([`super::reclaim::ticker`]), another process's request
//! ([`super::mailbox`]), deferred frees ([`super::deferred`]), a block of a freed run to
//! coalesce ([`crate::pages::coalesce`]).
//! Invariants: a thread is in one slow path at a time; a signal handler that interrupts it
//! finds [`INSIDE`] and enters none. No thread is in one while a thread forks.

use super::Yard;
use super::gate::{Inside, Purpose};
use super::large::RUN_CALLS;
use super::reclaim::rate::{EVERY_CALL, LONGEST_INTERVAL};
use crate::engine::Engine;
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

/// Bit of the depth word: this thread is inside of a slow path. The other bits count the
/// thread's calls, as its slow paths estimate them.
pub(super) const INSIDE: u32 = 1;
/// While the reclaim ticker runs, a thread looks at the clock once in so many calls.
pub(super) const LOOK_CALLS: u32 = 128;
/// While it does not run, once in so many.
const REST_CALLS: u32 = 1024;

/// A free makes a slice only if no allocation took the slow path during the last 8 slow frees
/// and then 2 ticks, or if [`LARGE_BACKLOG`] is exceeded. Programs expect an allocation to be
/// slow at times, and a free not to be; and one that frees all that it has often allocates soon
/// after.
const DEFERRED_FREES: u32 = 8;
const DEFERRED_TICKS: u32 = 2;
/// Frees make slices at once if the purge backlog has more granules: 64 MiB.
const LARGE_BACKLOG: usize = (64 << 20) / GRANULE;

/// The call that takes the slow path.
#[derive(Clone, Copy)]
enum Caller {
    Allocation,
    Free,
}

/// True if a thread's count of calls reaches or crosses a multiple of a power of two between
/// two depth words.
fn crosses(multiple: u32, before: u32, after: u32) -> bool {
    (before ^ after) & (2 * multiple).wrapping_neg() != 0
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Enters a slow path that a thread takes about once in so many calls. `None` in a signal
    /// handler that interrupted one, and while another thread forks.
    pub(super) fn slow_path(&self, calls: u32) -> Option<SlowPath<'_, P, E>> {
        let slow_path = self.slow_path_as(Caller::Allocation, calls, false)?;
        // An allocation of a run has enough to do.
        if calls != RUN_CALLS && self.heap.has_uncoalesced() {
            self.heap.coalesce_one();
        }
        Some(slow_path)
    }

    /// As [`Yard::slow_path`], of a free. If its row's countdown ran out (`spent`), this is the
    /// periodic slow path, which comes once in the reclaim ticker's interval.
    pub(super) fn slow_path_of_free(&self, calls: u32, spent: bool) -> Option<SlowPath<'_, P, E>> {
        self.slow_path_as(Caller::Free, calls, spent)
    }

    fn slow_path_as(&self, caller: Caller, calls: u32, spent: bool) -> Option<SlowPath<'_, P, E>> {
        let interval = self.interval.load(Ordering::Relaxed);
        let coalesces = spent && self.heap.has_uncoalesced();
        // `shorten_countdown` ended the countdown early, after fewer frees than the interval.
        let spent = spent && !coalesces;
        let calls = if spent && interval != 0 { interval } else { calls };
        let (slow_path, before) = self.begin_slow_path(calls)?;
        let look = match interval {
            0 => before == 0 || crosses(REST_CALLS, before, slow_path.after),
            LONGEST_INTERVAL => crosses(LOOK_CALLS, before, slow_path.after),
            // Few slow paths: a look at the clock costs little.
            _ => true,
        };
        let is_work = self.has_work();
        if look || is_work {
            let measures = matches!(interval, EVERY_CALL | LONGEST_INTERVAL) || spent;
            self.tick(look, measures, is_work, || self.takes_turn(caller));
        }
        if coalesces {
            self.heap.coalesce_one();
        }
        self.restart_countdown();
        Some(slow_path)
    }

    /// True if this caller makes a slice: an allocation, or a free if no allocation took the
    /// slow path for a while ([`DEFERRED_FREES`]), in a slow program, or with a large backlog.
    fn takes_turn(&self, caller: Caller) -> bool {
        let deferred = self.deferred_slices.load(Ordering::Relaxed);
        let next = match caller {
            Caller::Allocation => 0,
            Caller::Free => deferred.max(DEFERRED_FREES.min(deferred + 1)),
        };
        if next != deferred {
            self.deferred_slices.store(next, Ordering::Relaxed);
        }
        next == 0
            || next >= DEFERRED_FREES + DEFERRED_TICKS
            || self.backlog.load(Ordering::Relaxed) > LARGE_BACKLOG
            || self.is_slow()
    }

    /// At a tick: counts it, if [`DEFERRED_FREES`] slow frees came since the last slow
    /// allocation.
    pub(super) fn count_deferred_tick(&self) {
        let deferred = self.deferred_slices.load(Ordering::Relaxed);
        if (DEFERRED_FREES..DEFERRED_FREES + DEFERRED_TICKS).contains(&deferred) {
            self.deferred_slices.store(deferred + 1, Ordering::Relaxed);
        }
    }

    /// Enters a slow path, and answers requests, but makes no slice. Returns the guard and the
    /// depth word before it.
    #[inline(always)]
    pub(super) fn begin_slow_path(&self, calls: u32) -> Option<(SlowPath<'_, P, E>, u32)> {
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

    /// Closes the gate for a fork: when it returns, no slow path is under way, and none begins
    /// until [`Yard::open`]. Meanwhile the yard serves other threads' calls as it serves those
    /// of a handler that interrupted a slow path.
    pub fn close(&self) {
        if self.platform().depth().load(Ordering::Relaxed) & INSIDE == 0 {
            self.gate.close(self.platform(), Purpose::Fork);
        }
    }

    /// In the child of a fork, before the gate is opened: forgets the counts of other threads at
    /// the gate, and the parent's mail.
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

impl<E: Engine> Yard<crate::platform::linux::Linux, E> {
    /// Called before the program installs a filter of system calls: when it returns, no slow
    /// path is under way that began before and makes calls which a filter may punish
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

/// The guard of a slow path under way.
pub(super) struct SlowPath<'a, P: Platform, E: Engine> {
    yard: &'a Yard<P, E>,
    inside: Inside<'a>,
    /// The depth word that it stores at its end.
    after: u32,
    /// [`Yard::asks`] when it began.
    asks: u32,
}

impl<P: Platform, E: Engine> Drop for SlowPath<'_, P, E> {
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
        // If `ask_all` ran meanwhile, this slow path may have overwritten what it stored: the
        // row's countdown, or an entry's stack. Our stores come before this load: the gate's
        // exchange, which is SeqCst, lies between.
        if yard.asks() != self.asks {
            yard.ask_rows();
        }
        p.depth().store(self.after, Ordering::Relaxed);
    }
}
