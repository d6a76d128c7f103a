//! The C functions other than `malloc` and `free`, which are in [`super::entry`].
//!
//! Behaviour follows C23, POSIX and glibc's manual: zero sizes give unique pointers, `realloc(p,
//! 0)` frees, failures set `errno` to ENOMEM, `free` preserves `errno`. The undocumented names that
//! glibc also exports are in [`super::exports`].

use super::entry::own_malloc;
use super::slow::{ALIGN, ENOMEM, allocate_slow, free_slow, given, release_sized};
use super::{Malloc, pressure};
use crate::control::is_wanted;
use crate::debug::makers::compare;
use crate::errno::set_errno;
use crate::state::ready;
use crate::{misuse, profile, start};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use slabyard::cache::classes::LARGEST;
use slabyard::calls::{growth, resize};
use slabyard::platform::Memory;
use slabyard::slab::debug::Maker;

const EINVAL: c_int = 22;

/// Allocates; null and ENOMEM without memory.
#[inline]
pub fn allocate<L: Malloc>(bytes: usize, align: usize) -> *mut c_void {
    match L::request_for_aligned(bytes, align) {
        Some(request) => own_malloc::<L>(request),
        None => allocate_slow::<L>(bytes, align),
    }
}

/// Frees by the fast path first.
fn free_now<L: Malloc>(address: usize) {
    if let Err(place) = L::yard().free_fast(address) {
        misuse::found_at_call::<L>("free", address, place);
    }
}

/// Allocates `n` elements, all zeros.
pub fn calloc<L: Malloc>(n: usize, each: usize) -> *mut c_void {
    let Some(bytes) = array_bytes(n, each) else { return null_mut() };
    let pointer = allocate::<L>(bytes, ALIGN);
    if pointer.is_null() {
        return pointer;
    }
    if bytes <= LARGEST {
        // SAFETY: the allocation just made.
        unsafe { pointer.cast::<u8>().write_bytes(0, bytes) };
    } else {
        // SAFETY: the allocation just made.
        unsafe { resize::zero_fresh(L::yard(), pointer.cast(), bytes) };
    }
    pointer
}

/// Resizes a block, in place if possible.
pub fn realloc<L: Malloc>(pointer: *mut c_void, bytes: usize) -> *mut c_void {
    if pointer.is_null() {
        return allocate::<L>(bytes, ALIGN);
    }
    if bytes == 0 {
        free_slow::<L, { Maker::Malloc as u8 }>(pointer);
        return null_mut();
    }
    resize::<L>("realloc", pointer, bytes)
}

fn resize<L: Malloc>(function: &str, pointer: *mut c_void, bytes: usize) -> *mut c_void {
    let address = pointer as usize;
    if L::NOTES_MAKERS {
        compare::<L>(function, address, Maker::Malloc);
    }
    if ready() && growth::stays(L::yard(), address, bytes) {
        return pointer;
    }
    if is_wanted() || profile::has_blocks() {
        return resize_counted::<L>(function, pointer, bytes);
    }
    resize_uncounted::<L>(function, pointer, bytes)
}

/// As [`resize()`], where a profile is on or was: the new size is an allocation, the old a free. A
/// block that stays in its room is the sample that it was.
#[cold]
#[inline(never)]
fn resize_counted<L: Malloc>(function: &str, pointer: *mut c_void, bytes: usize) -> *mut c_void {
    let address = pointer as usize;
    let Some(have) = (if ready() { L::yard().usable(address) } else { None }) else {
        return resize_uncounted::<L>(function, pointer, bytes);
    };
    let sequence = profile::take_off(address);
    let sample = if bytes <= LARGEST { profile::allocate_resized::<L>(bytes) } else { None };
    if sample.is_some() || sequence.is_some() && bytes <= LARGEST {
        let new = given(sample.or_else(|| L::yard().alloc_fast(bytes, ALIGN)));
        if new.is_null() {
            sequence.into_iter().for_each(|it| profile::put_back(address, it));
            return new;
        }
        // SAFETY: both are live allocations of at least so many bytes.
        unsafe { new.cast::<u8>().copy_from_nonoverlapping(pointer.cast(), have.min(bytes)) };
        sequence.into_iter().for_each(profile::freed::<L>);
        free_now::<L>(address);
        return new;
    }
    let new = resize_uncounted::<L>(function, pointer, bytes);
    if new.is_null() {
        sequence.into_iter().for_each(|it| profile::put_back(address, it));
    } else {
        sequence.into_iter().for_each(profile::freed::<L>);
        if bytes > LARGEST {
            profile::note::<L>(new as usize, bytes);
        }
    }
    new
}

fn resize_uncounted<L: Malloc>(function: &str, pointer: *mut c_void, bytes: usize) -> *mut c_void {
    let address = pointer as usize;
    let place = if ready() { misuse::place_or_misuse::<L>(function, address) } else { None };
    let Some((place, have)) = place else { return null_mut() };
    if bytes <= isize::MAX as usize
        && let Some(address) = growth::resize_at(L::yard(), place, address, bytes)
    {
        return address as *mut c_void;
    }
    let new = given(growth::alloc_resized(L::yard(), address, have, bytes));
    if !new.is_null() {
        // SAFETY: both are live allocations of at least so many bytes.
        unsafe { new.cast::<u8>().copy_from_nonoverlapping(pointer.cast(), have.min(bytes)) };
        free_now::<L>(address);
    }
    new
}

/// Bytes of `n` elements; ENOMEM on overflow.
pub fn array_bytes(n: usize, each: usize) -> Option<usize> {
    let bytes = n.checked_mul(each);
    if bytes.is_none() {
        set_errno(ENOMEM);
    }
    bytes
}

/// Frees, with the size and the alignment that were requested.
pub fn free_aligned_sized<L: Malloc>(pointer: *mut c_void, align: usize, bytes: usize) {
    if L::NOTES_MAKERS {
        compare::<L>("free_aligned_sized", pointer as usize, Maker::Malloc);
    }
    release_sized::<L>("free_aligned_sized", pointer, bytes, align);
}

/// Allocates with an alignment; the error's number.
///
/// # Safety
/// `out` is a place for the pointer.
pub unsafe fn posix_memalign<L: Malloc>(
    out: *mut *mut c_void,
    align: usize,
    bytes: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    let pointer = allocate::<L>(bytes, align.max(ALIGN));
    if pointer.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller gives a place for the result.
    unsafe { *out = pointer };
    0
}

/// An alignment that is no power of two is an error, as in glibc.
fn aligned<L: Malloc>(align: usize, bytes: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        set_errno(EINVAL);
        return null_mut();
    }
    allocate::<L>(bytes, align.max(ALIGN))
}

/// Allocates with an alignment.
pub fn aligned_alloc<L: Malloc>(align: usize, bytes: usize) -> *mut c_void {
    aligned::<L>(align, bytes)
}

/// Allocates with an alignment, whatever the number.
pub fn memalign<L: Malloc>(align: usize, bytes: usize) -> *mut c_void {
    // glibc's memalign rounds a crooked alignment up.
    match align.checked_next_power_of_two() {
        Some(align) => aligned::<L>(align, bytes),
        None => aligned::<L>(0, bytes),
    }
}

fn page<L: Malloc>() -> usize {
    if start::ensure::<L>() { L::yard().platform().page_bytes() } else { 4096 }
}

/// Allocates at a page boundary.
pub fn valloc<L: Malloc>(bytes: usize) -> *mut c_void {
    aligned::<L>(page::<L>(), bytes)
}

/// Allocates whole pages.
pub fn pvalloc<L: Malloc>(bytes: usize) -> *mut c_void {
    match bytes.max(1).checked_next_multiple_of(page::<L>()) {
        Some(bytes) => aligned::<L>(page::<L>(), bytes),
        None => {
            set_errno(ENOMEM);
            null_mut()
        }
    }
}

/// Bytes that an allocation has, at least the requested ones.
pub fn malloc_usable_size<L: Malloc>(pointer: *mut c_void) -> usize {
    if pointer.is_null() || !ready() {
        return 0;
    }
    misuse::usable_or_misuse::<L>("malloc_usable_size", pointer as usize).unwrap_or(0)
}

/// Returns all free memory to the kernel; 1 if there was any.
pub fn malloc_trim<L: Malloc>(_pad: usize) -> c_int {
    if L::WATCHES_PRESSURE {
        pressure::trimmed();
    }
    c_int::from(ready() && L::yard().trim())
}
