//! Bulk calls: many objects by few restartable sequences.
//!
//! A bulk call of at most 64 objects first tries one sequence for all of them, with the words that
//! [`crate::entry`] reads; it checks of each freed object what `slabyard_cache_free` checks. What
//! the sequence leaves, and longer calls, go to the yard's own bulk calls, which also find an
//! address inside of an object at once.
//!
//! Neighbours: [`crate::handles`] has the slots; `slabyard::platform::rseq` has the sequences.

use crate::caches::checked;
use crate::handles::{self, Handle};
use crate::slow::{ENOMEM, free_any, free_one, refused};
use crate::state::YARD;
use crate::tools;
use core::ffi::c_void;
use slabyard::calls::bulk::PIECE;
use slabyard::platform::{GRANULE, Slot, count_down, rseq};
use slabyard::sync::{AtomicU16, Ordering};
use slabyard_process::errno::set_errno;
use slabyard_process::state::FAST;

/// The slot of a cache whose calls may take the fast path now.
#[inline(always)]
fn open_slot(cache: *const Handle) -> Option<Slot> {
    handles::at(cache as usize).and_then(Handle::open_slot)
}

/// Pops objects from this CPU's stack; returns how many.
#[inline(always)]
fn pop_many(slot: Slot, out: &mut [usize]) -> usize {
    let (rows, cs_offset) =
        (FAST.rows.load(Ordering::Relaxed), FAST.cs_offset.load(Ordering::Relaxed));
    // SAFETY: a slot that is open says that the yard has begun, and these words are of its rows.
    unsafe { rseq::pop_many(rows, slot.offset(), cs_offset, out) }
}

/// As [`pop_many`], for pushes.
#[inline(always)]
fn push_many(slot: Slot, objects: &[usize]) -> usize {
    let (rows, cs_offset) =
        (FAST.rows.load(Ordering::Relaxed), FAST.cs_offset.load(Ordering::Relaxed));
    // SAFETY: as above.
    unsafe { rseq::push_many(rows, slot.offset(), cs_offset, objects) }
}

/// True if all are addresses in slabs of the cache with a slot, and none is that of the one before.
#[inline(always)]
fn are_of(slot: Slot, objects: &[usize]) -> bool {
    let base = FAST.base.load(Ordering::Relaxed);
    let mask = FAST.mask.load(Ordering::Relaxed);
    let map = core::ptr::with_exposed_provenance::<AtomicU16>(FAST.map.load(Ordering::Relaxed));
    let mut last = 0;
    objects.iter().all(|&object| {
        let distance = object.wrapping_sub(base);
        let is_new = object != last;
        last = object;
        is_new && distance & mask == 0 && {
            // SAFETY: the mask leaves distances that the page map reaches.
            let entry = unsafe { &*map.add(distance / GRANULE) };
            entry.load(Ordering::Relaxed) == slot.offset() as u16
        }
    })
}

/// Allocates many objects, or none.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_cache_alloc_bulk(
    cache: *const Handle,
    nr: usize,
    objects: *mut *mut c_void,
) -> usize {
    let mut popped = 0;
    if (1..=PIECE).contains(&nr)
        && let Some(slot) = open_slot(cache)
    {
        // SAFETY: the caller's promise; a pointer and a number are alike.
        popped = pop_many(slot, unsafe { core::slice::from_raw_parts_mut(objects.cast(), nr) });
        if popped == nr {
            return nr;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { alloc_rest(cache, nr, objects, popped) }
}

/// Allocates those behind the first `done`.
#[cold]
#[inline(never)]
unsafe fn alloc_rest(
    cache: *const Handle,
    nr: usize,
    objects: *mut *mut c_void,
    done: usize,
) -> usize {
    let handle = checked("slabyard_cache_alloc_bulk", cache);
    let Some(id) = handle.and_then(Handle::id) else { return 0 };
    if nr == 0 {
        return 0;
    }
    // SAFETY: the promise of the caller of `slabyard_cache_alloc_bulk`.
    let out = unsafe { core::slice::from_raw_parts_mut(objects.cast::<usize>(), nr) };
    let (made, wanted) = out.split_at_mut(done);
    if YARD.alloc_bulk_from(id, wanted) {
        if tools::is_on() {
            wanted.iter().for_each(|object| tools::allocated(id, *object));
        }
        return nr;
    }
    let freed = YARD.free_bulk_to(id, made);
    debug_assert!(freed.is_ok(), "they were allocated here");
    out.fill(0);
    set_errno(ENOMEM);
    0
}

/// Frees many objects.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_cache_free_bulk(
    cache: *const Handle,
    nr: usize,
    objects: *const *mut c_void,
) {
    let mut pushed = 0;
    if (1..=PIECE).contains(&nr)
        && let Some(slot) = open_slot(cache)
    {
        // SAFETY: the caller's promise; a pointer and a number are alike.
        let objects = unsafe { core::slice::from_raw_parts(objects.cast::<usize>(), nr) };
        if are_of(slot, objects) && count_down(YARD.platform(), nr as u32) {
            pushed = push_many(slot, objects);
            if pushed == nr {
                return;
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { free_rest(cache, nr - pushed, objects.wrapping_add(pushed)) };
}

/// Frees objects by the yard's calls.
#[cold]
#[inline(never)]
unsafe fn free_rest(cache: *const Handle, nr: usize, objects: *const *mut c_void) {
    const NAME: &str = "slabyard_cache_free_bulk";
    if nr == 0 {
        return;
    }
    // SAFETY: the promise of the caller of `slabyard_cache_free_bulk`.
    let objects = unsafe { core::slice::from_raw_parts(objects.cast::<usize>(), nr) };
    if cache.is_null() {
        return objects.iter().for_each(|object| free_any(NAME, *object));
    }
    let Some(id) = checked(NAME, cache).and_then(Handle::id) else { return };
    if tools::is_on() {
        return objects.iter().for_each(|object| free_one(NAME, id, *object));
    }
    let mut left = objects;
    while let Err((nth, place)) = YARD.free_bulk_to(id, left) {
        // A hole is free already.
        if left[nth] != 0 {
            refused(NAME, id, left[nth], place);
        }
        left = &left[nth + 1..];
    }
}
