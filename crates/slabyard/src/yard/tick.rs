//! Bringing home what is parked and not used, without a helper thread: slow
//! paths look at the clock.
//!
//! A tick (an eighth of the decay time) drains stacks whose counts did not move
//! for two ticks, sheaves that lay unwanted in barns, empty slabs of idle
//! caches, and gives old free pages back.
//!
//! A program may go on without a slow path: one allocation and one free in a
//! loop. So while pages wait to go back there is a heartbeat: allocations pop
//! from the spare sheaf, frees push to the main one, and the two are exchanged
//! in slow paths. When visits come rarely, they are made to come after 16 frees.

use super::Yard;
use crate::cache::classes;
use crate::page::percpu;
use crate::platform::stack::SLOTS;
use crate::platform::{Entry, Platform, Slot, Stack};
use crate::sync::Ordering;

/// Dirty free granules from which on the heartbeat goes: 256 KiB.
const PENDING: usize = 64;
/// Steps of the heartbeat: in a busy program, and in a slow one.
const BUSY_STEP: u32 = 64;
const SLOW_STEP: u32 = 16;
/// Milliseconds between visits that make a program slow. A coarse clock's step is
/// 4 ms at worst: 16 frees in a thousand a second are seen as slow every time.
const SLOW_MS: u64 = 4;
/// Ticks at which nothing went home before the heartbeat ends: what is parked
/// needs two or three to be seen as unused.
const QUIET_TICKS: u32 = 4;
/// In a slow program every so many ticks gather.
const GATHER: u32 = 4;
/// Stacks stopped at once: one fence for all.
const BATCH: usize = 64;
/// Granules given back in one tick: 64 MiB, or half of what waits.
const MOST: usize = 16 << 10;

type Stops = [(usize, Slot, u32); BATCH];

impl<P: Platform> Yard<P> {
    fn period_ms(&self) -> u64 {
        u64::from(self.decay_ms() / 8).max(1)
    }

    /// Begins the heartbeat if pages wait to go back.
    pub(super) fn begin_beat_if_due(&self) {
        if self.ground.buddy.dirty_hint() >= PENDING && self.beat.load(Ordering::Relaxed) == 0 {
            self.quiet_ticks.store(0, Ordering::Relaxed);
            self.set_beat(BUSY_STEP);
            // A main sheaf may have room for a second of a slow program's frees: the
            // first of them is to come by, and to take its share of the step.
            self.ask_all();
        }
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
    }

    /// Called at each slow path.
    pub(super) fn tick_if_due(&self) {
        let now = self.platform().now_ms();
        let beat = self.beat.load(Ordering::Relaxed);
        if beat != 0 {
            let gap = now.saturating_sub(self.last_visit.swap(now, Ordering::Relaxed));
            let step = if gap >= SLOW_MS { SLOW_STEP } else { BUSY_STEP };
            // Only the step changes: one that ended meanwhile stays ended.
            let _ = self.beat.compare_exchange(beat, step, Ordering::Relaxed, Ordering::Relaxed);
            if step == BUSY_STEP {
                self.slow_ticks.store(0, Ordering::Relaxed);
            }
        }
        let last = self.last_tick.load(Ordering::Relaxed);
        if now < last + self.period_ms()
            || self
                .last_tick
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        if let Some(_guard) = self.drain.try_lock(self.platform()) {
            self.tick();
        }
    }

    fn tick(&self) {
        // In a slow program, now and then, stacks in use go home too. Their
        // objects lie where a burst left them, each may hold a slab, and what is
        // taken next comes from few.
        let slow = self.beat.load(Ordering::Relaxed) == SLOW_STEP;
        let gather = slow && self.slow_ticks.fetch_add(1, Ordering::Relaxed) % GATHER == 1;
        let mut went = !gather && self.drain_idle(2);
        if gather {
            self.drain_idle(0);
        }
        for cache in &self.caches {
            went |= cache.tick(&self.ground);
        }
        if gather {
            // Ended slabs went to this CPU's lists of runs.
            self.drain_idle(0);
        }
        let decay = self.decay_ms();
        let most = MOST.max(self.ground.buddy.dirty_hint() / 2);
        went |= self.ground.purge(decay, most) > 0;
        went |= self.ground.strip();
        went |= self.ground.sheaves.rest(self.platform()) > 0;
        let quiet = !went && self.ground.buddy.dirty_hint() < PENDING;
        let ticks = if quiet { self.quiet_ticks.load(Ordering::Relaxed) + 1 } else { 0 };
        self.quiet_ticks.store(ticks, Ordering::Relaxed);
        if ticks >= QUIET_TICKS {
            self.set_beat(0);
        }
    }

    /// Drains stacks whose tops are where they were at the last `ticks` ticks.
    /// Drain lock held. Returns true if one was drained.
    pub(super) fn drain_idle(&self, ticks: u32) -> bool {
        self.drain_where(ticks, |_| true)
    }

    /// As [`Yard::drain_idle`], of the slots that `wanted` says yes to.
    pub(super) fn drain_where(&self, ticks: u32, wanted: impl Fn(Slot) -> bool) -> bool {
        let p = self.platform();
        let mine = p.row_hint();
        let can_stop = p.can_stop();
        let mut stops: Stops = [(0, Slot(0), 0); BATCH];
        let (mut n, mut went) = (0, false);
        for row in 0..p.rows().len() {
            if !p.row_used(row) || !can_stop && Some(row) != mine {
                continue;
            }
            for slot in (1..SLOTS as u16).map(Slot).filter(|slot| wanted(*slot)) {
                let entry = p.rows().entry(row, slot);
                if !self.is_idle(row, slot, entry, ticks) {
                    continue;
                }
                went = true;
                if !can_stop {
                    self.drain_own(slot);
                    continue;
                }
                stops[n] = (row, slot, 0);
                n += 1;
                if n == BATCH {
                    self.drain_stops(&mut stops);
                    n = 0;
                }
            }
        }
        self.drain_stops(&mut stops[..n]);
        went
    }

    /// True if there is a stack and its top is where it was `ticks` ticks ago.
    fn is_idle(&self, row: usize, slot: Slot, entry: &Entry, ticks: u32) -> bool {
        let top = entry.top();
        if self.ground.sheaves.count_of(top).is_none() {
            return false;
        }
        if ticks == 0 {
            return true;
        }
        let seen = self.seen.get(row * SLOTS + slot.0 as usize);
        let old = seen.load(Ordering::Relaxed);
        let age = if old as u32 == top { (old >> 32) as u32 + 1 } else { 0 };
        seen.store(u64::from(age) << 32 | u64::from(top), Ordering::Relaxed);
        age >= ticks
    }

    /// Stops these stacks, brings their objects home, and takes them away.
    fn drain_stops(&self, stops: &mut [(usize, Slot, u32)]) {
        if stops.is_empty() {
            return;
        }
        let p = self.platform();
        p.stop(stops);
        let sheaves = &self.ground.sheaves;
        for &(row, slot, top) in &*stops {
            if let Some(class) = classes::class_of(slot) {
                self.caches[class].drain_stopped(&self.ground, top);
            } else if percpu::order_of(slot).is_some() {
                for address in sheaves.objects_of(top) {
                    self.ground.free_parked_run(address);
                }
            }
            p.rows().entry(row, slot).start_without();
            sheaves.give_stopped(p, top);
        }
    }

    /// Drains a stack of the calling thread's own row.
    fn drain_own(&self, slot: Slot) {
        if let Some(class) = classes::class_of(slot) {
            self.caches[class].drain_own(&self.ground);
        } else if percpu::order_of(slot).is_some() {
            while let Some(address) = self.platform().pop(slot) {
                self.ground.free_parked_run(address);
            }
        }
    }

    /// Everything parked goes home and all free pages go back: for a refused
    /// page. Returns the granules given back. The caller is inside a slow path.
    pub(super) fn drain_all(&self) -> usize {
        let _guard = self.drain.lock(self.platform());
        self.drain_idle(0);
        for cache in &self.caches {
            cache.shrink_node(&self.ground);
        }
        // Ended slabs went to this CPU's lists of runs.
        self.drain_idle(0);
        let went = self.ground.purge(0, usize::MAX);
        self.ground.strip();
        self.ground.sheaves.rest(self.platform());
        went
    }

    /// Everything parked goes home, empty slabs end, free pages go back. Returns
    /// true if memory went back to the system.
    pub fn trim(&self) -> bool {
        let Some(_visit) = self.visit() else {
            return false;
        };
        let went = self.drain_all() > 0;
        if !self.platform().can_stop() {
            self.ask_others();
        }
        went
    }

    /// Where nobody can be stopped: the next free of each thread takes the slow
    /// path, and sees that a drain is wanted.
    pub(super) fn ask_others(&self) {
        self.wanted_drains.fetch_add(1, Ordering::Relaxed);
        self.ask_all();
    }

    /// The next free of each cache on each row takes the slow path.
    fn ask_all(&self) {
        let p = self.platform();
        for row in (0..p.rows().len()).filter(|row| p.row_used(*row)) {
            for class in 0..classes::CLASSES {
                let entry = p.rows().entry(row, classes::slot_of(class));
                if !entry.is_none() {
                    entry.ask();
                }
            }
        }
    }

    /// In a visit, where nobody can be stopped: does the drain that was asked for.
    pub(super) fn answer_drain(&self) {
        let wanted = u64::from(self.wanted_drains.load(Ordering::Relaxed));
        if wanted == 0 {
            return;
        }
        // The word of slot 0, which is nobody's, holds the last drain answered.
        let Some(row) = self.platform().row_hint() else {
            return;
        };
        if self.seen.get(row * SLOTS).swap(wanted, Ordering::Relaxed) != wanted {
            self.drain_row();
        }
    }

    fn drain_row(&self) {
        for class in 0..classes::CLASSES {
            self.caches[class].drain_own(&self.ground);
        }
        for order in 0..percpu::LISTED_ORDERS {
            self.drain_own(Slot(percpu::FIRST_SLOT + order as u16));
        }
    }

    /// Brings home what rows hold whose owners are gone: private slots of threads
    /// that a fork left behind.
    pub fn adopt_rows(&self, rows: impl Iterator<Item = usize>) {
        let Some(_visit) = self.visit() else { return };
        let p = self.platform();
        for row in rows {
            for slot in (1..SLOTS as u16).map(Slot) {
                let entry = p.rows().entry(row, slot);
                let Ok(stack) = entry.replace(Stack::NONE) else {
                    continue;
                };
                let Some(mut sheaf) = self.ground.sheaves.adopt(stack) else {
                    continue;
                };
                let class = classes::class_of(slot);
                let _moving = class.map(|class| self.caches[class].moving());
                while let Some(address) = self.ground.sheaves.pop(&mut sheaf) {
                    match class {
                        Some(class) => self.caches[class].free_direct(&self.ground, address),
                        None => self.ground.free_parked_run(address),
                    }
                }
                self.ground.sheaves.give(p, sheaf);
            }
        }
    }

    /// Drains the calling thread's own row: for a thread that ends with a
    /// private slot.
    pub fn drain_thread(&self) {
        let Some(_visit) = self.visit() else { return };
        self.drain_row();
    }
}
