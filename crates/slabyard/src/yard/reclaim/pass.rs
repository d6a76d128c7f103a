//! A pass: what is parked and not used goes home, and what is free goes back to the
//! system, one small slice at a slow path.
//!
//! A pass goes from phase to phase ([`Phase`]); where it is stays with the drain lock.
//! Each slow path that finds one open makes one slice of it, if nobody else does:
//!
//! * stops idle stacks by one fence, and brings what they hold home;
//! * or brings a piece of an unused sheaf of a barn home;
//! * or ends a few empty slabs of an idle cache;
//! * or gives back one stretch of old free pages, of what describes free blocks, or of
//!   a sheaf that nobody uses: by one system call of at most 512 KiB.
//!
//! Invariants: a slice stays within the bound ([`crate::yard::bound`]), whatever there is to
//! do; it leaves no stack stopped and nothing in transit.
//!
//! Neighbours: [`super::ticker`] says when a pass begins; [`super::drain`] does all at
//! once, for who asked.

use super::drain::{BATCH, Stops};
use crate::engine::slub::age::Found;
use crate::engine::slub::{Cache, Shape};
use crate::pages::percpu;
use crate::platform::stack::{SLOTS, STOPPED};
use crate::platform::{Entry, Platform, Slot};
use crate::sync::Ordering;
use crate::yard::Yard;

/// Rounds at which a stack has to be as it was before it is idle.
const IDLE_PASSES: u32 = 2;
/// Objects of stacks that go home in one slice, or one stack.
const MOST_OBJECTS: u32 = Shape::SHEAF_OBJECTS;
/// Slab operations of one slice that brings a sheaf home, in a slow program.
const SLOW_SLICE: u32 = MOST_OBJECTS;
/// Entries looked at in one slice: the rows of eight CPUs.
const LOOKS: usize = 8 * SLOTS;

/// What a pass is about; in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Idle stacks; those in use too, in a pass that compacts.
    Stacks,
    /// Unwanted sheaves of barns, empty slabs of idle caches.
    Caches,
    /// In a pass that compacts: runs of ended slabs in CPUs' lists.
    Runs,
    /// Free pages.
    Pages,
    /// What describes free pages.
    Tables,
    /// Sheaves that nobody uses.
    Sheaves,
    /// No pass is open.
    Ended,
}

/// What one look for work came to.
enum Slice {
    /// Something went home, or back.
    Went,
    /// Nothing yet, but this was enough for one call.
    Looked,
    /// The phase has nothing more to do.
    Nothing,
}

/// Where a pass is.
pub(in crate::yard) struct Pass {
    phase: Phase,
    compact: bool,
    /// Something that nobody used went home or back in it.
    went: bool,
    /// The entry that is next: row and slot as one number.
    at: usize,
    /// The cache that is next, and what was found of it.
    class: usize,
    found: Option<Found>,
    /// Steps before the pages' phase, and from there on.
    slices: [u32; 2],
}

impl Pass {
    pub(in crate::yard) const fn new() -> Self {
        Pass {
            phase: Phase::Ended,
            compact: false,
            went: false,
            at: 0,
            class: 0,
            found: None,
            slices: [0; 2],
        }
    }

    /// Begins a pass, in place of one that gives pages back since as many slices as
    /// others were made: what became idle meanwhile is not to wait for large memory.
    /// False if the open one goes on.
    pub(in crate::yard) fn begin(&mut self, compact: bool) -> bool {
        let open = self.is_open();
        if open && (self.phase < Phase::Pages || self.slices[1] < self.slices[0]) {
            return false;
        }
        *self = Pass { phase: Phase::Stacks, compact, went: open, ..Pass::new() };
        true
    }

    /// True while it brings home what is parked.
    pub(in crate::yard) fn is_flushing(&self) -> bool {
        self.phase < Phase::Pages
    }

    /// A slice gave pages back in its place.
    pub(in crate::yard) fn count_purge(&mut self) {
        self.slices[1] += 1;
    }

    /// True while there may be something to do.
    pub(in crate::yard) fn is_open(&self) -> bool {
        self.phase != Phase::Ended
    }

    fn next_phase(&mut self) {
        self.at = 0;
        self.phase = match self.phase {
            Phase::Stacks => Phase::Caches,
            Phase::Caches if self.compact => Phase::Runs,
            Phase::Caches | Phase::Runs => Phase::Pages,
            Phase::Pages => Phase::Tables,
            Phase::Tables => Phase::Sheaves,
            Phase::Sheaves | Phase::Ended => Phase::Ended,
        };
    }
}

impl<P: Platform> Yard<P> {
    /// Makes one slice of an open pass. When it ends with it, says whether anything
    /// went home in it.
    pub(in crate::yard) fn go_on(&self, pass: &mut Pass) -> Option<bool> {
        loop {
            let g = &self.heap;
            let slice = match pass.phase {
                Phase::Stacks if pass.compact => self.drain_some(pass, 0, 1),
                Phase::Stacks => self.drain_some(pass, IDLE_PASSES, 1),
                Phase::Caches => self.trim_cache(pass),
                Phase::Runs => self.drain_some(pass, 0, percpu::FIRST_SLOT),
                Phase::Pages => g.purge_part(self.age_ms()).into(),
                Phase::Tables => g.release_metadata_part().then_some(0).into(),
                Phase::Sheaves => g.sheaves.rest_one(&g.platform).into(),
                Phase::Ended => return Some(pass.went),
            };
            match slice {
                Slice::Nothing => {
                    pass.next_phase();
                    continue;
                }
                // Not what stacks held: one in use may look the same at each pass.
                // Tables and sheaves follow what went.
                Slice::Went => {
                    pass.went |= matches!(pass.phase, Phase::Caches | Phase::Pages);
                }
                Slice::Looked => {}
            }
            pass.slices[usize::from(pass.phase >= Phase::Pages)] += 1;
            return None;
        }
    }

    /// Drains stacks that were as they are for so many passes, in slots from `first` on:
    /// with [`MOST_OBJECTS`] objects together, or one.
    fn drain_some(&self, pass: &mut Pass, passes: u32, first: u16) -> Slice {
        let p = self.platform();
        if !p.can_stop() {
            return self.drain_some_own(pass, passes, first);
        }
        let mut stops: Stops = [(0, Slot(0), 0); BATCH];
        let (mut n, mut objects, mut looks) = (0, 0, 0);
        let end = p.rows().len() * SLOTS;
        while pass.at < end && looks < LOOKS && n < BATCH {
            looks += 1;
            let (row, slot) = (pass.at / SLOTS, (pass.at % SLOTS) as u16);
            if !p.row_used(row) {
                pass.at = (row + 1) * SLOTS;
                continue;
            }
            if slot < first {
                pass.at += usize::from(first - slot);
                continue;
            }
            let slot = Slot(slot);
            if let Some(count) = self.idle(row, slot, p.rows().entry(row, slot), passes) {
                if n > 0 && objects + count > MOST_OBJECTS {
                    break;
                }
                objects += count;
                stops[n] = (row, slot, 0);
                n += 1;
            }
            pass.at += 1;
        }
        if n == 0 {
            return if pass.at < end { Slice::Looked } else { Slice::Nothing };
        }
        p.stop_idle(&mut stops[..n]);
        let mut home = 0;
        for &(row, slot, top) in stops[..n].iter().filter(|(.., top)| *top != STOPPED) {
            // It may have grown since it was looked at.
            let count = self.heap.sheaves.count_of(top).unwrap_or(0);
            if home == 0 || home + count <= MOST_OBJECTS {
                self.flush_stopped(row, slot, top);
                home += count;
            } else {
                p.rows().entry(row, slot).start(top);
            }
        }
        Slice::Went
    }

    /// As [`Yard::drain_some`], where nobody can be stopped: of the caller's own row.
    fn drain_some_own(&self, pass: &mut Pass, passes: u32, first: u16) -> Slice {
        let p = self.platform();
        let Some(row) = p.row_hint() else {
            return Slice::Nothing;
        };
        let (mut home, mut went) = (0, false);
        pass.at = pass.at.max(first.into());
        while pass.at < SLOTS {
            let slot = Slot(pass.at as u16);
            if let Some(count) = self.idle(row, slot, p.rows().entry(row, slot), passes) {
                if went && home + count > MOST_OBJECTS {
                    return Slice::Went;
                }
                self.drain_own(slot);
                home += count;
                went = true;
            }
            pass.at += 1;
        }
        if went { Slice::Went } else { Slice::Nothing }
    }

    /// Objects of a stack whose top is where it was so many passes ago.
    fn idle(&self, row: usize, slot: Slot, entry: &Entry, passes: u32) -> Option<u32> {
        let top = entry.top();
        let count = self.heap.sheaves.count_of(top)?;
        if passes == 0 {
            return Some(count);
        }
        let seen = self.seen.get(row * SLOTS + slot.0 as usize);
        let old = seen.load(Ordering::Relaxed);
        let age = if old as u32 == top { (old >> 32) as u32 + 1 } else { 0 };
        seen.store(u64::from(age) << 32 | u64::from(top), Ordering::Relaxed);
        (age >= passes).then_some(count)
    }

    /// A piece of an unused sheaf of a barn goes home, or a few empty slabs of a cache end.
    fn trim_cache(&self, pass: &mut Pass) -> Slice {
        let g = &self.heap;
        while let Some(cache) = self.caches.get(pass.class) {
            let mut found = pass.found.take().unwrap_or_else(|| cache.found(g));
            if found.unused > 0 {
                let went = cache.flush_piece_aside(g, self.flush_slice(cache));
                found.unused = found.unused.saturating_sub(went);
                if went > 0 {
                    pass.found = Some(found);
                    return Slice::Went;
                }
            }
            pass.class += 1;
            if found.idle {
                cache.barn_forget_empty(g);
                if cache.nr_slabs() > 0 && cache.discard_some(g) > 0 {
                    return Slice::Went;
                }
            }
        }
        Slice::Nothing
    }

    /// Slab operations of a slice: few in a program that goes fast, whose calls are to
    /// be short; more in a slow one, which has fewer slices for what waits.
    fn flush_slice(&self, cache: &Cache) -> u32 {
        if self.is_slow() { SLOW_SLICE } else { cache.shape().slice }
    }

    /// Free pages go back after the decay time; sooner in a slow program, which has fewer
    /// slices for what waits, and to which new pages cost less.
    fn age_ms(&self) -> u32 {
        if self.is_slow() { self.period_ms() as u32 } else { self.decay_ms() }
    }
}

impl From<Option<usize>> for Slice {
    fn from(went: Option<usize>) -> Self {
        went.map_or(Slice::Nothing, |_| Slice::Went)
    }
}
