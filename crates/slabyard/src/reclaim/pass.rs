//! A reclaim pass: it returns idle parked objects to their slabs and free pages to the kernel, in
//! small slices, one per slow path.
//!
//! A pass goes through the phases of [`Phase`]; the drain lock protects its position. A slow path
//! that finds a pass under way and gets the lock without waiting runs one slice, which
//!
//! * stops idle stacks by one fence and flushes them;
//! * or flushes part of an unused sheaf of a barn;
//! * or discards a few empty slabs of an idle cache;
//! * or purges one stretch of old free pages, of the metadata of free blocks, or of an unused
//!   sheaf's memory, by one system call for at most 512 KiB.
//!
//! Invariants: a slice stays within the bound ([`crate::bound`]), however much is left to do; it
//! leaves no stack stopped and no object in transit.
//!
//! Neighbours: [`super::ticker`] begins a pass; [`super::drain`] does all its work at once, on
//! request.

use super::drain::{BATCH, Stops};
use crate::engine::{Engine, Header, Shape};
use crate::pages::purge;
use crate::platform::stack::STOPPED;
use crate::platform::{Entry, Platform, Slot, stop_idle};
use crate::reclaim::clock::{has_clock, reap_in_pass};
use crate::reclaim::drain::{drain_own, flush_stopped};
use crate::reclaim::live::{is_large_warm, is_slow};
use crate::reclaim::surplus::purge_old;
use crate::reclaim::walk::{Stacks, next_stack};
use crate::sync::Ordering;
use crate::yard::Yard;
use crate::yard::pass::{Pass, Phase};

/// A stack is idle when this many passes in a row found its top unchanged.
const IDLE_PASSES: u32 = 2;
/// Objects that one slice flushes out of stacks, unless one stack alone has more.
const MOST_OBJECTS: u32 = Shape::STACK_OBJECTS;
/// Slab operations of one slice that flushes a barn's sheaf, in a slow program.
const SLOW_SLICE: u32 = MOST_OBJECTS;
/// Entries looked at in one slice: those of malloc's classes in the rows of some 15 CPUs.
const LOOKS: usize = 2048;
/// Caches looked at in one slice: all of malloc's classes.
const CACHE_LOOKS: usize = 64;

/// The outcome of one slice.
pub(crate) enum Slice {
    /// It flushed, ended or purged something.
    Reclaimed,
    /// It found nothing yet, and has searched as much as one call may.
    Searched,
    /// The phase has nothing more to do.
    PhaseDone,
}

/// Runs one slice of an open pass. If the pass ends with it, returns whether the pass
/// reclaimed anything.
pub(crate) fn run_slice<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    pass: &mut Pass,
) -> Option<bool> {
    loop {
        let g = &yard.heap;
        let slice = match pass.phase {
            Phase::Stacks if pass.compact => drain_idle(yard, pass, 0, Stacks::All),
            Phase::Stacks => drain_idle(yard, pass, IDLE_PASSES, Stacks::All),
            Phase::Caches if has_clock(yard) => reap_in_pass(yard, &mut pass.cache).into(),
            Phase::Caches => reclaim_cache(yard, pass),
            Phase::Runs => drain_idle(yard, pass, 0, Stacks::Runs),
            Phase::Pages => purge_old(yard, age_ms(yard)).into(),
            Phase::Metadata => purge::release_metadata_part(g).then_some(0).into(),
            Phase::Sheaves => g.sheaves.rest_one(&g.platform).into(),
            Phase::Ended => return Some(pass.reclaimed),
        };
        match slice {
            Slice::PhaseDone => {
                pass.next_phase();
                continue;
            }
            // Stacks do not count: a stack in use may have the same top at each pass.
            // Metadata and sheaves do not either: they only follow the other phases.
            Slice::Reclaimed => {
                pass.reclaimed |= matches!(pass.phase, Phase::Caches | Phase::Pages);
            }
            Slice::Searched => {}
        }
        pass.slices[usize::from(pass.phase >= Phase::Pages)] += 1;
        return None;
    }
}

/// Drains stacks whose tops did not change for this many passes: as many as have
/// [`MOST_OBJECTS`] objects together, or one.
pub(crate) fn drain_idle<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    pass: &mut Pass,
    passes: u32,
    stacks: Stacks,
) -> Slice {
    let p = yard.platform();
    if !p.can_stop() {
        return drain_idle_own(yard, pass, passes, stacks);
    }
    let mut stops: Stops = [(0, Slot(0), 0); BATCH];
    let (mut n, mut objects, mut looks) = (0, 0, 0);
    let row_at = |at: usize| p.rows().next_used(at);
    while let Some(row) = row_at(pass.at.0)
        && looks < LOOKS
        && n < BATCH
    {
        looks += 1;
        let slot = if row == pass.at.0 { pass.at.1 } else { 0 };
        let Some(slot) = next_stack(yard, stacks, slot) else {
            pass.at = (row + 1, 0);
            continue;
        };
        pass.look_for_banked(&yard.heap, slot, p.rows().entry(row, slot));
        if let Some(count) = idle(yard, row, slot, p.rows().entry(row, slot), passes) {
            if n > 0 && objects + count > MOST_OBJECTS {
                break;
            }
            objects += count;
            stops[n] = (row, slot, 0);
            n += 1;
        }
        pass.at = (row, slot.0 + 1);
    }
    if n == 0 {
        return row_at(pass.at.0).map_or(Slice::PhaseDone, |_| Slice::Searched);
    }
    stop_idle(p, &mut stops[..n], &|row, slot, top| yard.idle_stacks.keep_top(row, slot, top));
    let mut flushed = 0;
    for &(row, slot, top) in stops[..n].iter().filter(|(.., top)| *top != STOPPED) {
        // The stack may have grown since the search read its count.
        let count = yard.heap.sheaves.count_of(top).unwrap_or(0);
        if flushed == 0 || flushed + count <= MOST_OBJECTS {
            flush_stopped(yard, row, slot, top);
            flushed += count;
        } else {
            p.rows().entry(row, slot).start(top);
            yard.idle_stacks.forget_top(row, slot);
        }
    }
    Slice::Reclaimed
}

/// As [`drain_idle`], of the caller's own row: where the platform cannot stop other CPUs.
fn drain_idle_own<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    pass: &mut Pass,
    passes: u32,
    stacks: Stacks,
) -> Slice {
    let p = yard.platform();
    let Some(row) = p.row_hint() else {
        return Slice::PhaseDone;
    };
    let (mut flushed, mut reclaimed) = (0, false);
    while let Some(slot) = next_stack(yard, stacks, pass.at.1) {
        pass.look_for_banked(&yard.heap, slot, p.rows().entry(row, slot));
        if let Some(count) = idle(yard, row, slot, p.rows().entry(row, slot), passes) {
            if reclaimed && flushed + count > MOST_OBJECTS {
                return Slice::Reclaimed;
            }
            drain_own(yard, slot);
            flushed += count;
            reclaimed = true;
        }
        pass.at.1 = slot.0 + 1;
    }
    if reclaimed { Slice::Reclaimed } else { Slice::PhaseDone }
}

/// The number of objects in a stack, if its top did not change for this many passes.
fn idle<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    row: usize,
    slot: Slot,
    entry: &Entry,
    passes: u32,
) -> Option<u32> {
    let top = entry.top();
    let count = yard.heap.sheaves.count_of(top)?;
    if passes == 0 {
        return Some(count);
    }
    let seen = yard.idle_stacks.get(row, slot);
    let old = seen.load(Ordering::Relaxed);
    let age = if old as u32 == top { (old >> 32) as u32 + 1 } else { 0 };
    seen.store(u64::from(age) << 32 | u64::from(top), Ordering::Relaxed);
    (age >= passes).then_some(count)
}

/// Reclaims a piece of what a cache has parked or kept and does not use.
fn reclaim_cache<P: Platform, E: Engine>(yard: &Yard<P, E>, pass: &mut Pass) -> Slice {
    for _ in 0..CACHE_LOOKS {
        let Some(number) = yard.caches.used.next_cache(pass.cache) else {
            return Slice::PhaseDone;
        };
        if number != pass.cache {
            // What was found was of a cache that is no more.
            (pass.cache, pass.found) = (number, None);
        }
        let cache = yard.caches.get(number);
        let (on, most) = (cache.on(&yard.heap), flush_slice(yard, cache));
        let reclaimed = cache.engine.reclaim(on, &mut pass.found, most);
        if pass.found.is_none() {
            pass.cache += 1;
        }
        if reclaimed {
            return Slice::Reclaimed;
        }
    }
    Slice::Searched
}

/// Slab operations of a slice: few in a fast program, whose calls must stay short; more in
/// a slow one, whose rarer slow paths leave fewer slices for the same work.
fn flush_slice<P: Platform, E: Engine>(yard: &Yard<P, E>, cache: &Header) -> u32 {
    if is_slow(yard) { SLOW_SLICE } else { cache.shape().slice }
}

/// The age at which a pass purges free pages: the decay time, and less in a slow program,
/// which has fewer slices for the same work, and to which page faults cost less. Not where
/// large blocks come and go: few calls touch many pages there.
fn age_ms<P: Platform, E: Engine>(yard: &Yard<P, E>) -> u32 {
    let soon = is_slow(yard) && !is_large_warm(yard);
    if soon { yard.period_ms() as u32 } else { yard.decay_ms() }
}

impl From<Option<usize>> for Slice {
    fn from(reclaimed: Option<usize>) -> Self {
        reclaimed.map_or(Slice::PhaseDone, |_| Slice::Reclaimed)
    }
}
