//! A round: what is parked and not used goes home, and what is free goes back to the
//! system, one small step at a slow path.
//!
//! A round goes from stage to stage ([`Stage`]); where it is stays with the drain lock.
//! Each slow path that finds one open makes one step of it, if nobody else does:
//!
//! * stops idle stacks by one fence, and brings what they hold home;
//! * or brings a piece of an unwanted sheaf of a barn home;
//! * or ends a few empty slabs of an idle cache;
//! * or gives back one stretch of old free pages, of what describes free blocks, or of
//!   a sheaf that nobody uses: by one system call of at most 512 KiB.
//!
//! Invariants: a step stays within the bound ([`super::bound`]), whatever there is to
//! do; it leaves no stack stopped and nothing in transit.
//!
//! Neighbours: [`super::tick`] says when a round begins; [`super::drain`] does all at
//! once, for who asked.

use super::Yard;
use super::drain::{BATCH, Stops};
use crate::engine::slub::age::Found;
use crate::engine::slub::{Cache, Shape};
use crate::page::percpu;
use crate::platform::stack::{SLOTS, STOPPED};
use crate::platform::{Entry, Platform, Slot};
use crate::sync::Ordering;

/// Rounds at which a stack has to be as it was before it is idle.
const IDLE_ROUNDS: u32 = 2;
/// Objects of stacks that go home in one step, or one stack.
const HOME: u32 = Shape::SHEAF_OBJECTS;
/// Slab operations of one step that brings a sheaf home, in a slow program.
const SLOW_STEP: u32 = HOME;
/// Entries looked at in one step: the rows of eight CPUs.
const LOOKS: usize = 8 * SLOTS;

/// What a round is about; in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Idle stacks; those in use too, in a round that gathers.
    Stacks,
    /// Unwanted sheaves of barns, empty slabs of idle caches.
    Caches,
    /// In a round that gathers: runs of ended slabs in CPUs' lists.
    Runs,
    /// Free pages.
    Pages,
    /// What describes free pages.
    Tables,
    /// Sheaves that nobody uses.
    Sheaves,
    /// No round is open.
    Ended,
}

/// What one look for work came to.
enum Step {
    /// Something went home, or back.
    Went,
    /// Nothing yet, but this was enough for one call.
    Looked,
    /// The stage has nothing more to do.
    Nothing,
}

/// Where a round is.
pub(super) struct Round {
    stage: Stage,
    gather: bool,
    /// Something that nobody used went home or back in it.
    went: bool,
    /// The entry that is next: row and slot as one number.
    at: usize,
    /// The cache that is next, and what was found of it.
    class: usize,
    found: Option<Found>,
    /// Steps before the pages' stage, and from there on.
    steps: [u32; 2],
}

impl Round {
    pub(super) const fn new() -> Self {
        Round {
            stage: Stage::Ended,
            gather: false,
            went: false,
            at: 0,
            class: 0,
            found: None,
            steps: [0; 2],
        }
    }

    /// Begins a round, in place of one that gives pages back since as many steps as
    /// others were made: what became idle meanwhile is not to wait for large memory.
    /// False if the open one goes on.
    pub(super) fn begin(&mut self, gather: bool) -> bool {
        let open = self.is_open();
        if open && (self.stage < Stage::Pages || self.steps[1] < self.steps[0]) {
            return false;
        }
        *self = Round { stage: Stage::Stacks, gather, went: open, ..Round::new() };
        true
    }

    /// True while it brings home what is parked.
    pub(super) fn brings_home(&self) -> bool {
        self.stage < Stage::Pages
    }

    /// A step gave pages back in its place.
    pub(super) fn paid(&mut self) {
        self.steps[1] += 1;
    }

    /// True while there may be something to do.
    pub(super) fn is_open(&self) -> bool {
        self.stage != Stage::Ended
    }

    fn next_stage(&mut self) {
        self.at = 0;
        self.stage = match self.stage {
            Stage::Stacks => Stage::Caches,
            Stage::Caches if self.gather => Stage::Runs,
            Stage::Caches | Stage::Runs => Stage::Pages,
            Stage::Pages => Stage::Tables,
            Stage::Tables => Stage::Sheaves,
            Stage::Sheaves | Stage::Ended => Stage::Ended,
        };
    }
}

impl<P: Platform> Yard<P> {
    /// Makes one step of an open round. When it ends with it, says whether anything
    /// went home in it.
    pub(super) fn go_on(&self, round: &mut Round) -> Option<bool> {
        loop {
            let g = &self.ground;
            let step = match round.stage {
                Stage::Stacks if round.gather => self.drain_some(round, 0, 1),
                Stage::Stacks => self.drain_some(round, IDLE_ROUNDS, 1),
                Stage::Caches => self.settle_some(round),
                Stage::Runs => self.drain_some(round, 0, percpu::FIRST_SLOT),
                Stage::Pages => g.purge_part(self.age_ms()).into(),
                Stage::Tables => g.strip_part().then_some(0).into(),
                Stage::Sheaves => g.sheaves.rest_one(&g.platform).into(),
                Stage::Ended => return Some(round.went),
            };
            match step {
                Step::Nothing => {
                    round.next_stage();
                    continue;
                }
                // Not what stacks held: one in use may look the same at each round.
                // Tables and sheaves follow what went.
                Step::Went => {
                    round.went |= matches!(round.stage, Stage::Caches | Stage::Pages);
                }
                Step::Looked => {}
            }
            round.steps[usize::from(round.stage >= Stage::Pages)] += 1;
            return None;
        }
    }

    /// Drains stacks that were as they are for so many rounds, in slots from `first` on:
    /// with [`HOME`] objects together, or one.
    fn drain_some(&self, round: &mut Round, rounds: u32, first: u16) -> Step {
        let p = self.platform();
        if !p.can_stop() {
            return self.drain_some_own(round, rounds, first);
        }
        let mut stops: Stops = [(0, Slot(0), 0); BATCH];
        let (mut n, mut objects, mut looks) = (0, 0, 0);
        let end = p.rows().len() * SLOTS;
        while round.at < end && looks < LOOKS && n < BATCH {
            looks += 1;
            let (row, slot) = (round.at / SLOTS, (round.at % SLOTS) as u16);
            if !p.row_used(row) {
                round.at = (row + 1) * SLOTS;
                continue;
            }
            if slot < first {
                round.at += usize::from(first - slot);
                continue;
            }
            let slot = Slot(slot);
            if let Some(count) = self.idle(row, slot, p.rows().entry(row, slot), rounds) {
                if n > 0 && objects + count > HOME {
                    break;
                }
                objects += count;
                stops[n] = (row, slot, 0);
                n += 1;
            }
            round.at += 1;
        }
        if n == 0 {
            return if round.at < end { Step::Looked } else { Step::Nothing };
        }
        p.stop_idle(&mut stops[..n]);
        let mut home = 0;
        for &(row, slot, top) in stops[..n].iter().filter(|(.., top)| *top != STOPPED) {
            // It may have grown since it was looked at.
            let count = self.ground.sheaves.count_of(top).unwrap_or(0);
            if home == 0 || home + count <= HOME {
                self.take_home(row, slot, top);
                home += count;
            } else {
                p.rows().entry(row, slot).start(top);
            }
        }
        Step::Went
    }

    /// As [`Yard::drain_some`], where nobody can be stopped: of the caller's own row.
    fn drain_some_own(&self, round: &mut Round, rounds: u32, first: u16) -> Step {
        let p = self.platform();
        let Some(row) = p.row_hint() else {
            return Step::Nothing;
        };
        let (mut home, mut went) = (0, false);
        round.at = round.at.max(first.into());
        while round.at < SLOTS {
            let slot = Slot(round.at as u16);
            if let Some(count) = self.idle(row, slot, p.rows().entry(row, slot), rounds) {
                if went && home + count > HOME {
                    return Step::Went;
                }
                self.drain_own(slot);
                home += count;
                went = true;
            }
            round.at += 1;
        }
        if went { Step::Went } else { Step::Nothing }
    }

    /// Objects of a stack whose top is where it was so many rounds ago.
    fn idle(&self, row: usize, slot: Slot, entry: &Entry, rounds: u32) -> Option<u32> {
        let top = entry.top();
        let count = self.ground.sheaves.count_of(top)?;
        if rounds == 0 {
            return Some(count);
        }
        let seen = self.seen.get(row * SLOTS + slot.0 as usize);
        let old = seen.load(Ordering::Relaxed);
        let age = if old as u32 == top { (old >> 32) as u32 + 1 } else { 0 };
        seen.store(u64::from(age) << 32 | u64::from(top), Ordering::Relaxed);
        (age >= rounds).then_some(count)
    }

    /// A piece of an unwanted sheaf of a barn goes home, or a few empty slabs of a cache end.
    fn settle_some(&self, round: &mut Round) -> Step {
        let g = &self.ground;
        while let Some(cache) = self.caches.get(round.class) {
            let mut found = round.found.take().unwrap_or_else(|| cache.found(g));
            if found.unwanted > 0 {
                let went = cache.flush_piece_aside(g, self.home_step(cache));
                found.unwanted = found.unwanted.saturating_sub(went);
                if went > 0 {
                    round.found = Some(found);
                    return Step::Went;
                }
            }
            round.class += 1;
            if found.idle {
                cache.barn_forget_empty(g);
                if cache.nr_slabs() > 0 && cache.discard_some(g) > 0 {
                    return Step::Went;
                }
            }
        }
        Step::Nothing
    }

    /// Slab operations of a step: few in a program that goes fast, whose calls are to
    /// be short; more in a slow one, which has fewer steps for what waits.
    fn home_step(&self, cache: &Cache) -> u32 {
        if self.is_slow() { SLOW_STEP } else { cache.shape().step }
    }

    /// Free pages go back after the decay time; sooner in a slow program, which has fewer
    /// steps for what waits, and to which new pages cost less.
    fn age_ms(&self) -> u32 {
        if self.is_slow() { self.period_ms() as u32 } else { self.decay_ms() }
    }
}

impl From<Option<usize>> for Step {
    fn from(went: Option<usize>) -> Self {
        went.map_or(Step::Nothing, |_| Step::Went)
    }
}
