//! When what is parked and not used is looked for: slow paths look at the clock. A
//! thread that helps may do so too ([`Yard::tend`]); nothing here needs one.
//!
//! A tick (an eighth of the decay time) begins a pass ([`super::pass`]), and each
//! slow path makes one slice of it until it ends.
//!
//! Of what waits, more than a quarter of what is live and 32 MiB does not wait for the
//! decay time: a program that frees a gigabyte makes many calls while it does so, and may
//! make few afterwards.
//!
//! While pages wait to go back there is a reclaim ticker: a program comes by once in a slice of
//! frees at least ([`super::countdown`]), so that what waits is done in time ([`super::rate`]).

use super::rate::{EVERY_CALL, LONGEST_INTERVAL};
use crate::cache::classes;
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;
use crate::yard::Yard;
use crate::yard::large::WARM_PART;
use crate::yard::slow_path::LOOK_CALLS;

/// Dirty free granules from which on the reclaim ticker goes: 256 KiB.
const PENDING: usize = 64;
/// Dirty free granules that may wait for the decay time whatever is live: 32 MiB.
const MUCH: usize = (32 << 20) / GRANULE;
/// The slice while pages are backlog, at most: a burst of frees may end at any moment.
const BACKLOG_INTERVAL: u32 = 8;
/// Granules that go back with one slice, as a guess: blocks may be smaller.
const GRANULES_A_SLICE: usize = 64;
/// Steps that an open pass needs beside those for pages, as a guess.
const SLICES_A_PASS: u64 = 64;
/// Rounds at which nothing went home before the reclaim ticker ends: a stack needs two or
/// three to be seen as unused, and so do the runs of the slabs that end with it.
const QUIET_PASSES: u32 = 8;
/// In a slow program the first and then every so many passes compact.
const COMPACT_EVERY: u32 = 4;

impl<P: Platform> Yard<P> {
    /// Milliseconds from one tick to the next.
    pub fn period_ms(&self) -> u64 {
        u64::from(self.decay_ms() / 8).max(1)
    }

    fn is_pending(&self) -> bool {
        self.heap.buddy.waiting_hint() >= PENDING
    }

    /// Begins the reclaim ticker if pages wait to go back.
    #[inline]
    pub(in crate::yard) fn start_ticker_if_due(&self) {
        if self.is_pending() && self.interval.load(Ordering::Relaxed) == 0 {
            self.start_ticker();
        }
    }

    #[cold]
    #[inline(never)]
    fn start_ticker(&self) {
        self.quiet_passes.store(0, Ordering::Relaxed);
        self.rate.begin();
        self.set_interval(LONGEST_INTERVAL);
        // A main sheaf may have room for a second of a slow program's frees: the
        // first of them is to come by, and to take its share of the slice.
        self.ask_all();
    }

    fn set_interval(&self, slice: u32) {
        // SeqCst: who was told of an earlier change and asks again sees this one
        // (`Yard::is_ticking`).
        let old = self.interval.swap(slice, Ordering::SeqCst);
        if (old == 0) != (slice == 0)
            && let Some(call) = self.on_ticking.try_get()
        {
            call(slice != 0);
        }
        self.publish_interval(old, slice);
    }

    /// Tells of a slice that changed, where every call is to come by or was.
    fn publish_interval(&self, old: u32, new: u32) {
        if (old == EVERY_CALL) != (new == EVERY_CALL)
            && let Some(call) = self.on_every_call.try_get()
        {
            call();
        }
    }

    /// At a look at the clock during the reclaim ticker: its slice follows from what waits.
    fn adapt_interval(&self, now: u64, interval: u32) {
        let calls = if interval == LONGEST_INTERVAL { LOOK_CALLS } else { interval };
        if !self.rate.look(now, calls) {
            return;
        }
        let mut slices = u64::from(self.open.load(Ordering::Relaxed)) * SLICES_A_PASS;
        if self.is_pending() {
            slices += (self.heap.buddy.waiting_hint() / GRANULES_A_SLICE) as u64;
        }
        let owing = self.backlog.load(Ordering::Relaxed) > 0;
        let longest = if owing { BACKLOG_INTERVAL } else { LONGEST_INTERVAL };
        self.change_interval(interval, self.rate.slice(slices).min(longest));
    }

    /// Only the slice changes: one that ended meanwhile stays ended.
    fn change_interval(&self, interval: u32, slice: u32) {
        // SeqCst: as in `set_interval`.
        if self
            .interval
            .compare_exchange(interval, slice, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
        {
            self.publish_interval(interval, slice);
            if slice < interval / 2 {
                // Each row has what is left of the longer slice still.
                self.ask_all();
            }
        }
    }

    /// Called at slow paths: at one that is to look at the clock, and at each while
    /// something `waits`. A slice of what waits is made where it is its caller's turn.
    pub(in crate::yard) fn tick(
        &self,
        look: bool,
        slices: bool,
        waits: bool,
        is_turn: impl FnOnce() -> bool,
    ) {
        let due = look && self.is_due(slices);
        if due {
            self.count_tick_left();
        }
        if due || waits {
            let makes = is_turn();
            if due || makes {
                self.slice(due, makes);
            }
        }
    }

    /// Looks at the clock and makes one slice of what waits, for a thread that helps a
    /// program which makes no calls itself. True while more waits at once; else the next
    /// is due after [`Yard::period_ms`], while the yard [beats](Yard::is_ticking).
    ///
    /// It is no call of the program's: it tells nothing of its rate.
    pub fn tend(&self) -> bool {
        let Some((_slow_path, _)) = self.begin_slow_path(0) else {
            return false;
        };
        let due = self.comes(self.platform().now_ms());
        (due || self.waits()) && self.slice(due, true) && self.waits()
    }

    /// Begins a pass if a tick is due, and makes a slice if it is to. False if another
    /// thread is at it.
    #[inline]
    fn slice(&self, due: bool, makes: bool) -> bool {
        let slow = self.is_slow();
        // Several threads may pay at once.
        if !slow && !due && self.purge_backlog() {
            return true;
        }
        let Some(mut pass) = self.drain.try_lock(self.platform()) else {
            return false;
        };
        // In a slow program, now and then, stacks in use go home too. Their
        // objects lie where a burst left them, each may hold a slab, and what is
        // taken next comes from few.
        let nth = self.slow_passes.load(Ordering::Relaxed);
        if due && pass.begin(slow && nth.is_multiple_of(COMPACT_EVERY)) {
            self.slow_passes.store(if slow { nth.wrapping_add(1) } else { 0 }, Ordering::Relaxed);
            self.open.store(1, Ordering::Relaxed);
            self.heap.sheaves.look(self.platform());
        }
        if !makes {
            return true;
        }
        // A slow program makes few slices: what holds slabs goes home first, and then both
        // the slabs and what is backlog go back.
        if !(slow && pass.is_flushing()) && self.purge_backlog() {
            pass.count_purge();
            return true;
        }
        // The quick look may have been too early: another thread ended the pass.
        if !pass.is_open() {
            return true;
        }
        let ended = self.go_on(&mut pass);
        #[cfg(any(test, feature = "machine"))]
        let ended = ended.or_else(|| self.go_on_as_planted(&mut pass));
        if let Some(went) = ended {
            self.open.store(0, Ordering::Relaxed);
            self.end_pass(went);
        }
        true
    }

    /// True while a slice waits to be made, as of a moment ago.
    #[inline]
    pub(in crate::yard) fn waits(&self) -> bool {
        self.open.load(Ordering::Relaxed) != 0 || self.backlog.load(Ordering::Relaxed) != 0
    }

    /// Gives a part of the pages back that are backlog. False if there is nothing to do.
    fn purge_backlog(&self) -> bool {
        let backlog = self.backlog.load(Ordering::Relaxed);
        let went = if backlog > 0 { self.heap.purge_part(0) } else { None };
        if backlog > 0 {
            // An allocation that raised it meanwhile says so again with the next.
            self.backlog.store(backlog.saturating_sub(went.unwrap_or(backlog)), Ordering::Relaxed);
        }
        went.is_some()
    }

    /// Weighs what waits against what is live: what is too much is backlog. Not where large
    /// blocks come and go: who asks for one makes room.
    fn raise_backlog(&self, interval: u32) {
        let dirty = self.heap.buddy.waiting_hint();
        if dirty > MUCH && !self.is_large_warm() {
            let live = self.live_granules(self.heap.free_count().free);
            let surplus = dirty.saturating_sub(MUCH + live / WARM_PART);
            self.backlog.fetch_max(surplus, Ordering::Relaxed);
            if surplus > 0 && interval > BACKLOG_INTERVAL {
                self.change_interval(interval, BACKLOG_INTERVAL);
            }
        }
    }

    /// Granules that are not free, of which there are so many, and those of mappings.
    pub(in crate::yard) fn live_granules(&self, free: usize) -> usize {
        let heap = &self.heap;
        heap.region.top() - free + heap.mappings.live().1 / GRANULE
    }

    /// True if slow paths come rarely, as far as is known: the rate is measured during the
    /// reclaim ticker alone.
    pub(in crate::yard) fn is_slow(&self) -> bool {
        self.is_ticking() && self.rate.is_slow()
    }

    /// Looks at the clock; true for one caller when a tick is due.
    fn is_due(&self, slices: bool) -> bool {
        let now = self.platform().now_ms();
        let interval = self.interval.load(Ordering::Relaxed);
        if interval != 0 {
            if slices {
                self.adapt_interval(now, interval);
            }
            self.raise_backlog(interval);
        }
        self.comes(now)
    }

    /// True for one caller when a tick is due.
    fn comes(&self, now: u64) -> bool {
        let last = self.last_tick.load(Ordering::Relaxed);
        now >= last + self.period_ms()
            && self
                .last_tick
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Plants a bug: slow paths make whole passes.
    #[cfg(any(test, feature = "machine"))]
    pub fn plant_whole_passes(&self) {
        self.whole_passes.store(1, Ordering::Relaxed);
    }

    #[cfg(any(test, feature = "machine"))]
    fn go_on_as_planted(&self, pass: &mut super::pass::Pass) -> Option<bool> {
        let whole = self.whole_passes.load(Ordering::Relaxed) != 0;
        whole.then(|| std::iter::repeat_with(|| self.go_on(pass)).flatten().next())?
    }

    fn end_pass(&self, went: bool) {
        let quiet = !went && !self.is_pending();
        let passes = if quiet { self.quiet_passes.load(Ordering::Relaxed) + 1 } else { 0 };
        self.quiet_passes.store(passes, Ordering::Relaxed);
        if passes >= QUIET_PASSES {
            self.set_interval(0);
        }
    }

    /// The next free of each cache on each row takes the slow path: none is left to the row,
    /// and its stacks are asked. Either alone may get lost, the one by the owner's count,
    /// the other by a slow path that puts another stack there.
    ///
    /// A slow path that is under way may have read what there was before, and grant its row
    /// frees without end. So it asks again as it ends ([`crate::yard::slow_path`]).
    pub(in crate::yard) fn ask_all(&self) {
        // SeqCst: either we come after what a slow path stored, or that slow path, which
        // leaves the gate between its stores and its look, sees this. On x86-64 each of the
        // two exchanges is a fence.
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.ask_rows();
    }

    /// How often all rows were asked so far.
    pub(in crate::yard) fn asks(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    /// As [`Yard::ask_all`], for a slow path that was under way then.
    #[cold]
    #[inline(never)]
    pub(in crate::yard) fn ask_rows(&self) {
        let p = self.platform();
        for row in (0..p.rows().len()).filter(|row| p.row_used(*row)) {
            p.rows().countdown(row).store(0, Ordering::Relaxed);
            for class in 0..classes::CLASSES {
                let entry = p.rows().entry(row, classes::slot_of(class));
                if !entry.is_none() {
                    entry.ask();
                }
            }
        }
    }
}
