//! When what is parked and not used is looked for: slow paths look at the clock. A
//! thread that helps may do so too ([`Yard::tend`]); nothing here needs one.
//!
//! A tick (an eighth of the decay time) begins a round ([`super::round`]), and each
//! slow path makes one step of it until it ends.
//!
//! Of what waits, more than a quarter of what is live and 32 MiB does not wait for the
//! decay time: a program that frees a gigabyte makes many calls while it does so, and may
//! make few afterwards.
//!
//! While pages wait to go back there is a heartbeat: a program comes by once in a step of
//! frees at least ([`super::frees`]), so that what waits is done in time ([`super::pace`]).

use super::Yard;
use super::large::WARM_PART;
use super::pace::{EVERY_CALL, LONGEST_STEP};
use super::visit::LOOK_CALLS;
use crate::cache::classes;
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

/// Dirty free granules from which on the heartbeat goes: 256 KiB.
const PENDING: usize = 64;
/// Dirty free granules that may wait for the decay time whatever is live: 32 MiB.
const MUCH: usize = (32 << 20) / GRANULE;
/// The step while pages are owed, at most: a burst of frees may end at any moment.
const OWING_STEP: u32 = 8;
/// Granules that go back with one step, as a guess: blocks may be smaller.
const GRANULES_A_STEP: usize = 64;
/// Steps that an open round needs beside those for pages, as a guess.
const STEPS_A_ROUND: u64 = 64;
/// Rounds at which nothing went home before the heartbeat ends: a stack needs two or
/// three to be seen as unused, and so do the runs of the slabs that end with it.
const QUIET_ROUNDS: u32 = 8;
/// In a slow program the first and then every so many rounds gather.
const GATHER: u32 = 4;

impl<P: Platform> Yard<P> {
    /// Milliseconds from one tick to the next.
    pub fn period_ms(&self) -> u64 {
        u64::from(self.decay_ms() / 8).max(1)
    }

    fn is_pending(&self) -> bool {
        self.ground.buddy.waiting_hint() >= PENDING
    }

    /// Begins the heartbeat if pages wait to go back.
    #[inline]
    pub(super) fn begin_beat_if_due(&self) {
        if self.is_pending() && self.beat.load(Ordering::Relaxed) == 0 {
            self.begin_beat();
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_beat(&self) {
        self.quiet_rounds.store(0, Ordering::Relaxed);
        self.pace.begin();
        self.set_beat(LONGEST_STEP);
        // A main sheaf may have room for a second of a slow program's frees: the
        // first of them is to come by, and to take its share of the step.
        self.ask_all();
    }

    fn set_beat(&self, step: u32) {
        // SeqCst: who was told of an earlier change and asks again sees this one
        // (`Yard::beats`).
        let old = self.beat.swap(step, Ordering::SeqCst);
        if (old == 0) != (step == 0)
            && let Some(call) = self.on_beat.try_get()
        {
            call(step != 0);
        }
        self.tell_step(old, step);
    }

    /// Tells of a step that changed, where every call is to come by or was.
    fn tell_step(&self, old: u32, new: u32) {
        if (old == EVERY_CALL) != (new == EVERY_CALL)
            && let Some(call) = self.on_every_call.try_get()
        {
            call();
        }
    }

    /// At a look at the clock during the heartbeat: its step follows from what waits.
    fn keep_pace(&self, now: u64, beat: u32) {
        let calls = if beat == LONGEST_STEP { LOOK_CALLS } else { beat };
        if !self.pace.look(now, calls) {
            return;
        }
        let mut steps = u64::from(self.open.load(Ordering::Relaxed)) * STEPS_A_ROUND;
        if self.is_pending() {
            steps += (self.ground.buddy.waiting_hint() / GRANULES_A_STEP) as u64;
        }
        let owing = self.owed.load(Ordering::Relaxed) > 0;
        let longest = if owing { OWING_STEP } else { LONGEST_STEP };
        self.change_step(beat, self.pace.step(steps).min(longest));
    }

    /// Only the step changes: one that ended meanwhile stays ended.
    fn change_step(&self, beat: u32, step: u32) {
        // SeqCst: as in `set_beat`.
        if self.beat.compare_exchange(beat, step, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            self.tell_step(beat, step);
            if step < beat / 2 {
                // Each row has what is left of the longer step still.
                self.ask_all();
            }
        }
    }

    /// Called at slow paths: at one that is to look at the clock, and at each while
    /// something `waits`. A step of what waits is made where it is its caller's turn.
    pub(super) fn tick(
        &self,
        look: bool,
        steps: bool,
        waits: bool,
        is_turn: impl FnOnce() -> bool,
    ) {
        let due = look && self.is_due(steps);
        if due {
            self.count_tick_left();
        }
        if due || waits {
            let makes = is_turn();
            if due || makes {
                self.step(due, makes);
            }
        }
    }

    /// Looks at the clock and makes one step of what waits, for a thread that helps a
    /// program which makes no calls itself. True while more waits at once; else the next
    /// is due after [`Yard::period_ms`], while the yard [beats](Yard::beats).
    ///
    /// It is no call of the program's: it tells nothing of its pace.
    pub fn tend(&self) -> bool {
        let Some((_visit, _)) = self.come_in(0) else {
            return false;
        };
        let due = self.comes(self.platform().now_ms());
        (due || self.waits()) && self.step(due, true) && self.waits()
    }

    /// Begins a round if a tick is due, and makes a step if it is to. False if another
    /// thread is at it.
    #[inline]
    fn step(&self, due: bool, makes: bool) -> bool {
        let slow = self.is_slow();
        // Several threads may pay at once.
        if !slow && !due && self.pays() {
            return true;
        }
        let Some(mut round) = self.drain.try_lock(self.platform()) else {
            return false;
        };
        // In a slow program, now and then, stacks in use go home too. Their
        // objects lie where a burst left them, each may hold a slab, and what is
        // taken next comes from few.
        let nth = self.slow_rounds.load(Ordering::Relaxed);
        if due && round.begin(slow && nth.is_multiple_of(GATHER)) {
            self.slow_rounds.store(if slow { nth.wrapping_add(1) } else { 0 }, Ordering::Relaxed);
            self.open.store(1, Ordering::Relaxed);
            self.ground.sheaves.look(self.platform());
        }
        if !makes {
            return true;
        }
        // A slow program makes few steps: what holds slabs goes home first, and then both
        // the slabs and what is owed go back.
        if !(slow && round.brings_home()) && self.pays() {
            round.paid();
            return true;
        }
        // The quick look may have been too early: another thread ended the round.
        if !round.is_open() {
            return true;
        }
        let ended = self.go_on(&mut round);
        #[cfg(any(test, feature = "machine"))]
        let ended = ended.or_else(|| self.go_on_as_planted(&mut round));
        if let Some(went) = ended {
            self.open.store(0, Ordering::Relaxed);
            self.end_round(went);
        }
        true
    }

    /// True while a step waits to be made, as of a moment ago.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.open.load(Ordering::Relaxed) != 0 || self.owed.load(Ordering::Relaxed) != 0
    }

    /// Gives a part of the pages back that are owed. False if there is nothing to do.
    fn pays(&self) -> bool {
        let owed = self.owed.load(Ordering::Relaxed);
        let went = if owed > 0 { self.ground.purge_part(0) } else { None };
        if owed > 0 {
            // An allocation that raised it meanwhile says so again with the next.
            self.owed.store(owed.saturating_sub(went.unwrap_or(owed)), Ordering::Relaxed);
        }
        went.is_some()
    }

    /// Weighs what waits against what is live: what is too much is owed. Not where large
    /// blocks come and go: who asks for one makes room.
    fn weigh(&self, beat: u32) {
        let dirty = self.ground.buddy.waiting_hint();
        if dirty > MUCH && !self.is_large_warm() {
            let live = self.live_granules(self.ground.free_count().free);
            let surplus = dirty.saturating_sub(MUCH + live / WARM_PART);
            self.owed.fetch_max(surplus, Ordering::Relaxed);
            if surplus > 0 && beat > OWING_STEP {
                self.change_step(beat, OWING_STEP);
            }
        }
    }

    /// Granules that are not free, of which there are so many, and those of mappings.
    pub(super) fn live_granules(&self, free: usize) -> usize {
        let ground = &self.ground;
        ground.region.top() - free + ground.mappings.live().1 / GRANULE
    }

    /// True if slow paths come rarely, as far as is known: the pace is measured during the
    /// heartbeat alone.
    pub(super) fn is_slow(&self) -> bool {
        self.beats() && self.pace.is_slow()
    }

    /// Looks at the clock; true for one caller when a tick is due.
    fn is_due(&self, steps: bool) -> bool {
        let now = self.platform().now_ms();
        let beat = self.beat.load(Ordering::Relaxed);
        if beat != 0 {
            if steps {
                self.keep_pace(now, beat);
            }
            self.weigh(beat);
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

    /// Plants a bug: slow paths make whole rounds.
    #[cfg(any(test, feature = "machine"))]
    pub fn plant_whole_rounds(&self) {
        self.whole_rounds.store(1, Ordering::Relaxed);
    }

    #[cfg(any(test, feature = "machine"))]
    fn go_on_as_planted(&self, round: &mut super::round::Round) -> Option<bool> {
        let whole = self.whole_rounds.load(Ordering::Relaxed) != 0;
        whole.then(|| std::iter::repeat_with(|| self.go_on(round)).flatten().next())?
    }

    fn end_round(&self, went: bool) {
        let quiet = !went && !self.is_pending();
        let rounds = if quiet { self.quiet_rounds.load(Ordering::Relaxed) + 1 } else { 0 };
        self.quiet_rounds.store(rounds, Ordering::Relaxed);
        if rounds >= QUIET_ROUNDS {
            self.set_beat(0);
        }
    }

    /// The next free of each cache on each row takes the slow path: none is left to the row,
    /// and its stacks are asked. Either alone may get lost, the one by the owner's count,
    /// the other by a slow path that puts another stack there.
    ///
    /// A slow path that is under way may have read what there was before, and grant its row
    /// frees without end. So it asks again as it ends ([`super::visit`]).
    pub(super) fn ask_all(&self) {
        // SeqCst: either we come after what a slow path stored, or that slow path, which
        // leaves the gate between its stores and its look, sees this. On x86-64 each of the
        // two exchanges is a fence.
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.ask_rows();
    }

    /// How often all rows were asked so far.
    pub(super) fn asks(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    /// As [`Yard::ask_all`], for a slow path that was under way then.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_rows(&self) {
        let p = self.platform();
        for row in (0..p.rows().len()).filter(|row| p.row_used(*row)) {
            p.rows().frees_left(row).store(0, Ordering::Relaxed);
            for class in 0..classes::CLASSES {
                let entry = p.rows().entry(row, classes::slot_of(class));
                if !entry.is_none() {
                    entry.ask();
                }
            }
        }
    }
}
