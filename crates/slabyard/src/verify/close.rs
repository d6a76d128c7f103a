//! Close checks for misuse, such as double frees. The fast path only compares a freed object with
//! the one on top of its stack; these checks search further, at these times:
//!
//! * The first frees of a process take the slow path ([`check_frees`]), which compares each freed
//!   object with its slab's bitmap and with all parked objects. Later slow paths do not: the check
//!   costs too many instructions. A pointer passed to `realloc` is compared with the last few
//!   objects freed on its CPU, throughout the life of the process ([`looks_freed`]).
//! * When the process exits, [`check_parked`] checks the objects of stacks once, up to
//!   [`LOOKS`] per stack.
//!
//! Rejected: a check of four stack objects in each slow path (loads of large objects took 5 to 15 %
//! more instructions). The check at exit takes 19,000 instructions in a process that prints a line.
//!
//! The checks write nothing and stop no stack. For an object that the caller owns the result is
//! exact: the caller owned it already when the check read the top of a stack, so no element below
//! that top held it then, and none can hold it before it is freed. (The read of the top pairs with
//! each commit of a top: an owner got its object after the pop.) For other objects, as at exit, a
//! check that runs while threads move them only guesses; [`crate::verify`] decides.
//!
//! Neighbour: [`crate::reclaim::countdown`] sends the frees to be checked to the slow path, and
//! marks the rows on which objects were freed.

use crate::cache::slots::slot_of;
use crate::engine::{Engine, Shape};
use crate::pages::Cause;
use crate::platform::{Platform, Slot};
use crate::slab;
use crate::slab::{Object, Word, freeset};
use crate::slow_path::enter_slow_path;
use crate::sync::{AtomicUsize, Ordering};
use crate::yard::checks::LookGuard;
use crate::yard::depth::RUN_CALLS;
use crate::yard::{AddressKind, Yard};

/// Objects of a stack that this check looks at, where neighbours count as one: a sheaf of the
/// smallest.
const LOOKS: usize = 1022;

/// Objects on top of a stack with which an address is compared that should be live.
const RECENT: usize = 8;

/// Makes this many further frees take the slow path and its close checks; `u32::MAX`: all.
pub fn check_frees<P: Platform, E: Engine>(yard: &Yard<P, E>, frees: u32) {
    yard.checks.left.store(frees, Ordering::Relaxed);
    yard.checks.began.store(u32::from(frees > 0), Ordering::Relaxed);
}

/// True if the object at an address was freed, which should be live: while frees are checked
/// closely wherever it is, and later if it is one of the last that were freed on this CPU.
#[inline]
pub fn looks_freed<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    if yard.checks.are_close() {
        return looks_freed_closely(yard, address);
    }
    yard.checks.began() && is_recent(yard, address)
}

/// Looks through the objects of stacks at the process's end. Reports the first that is parked
/// twice, or free in its slab and parked, or no object.
pub fn check_parked<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let Some(mut seen) = LookGuard::take(&yard.checks.table) else { return };
    // Other threads may move objects meanwhile: a real fault is found each time.
    let mut is_odd = |class| {
        let first = odd_of(yard, class, &mut seen);
        first.is_some() && (0..2).all(|_| odd_of(yard, class, &mut seen) == first)
    };
    let found = yard.caches.used.caches().any(&mut is_odd);
    drop(seen);
    if !found {
        return;
    }
    if let Some(Err(fault)) = yard.verify()
        && let Some(cause) = fault.misuse()
        && let Some(class) = yard.heap.class_at(fault.at)
    {
        let slot = slot_of(class).0;
        yard.heap.misuse(cause, fault.at, slot);
    }
}

/// Checks an object closely before its free, in a slow path. `Ok(false)`: it was free
/// already, which the check has reported.
///
/// # Errors
/// Where the address is, if it is not the start of an object.
#[cold]
pub(crate) fn check_free<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    class: usize,
    address: usize,
) -> Result<bool, AddressKind> {
    let shape = yard.caches.get(class).shape();
    if !slab::begins_object(&yard.heap.region, &shape.geometry, address) {
        return Err(yard.place_of(address));
    }
    yard.checks.take();
    let twice = is_free(yard, class, address);
    if twice {
        yard.heap.misuse(Cause::DoubleFree, address, shape.slot);
    }
    Ok(!twice)
}

/// True if an object is one of the last few that were freed on this CPU.
#[inline]
fn is_recent<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    let (p, region) = (yard.platform(), &yard.heap.region);
    let Some((granule, row)) = region.granule_of(address).zip(p.row_hint()) else {
        return false;
    };
    // Slot 0 has no stack.
    let entry = p.rows().entry(row, Slot::at(region.map_value(granule)));
    yard.heap.sheaves.is_near_top(entry, address, RECENT)
}

#[cold]
fn looks_freed_closely<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    // In a slow path: while the gate is closed, `verify` uses the slabs' bits as marks.
    yard.heap.class_at(address).is_some_and(|class| {
        enter_slow_path(yard, RUN_CALLS).is_some_and(|_slow_path| is_free(yard, class, address))
    })
}

/// True if an object is free in its slab, or parked anywhere.
#[cold]
fn is_free<P: Platform, E: Engine>(yard: &Yard<P, E>, class: usize, address: usize) -> bool {
    let (g, cache) = (&yard.heap, yard.caches.get(class));
    let shape = cache.shape();
    match slab::resolve(&g.region, &shape.geometry, shape.slot, address) {
        Err(_) => return false,
        Ok(Object { slab, index }) => {
            if freeset::is_free(g, slab, index) {
                return true;
            }
        }
    }
    if any_stack(yard, class, &mut |objects| holds(objects, address)) {
        return true;
    }
    let mut found = false;
    cache.engine.each_parked(cache.on(g), |parked| found |= parked == address);
    found
}

/// True if `f` is true of the objects in any of a cache's stacks, on rows on which
/// they may be parked.
#[inline(never)]
fn any_stack<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    class: usize,
    f: &mut dyn FnMut(&[AtomicUsize]) -> bool,
) -> bool {
    let p = yard.platform();
    let cache = yard.caches.get(class);
    let slots = [cache.shape().main(), cache.shape().spare()];
    let slots = if cache.engine.facts().has_objects_in_spare { &slots[..] } else { &slots[..1] };
    p.rows().used().any(|row| {
        slots.iter().any(|&slot| {
            let entry = p.rows().entry(row, slot);
            !entry.is_none() && f(yard.heap.sheaves.objects_of(entry.top()))
        })
    })
}

/// A class's first parked object that looks damaged.
fn odd_of<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    class: usize,
    seen: &mut LookGuard<'_>,
) -> Option<usize> {
    seen.begin_cache();
    let cache = yard.caches.get(class);
    let shape = cache.shape();
    let mut odd = None;
    any_stack(yard, class, &mut |objects| {
        odd = odd_in(yard, shape, seen, objects);
        odd.is_some()
    });
    if odd.is_none() && cache.engine.facts().parks_few_on_node {
        cache.engine.each_parked(cache.on(&yard.heap), |address| {
            odd = odd.or_else(|| odd_in(yard, shape, seen, &[AtomicUsize::new(address)]));
        });
    }
    odd
}

fn odd_in<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    shape: &Shape,
    seen: &mut LookGuard<'_>,
    objects: &[AtomicUsize],
) -> Option<usize> {
    let (g, geometry) = (&yard.heap, &shape.geometry);
    // From the top on: the last freed object first.
    let mut left = objects;
    for _ in 0..LOOKS {
        let Some((top, others)) = left.split_last() else { break };
        let address = top.load(Ordering::Relaxed);
        let Ok(Object { slab, index }) = slab::resolve(&g.region, geometry, shape.slot, address)
        else {
            return Some(address);
        };
        let (word, bit) = Word::of(index);
        let bits = seen.bits(slab, word, || freeset::free_bits(g, slab, word))?;
        let last = (geometry.objects - word.index_of(0)).min(Word::OBJECTS) - 1;
        let (run, more) =
            run_from(others, address, geometry.size as usize, bit.trailing_zeros(), last);
        let before = bits.load(Ordering::Relaxed);
        if before & (bit | more) != 0 {
            return Some(address);
        }
        bits.store(before | bit | more, Ordering::Relaxed);
        left = &others[..others.len() - run];
    }
    None
}

/// How many of the last objects are side by side, each next to the one before, up or down,
/// from the one at an address, whose bit is `nth` in a word whose last object is `last`; and
/// their bits. A program that frees a structure in the order in which it made it leaves such
/// runs.
#[inline]
fn run_from(
    objects: &[AtomicUsize],
    address: usize,
    size: usize,
    nth: u32,
    last: u32,
) -> (usize, u64) {
    let Some(next) = objects.last() else { return (0, 0) };
    let step = next.load(Ordering::Relaxed).wrapping_sub(address);
    let bits = |run: usize| (1u64 << run) - 1;
    if step == size.wrapping_neg() {
        let run = run_length(objects, address, step, nth as usize);
        (run, bits(run) << (nth - run as u32))
    } else if step == size {
        let run = run_length(objects, address, step, (last - nth) as usize);
        (run, bits(run) << nth << 1)
    } else {
        (0, 0)
    }
}

/// How many of the last objects, at most this many, lie `step` bytes from the one before each,
/// and the first of them from `address`.
#[inline]
fn run_length(objects: &[AtomicUsize], address: usize, step: usize, most: usize) -> usize {
    let objects = &objects[objects.len().saturating_sub(most)..];
    let (mut left, mut expected) = (objects, address.wrapping_add(step));
    while let Some((top, others)) = left.split_last()
        && top.load(Ordering::Relaxed) == expected
    {
        expected = expected.wrapping_add(step);
        left = others;
    }
    objects.len() - left.len()
}

fn holds(objects: &[AtomicUsize], address: usize) -> bool {
    objects.iter().any(|object| object.load(Ordering::Relaxed) == address)
}
