//! The reclaim ticker: it decides when a reclaim pass begins and how often a slow path must
//! come to make its slices.
//!
//! Slow paths look at the clock. A tick (an eighth of the decay time after the last) begins a
//! pass ([`super::pass`]), and each slow path makes one slice of it until it ends. A helper
//! thread may do the same ([`Yard::help_reclaim`]); nothing here needs one.
//!
//! Dirty free pages beyond 32 MiB and a quarter of the live memory do not wait for the decay
//! time: they are the purge backlog, which slow paths purge first. A program that frees a
//! gigabyte makes many calls while it does so, and may make few afterwards.
//!
//! While dirty free pages wait to be purged, the ticker runs: each CPU's row takes a slow path
//! at least once in `interval` frees ([`super::countdown`]), and the interval follows from the
//! program's rate and the work that is left ([`super::rate`]).

use super::rate::{EVERY_CALL, LONGEST_INTERVAL};
use crate::cache::slots::{number_of, slot_of};
use crate::engine::Engine;
use crate::large::WARM_PART;
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;
use crate::yard::Yard;
use crate::yard::slow_path::{Background, LOOK_CALLS};
use crate::yard::stacks::Stacks;

/// The ticker runs while there are so many dirty free granules: 256 KiB.
const PENDING: usize = 64;
/// And where a helper gives back, while barns have so many bytes, which keep slabs.
const PENDING_IN_BARNS: usize = 1 << 20;
/// Dirty free granules that may wait for the decay time however little is live: 32 MiB.
const MUCH: usize = (32 << 20) / GRANULE;
/// The longest interval while there is a purge backlog: a burst of frees may end at any moment.
const BACKLOG_INTERVAL: u32 = 8;
/// Granules that one slice purges, as a guess: blocks may be smaller.
const GRANULES_A_SLICE: usize = 64;
/// Slices that an open pass needs beside those for pages, as a guess.
const SLICES_A_PASS: u64 = 64;
/// The ticker ends after so many passes in a row reclaimed nothing, and found no run in a bank: a stack counts as idle
/// after two or three, and so do then the runs of the slabs that end with it.
const MOST_IDLE_PASSES: u32 = 8;
/// In a slow program the first pass and then every fourth compacts.
const COMPACT_EVERY: u32 = 4;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Milliseconds from one tick to the next.
    pub fn period_ms(&self) -> u64 {
        u64::from(self.decay_ms() / 8).max(1)
    }

    fn is_pending(&self) -> bool {
        self.heap.buddy.waiting_hint() >= PENDING
            || self.surplus.is_helped()
                && self.heap.parked_node_bytes.load(Ordering::Relaxed) >= PENDING_IN_BARNS
    }

    /// Starts the reclaim ticker if enough dirty free pages wait to be purged.
    #[inline]
    pub(crate) fn start_ticker_if_due(&self) {
        if self.is_pending() && self.interval.load(Ordering::Relaxed) == 0 {
            self.start_ticker();
        }
    }

    /// Starts it if it does not run: a bank is there, whose runs go back when it is idle.
    #[inline]
    pub(crate) fn start_ticker_for_bank(&self) {
        if self.interval.load(Ordering::Relaxed) == 0 {
            self.start_ticker();
        }
    }

    #[cold]
    #[inline(never)]
    fn start_ticker(&self) {
        self.idle_passes.store(0, Ordering::Relaxed);
        self.rate.begin();
        self.set_interval(LONGEST_INTERVAL);
        // A main sheaf may have room for a second of a slow program's frees: the first of them
        // must take the slow path, and start the row's countdown.
        self.ask_all();
    }

    fn set_interval(&self, new: u32) {
        // SeqCst: a thread that an earlier change notified, and that calls `Yard::is_ticking`
        // again, sees this change.
        let old = self.interval.swap(new, Ordering::SeqCst);
        if (old == 0) != (new == 0)
            && let Some(call) = self.on_ticking.try_get()
        {
            call(new != 0);
        }
        self.notify_every_call(old, new);
    }

    /// If every call must take the slow path from now on, or no longer: closes or opens the fast path
    /// of typed caches, and calls `on_every_call`.
    fn notify_every_call(&self, old: u32, new: u32) {
        if (old == EVERY_CALL) != (new == EVERY_CALL) {
            self.choose_pops();
            if let Some(call) = self.on_every_call.try_get() {
                call();
            }
        }
    }

    /// At a look at the clock while the ticker runs: sets the interval by the program's rate and
    /// by how many slices are left to make.
    fn adapt_interval(&self, now: u64, interval: u32) {
        let calls = if interval == LONGEST_INTERVAL { LOOK_CALLS } else { interval };
        if !self.rate.look(now, calls) {
            return;
        }
        let mut slices = u64::from(self.open.load(Ordering::Relaxed)) * SLICES_A_PASS;
        if self.is_pending() {
            slices += (self.heap.buddy.waiting_hint() / GRANULES_A_SLICE) as u64;
        }
        let has_backlog = self.backlog.load(Ordering::Relaxed) > 0;
        let longest = if has_backlog { BACKLOG_INTERVAL } else { LONGEST_INTERVAL };
        self.change_interval(interval, self.rate.interval(slices).min(longest));
    }

    /// Changes the interval of a running ticker: one that ended meanwhile stays ended.
    fn change_interval(&self, old: u32, new: u32) {
        // SeqCst: as in `set_interval`.
        if self.interval.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.notify_every_call(old, new);
            if new < old / 2 {
                // Each row's countdown still has the rest of the longer interval.
                self.ask_all();
            }
        }
    }

    /// Looks at the clock and makes one slice, for a helper thread of a program which makes no
    /// calls itself. True while there is more to do at once; else the next call is due after
    /// [`Yard::period_ms`], while the [ticker runs](Yard::is_ticking).
    ///
    /// It is no call of the program's, so it does not measure the program's rate.
    pub fn help_reclaim(&self) -> bool {
        let Some(_slow_path) = self.enter(0, Background::None, None) else {
            return false;
        };
        let due = self.claim_tick(self.platform().now_ms());
        (due || self.has_work()) && self.reclaim(due) && self.has_work()
    }

    /// Begins a pass if a tick is `due`, and makes a slice. False if another thread holds the
    /// drain lock.
    pub(crate) fn reclaim(&self, due: bool) -> bool {
        let slow = self.is_slow();
        // Without the lock: several threads may purge the backlog at once.
        if !slow && !due && !self.surplus.sparse.is_asked() && self.purge_backlog() {
            return true;
        }
        let Some(mut pass) = self.drain.try_lock(self.platform()) else {
            return false;
        };
        // In a slow program, every fourth pass flushes stacks in use too. Their objects lie
        // where a burst left them and each may pin a slab; the refills that follow take their
        // objects from few slabs.
        let nth = self.slow_passes.load(Ordering::Relaxed);
        if due && pass.begin(slow && nth.is_multiple_of(COMPACT_EVERY)) {
            self.slow_passes.store(if slow { nth.wrapping_add(1) } else { 0 }, Ordering::Relaxed);
            self.open.store(1, Ordering::Relaxed);
            self.heap.sheaves.look(self.platform());
        }
        if self.flush_sparse(&mut pass) {
            return true;
        }
        // A slow program makes few slices: the objects that pin slabs are flushed first, and then
        // both those slabs' pages and the backlog are purged.
        if !(slow && pass.is_flushing()) && self.purge_backlog() {
            pass.count_purge();
            return true;
        }
        // Another thread may have ended the pass since `has_work` read `open`.
        if !pass.is_open() {
            return true;
        }
        let mut ended = self.run_slice(&mut pass);
        while ended.is_none() && self.planted.makes_whole_passes() {
            ended = self.run_slice(&mut pass);
        }
        if let Some(reclaimed) = ended {
            self.open.store(0, Ordering::Relaxed);
            self.end_pass(reclaimed || pass.has_banked);
        }
        true
    }

    /// True while a pass is open, there is a purge backlog, or a cache is to be flushed. Takes no lock, so the answer may
    /// be out of date.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.open.load(Ordering::Relaxed) != 0
            || self.backlog.load(Ordering::Relaxed) != 0
            || self.surplus.sparse.is_asked()
    }

    /// Purges a part of the backlog. False if there is nothing to purge.
    fn purge_backlog(&self) -> bool {
        let backlog = self.backlog.load(Ordering::Relaxed);
        let purged = if backlog > 0 { self.heap.purge_part(0) } else { None };
        if backlog > 0 {
            // This may overwrite a raise by another thread, whose next call raises it again.
            let rest = backlog.saturating_sub(purged.unwrap_or(backlog));
            self.backlog.store(rest, Ordering::Relaxed);
        }
        purged.is_some()
    }

    /// Raises the purge backlog to the dirty free pages that are too many beside the live
    /// memory. Not where large blocks come and go: there the allocation of one makes room
    /// ([`crate::large`]).
    fn raise_backlog(&self, interval: u32) {
        let dirty = self.heap.buddy.waiting_hint();
        if dirty > MUCH && !self.is_large_warm() {
            let live = self.live_granules(self.heap.free_count().free);
            let surplus = dirty.saturating_sub(MUCH + live / WARM_PART);
            self.backlog.fetch_max(surplus, Ordering::Relaxed);
            self.look_at_surplus();
            if surplus > 0 && interval > BACKLOG_INTERVAL {
                self.change_interval(interval, BACKLOG_INTERVAL);
            }
        }
    }

    /// Live granules: those of the region less so many that are `free`, and those of mappings.
    pub(crate) fn live_granules(&self, free: usize) -> usize {
        self.heap.region.top() - free + self.heap.mappings.live().1 / GRANULE
    }

    /// True if the program is known to be slow ([`super::rate`]): the rate is measured only while
    /// the ticker runs.
    pub(crate) fn is_slow(&self) -> bool {
        self.is_ticking() && self.rate.is_slow()
    }

    /// Looks at the clock, which adapts the interval and the backlog while the ticker runs. True
    /// for one caller when a tick is due.
    pub(crate) fn look_at_clock(&self, measures: bool) -> bool {
        let now = self.platform().now_ms();
        let interval = self.interval.load(Ordering::Relaxed);
        if interval != 0 {
            if measures {
                self.adapt_interval(now, interval);
            }
            self.raise_backlog(interval);
        }
        let due = self.claim_tick(now);
        if due {
            self.look_at_surplus();
        }
        due
    }

    /// True for one caller when a tick is due.
    fn claim_tick(&self, now: u64) -> bool {
        let last = self.last_tick.load(Ordering::Relaxed);
        now >= last + self.period_ms()
            && self
                .last_tick
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    fn end_pass(&self, reclaimed: bool) {
        let idle = !reclaimed && !self.is_pending();
        let passes = if idle { self.idle_passes.load(Ordering::Relaxed) + 1 } else { 0 };
        self.idle_passes.store(passes, Ordering::Relaxed);
        if passes >= MOST_IDLE_PASSES {
            self.set_interval(0);
        }
    }

    /// Makes the next free of each cache on each row take the slow path: ends the countdowns,
    /// and asks the stacks ([`Entry::ask`](crate::platform::Entry::ask)). Either alone may be
    /// lost: the first to the owner's concurrent count, the second to a slow path that puts
    /// another stack into the entry.
    ///
    /// A slow path under way may have read the interval before it changed, and then restart its
    /// row's countdown at the old one. So a slow path asks again at its end if `asked` changed
    /// meanwhile ([`crate::yard::slow_path`]).
    pub(crate) fn ask_all(&self) {
        // SeqCst: either our stores below come after those of a slow path under way, or that
        // slow path sees this count: it leaves the gate between its stores and its load
        // (`Yard::asks`). On x86-64 each of the two exchanges is a fence.
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.ask_rows();
    }

    /// How often [`Yard::ask_all`] asked all rows so far.
    pub(crate) fn asks(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    /// As [`Yard::ask_all`], for a slow path that was under way then.
    #[cold]
    #[inline(never)]
    pub(crate) fn ask_rows(&self) {
        let rows = self.platform().rows();
        (0..self.platform().rows_used()).for_each(|row| {
            rows.countdown(row).store(0, Ordering::Relaxed);
        });
        for (row, slot) in self.entries(Stacks::Caches) {
            // A spare stack takes no push.
            if number_of(slot).is_some_and(|number| slot_of(number) == slot) {
                rows.entry(row, slot).ask();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CacheSettings;
    use crate::platform::machine::{Config, Machine};
    use crate::platform::{Platform, Slot};
    use crate::yard::{Settings, Yard};
    use std::boxed::Box;

    #[test]
    fn inlined_pops_are_slow_while_each_call_must_be() {
        let yard: &'static Yard<Machine> =
            Box::leak(Box::new(Yard::new(Machine::new(Config::default()))));
        assert!(yard.init(Settings { reserve_bytes: 64 << 20, decay_ms: 250 }));
        let create = |name: &str| {
            let id = yard.create_cache(name, &CacheSettings::of(64)).expect("a cache");
            (id, yard.fast_path(id, id.slot()))
        };
        let (id, words) = create("before");
        let object = yard.alloc_from(id).expect("memory");
        yard.free(object).expect("a live object");
        assert_eq!(words.slot_of_pop(), id.slot());
        yard.set_interval(EVERY_CALL);
        let (other, late) = create("meanwhile");
        assert_eq!([words.slot_of_pop(), late.slot_of_pop()], [Slot(0); 2]);
        assert_eq!(yard.platform().pop_inlined(&words), None);
        assert_eq!(words.slot(), id.slot(), "a push looks at the countdown");
        yard.set_interval(LONGEST_INTERVAL);
        assert_eq!([words.slot_of_pop(), late.slot_of_pop()], [id.slot(), other.slot()]);
        assert!(yard.platform().pop_inlined(&words).is_some());
    }
}
