//! The C functions but `malloc` and `free`, which are [`crate::entry`].
//!
//! Behaviour as in C23, POSIX and glibc's manual: zero sizes give unique
//! pointers, `realloc(p, 0)` frees, failures set `errno` to ENOMEM, `free` keeps
//! `errno`. The names that glibc exports beside the documented ones are here, too.

use crate::choice::request_for_aligned;
#[cfg(any_engine)]
use crate::debug::makers::compare;
use crate::entry::own_malloc;
use crate::errno::set_errno;
use crate::misuse;
use crate::slow::{ALIGN, ENOMEM, allocate_slow, free_slow, given, release_sized};
use crate::start;
use crate::state::{YARD, ready};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use slabyard::cache::classes::LARGEST;
use slabyard::platform::Platform;
#[cfg(any_engine)]
use slabyard::slab::debug::Maker;

const EINVAL: c_int = 22;

/// Allocates; null and ENOMEM without memory.
#[inline]
pub(crate) fn allocate(bytes: usize, align: usize) -> *mut c_void {
    match request_for_aligned(bytes, align) {
        Some(request) => own_malloc(request),
        None => allocate_slow(bytes, align),
    }
}

/// Frees by the fast path first.
fn free_now(address: usize) {
    if let Err(place) = YARD.free_fast(address) {
        misuse::found_at_call("free", address, place);
    }
}

#[unsafe(no_mangle)]
extern "C" fn calloc(n: usize, each: usize) -> *mut c_void {
    let Some(bytes) = n.checked_mul(each) else {
        set_errno(ENOMEM);
        return null_mut();
    };
    let pointer = allocate(bytes, ALIGN);
    if pointer.is_null() {
        return pointer;
    }
    if bytes <= LARGEST {
        // SAFETY: the allocation just made.
        unsafe { pointer.cast::<u8>().write_bytes(0, bytes) };
    } else {
        // SAFETY: the allocation just made.
        unsafe { YARD.zero_fresh(pointer.cast(), bytes) };
    }
    pointer
}

#[unsafe(no_mangle)]
extern "C" fn realloc(pointer: *mut c_void, bytes: usize) -> *mut c_void {
    if pointer.is_null() {
        return allocate(bytes, ALIGN);
    }
    if bytes == 0 {
        free_slow(pointer);
        return null_mut();
    }
    resize("realloc", pointer, bytes)
}

fn resize(function: &str, pointer: *mut c_void, bytes: usize) -> *mut c_void {
    let address = pointer as usize;
    #[cfg(any_engine)]
    compare(function, address, Maker::Malloc);
    if ready() && YARD.stays(address, bytes) {
        return pointer;
    }
    let place = if ready() { misuse::place_or_misuse(function, address) } else { None };
    let Some((place, have)) = place else { return null_mut() };
    if bytes <= isize::MAX as usize
        && let Some(address) = YARD.resize_at(place, address, bytes)
    {
        return address as *mut c_void;
    }
    let new = given(YARD.alloc_resized(address, have, bytes));
    if !new.is_null() {
        // SAFETY: both are live allocations of at least so many bytes.
        unsafe { new.cast::<u8>().copy_from_nonoverlapping(pointer.cast(), have.min(bytes)) };
        free_now(address);
    }
    new
}

#[unsafe(no_mangle)]
extern "C" fn reallocarray(pointer: *mut c_void, n: usize, each: usize) -> *mut c_void {
    let Some(bytes) = n.checked_mul(each) else {
        set_errno(ENOMEM);
        return null_mut();
    };
    realloc(pointer, bytes)
}

#[unsafe(no_mangle)]
extern "C" fn free_aligned_sized(pointer: *mut c_void, align: usize, bytes: usize) {
    #[cfg(any_engine)]
    compare("free_aligned_sized", pointer as usize, Maker::Malloc);
    release_sized("free_aligned_sized", pointer, bytes, align);
}

#[unsafe(no_mangle)]
extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    let pointer = allocate(bytes, align.max(ALIGN));
    if pointer.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller gives a place for the result.
    unsafe { *out = pointer };
    0
}

/// An alignment that is no power of two is an error, as in glibc.
fn aligned(align: usize, bytes: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        set_errno(EINVAL);
        return null_mut();
    }
    allocate(bytes, align.max(ALIGN))
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    aligned(align, bytes)
}

#[unsafe(no_mangle)]
extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    // glibc's memalign rounds a crooked alignment up.
    match align.checked_next_power_of_two() {
        Some(align) => aligned(align, bytes),
        None => aligned(0, bytes),
    }
}

fn page() -> usize {
    if start::ensure() { YARD.platform().page_bytes() } else { 4096 }
}

#[unsafe(no_mangle)]
extern "C" fn valloc(bytes: usize) -> *mut c_void {
    aligned(page(), bytes)
}

#[unsafe(no_mangle)]
extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    match bytes.max(1).checked_next_multiple_of(page()) {
        Some(bytes) => aligned(page(), bytes),
        None => {
            set_errno(ENOMEM);
            null_mut()
        }
    }
}

/// Names that glibc exports beside these. A program that calls `__libc_malloc`, most often from a
/// `malloc` of its own, may give the memory to any `free`.
macro_rules! of_glibc {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty = $function:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $kind),*) -> $result {
            $function($($argument),*)
        }
    )*};
}
of_glibc! {
    __libc_calloc(n: usize, each: usize) -> *mut c_void = calloc;
    __libc_realloc(pointer: *mut c_void, bytes: usize) -> *mut c_void = realloc;
    __libc_memalign(align: usize, bytes: usize) -> *mut c_void = memalign;
    __libc_valloc(bytes: usize) -> *mut c_void = valloc;
    __libc_pvalloc(bytes: usize) -> *mut c_void = pvalloc;
}

#[unsafe(no_mangle)]
extern "C" fn malloc_usable_size(pointer: *mut c_void) -> usize {
    if pointer.is_null() || !ready() {
        return 0;
    }
    misuse::usable_or_misuse("malloc_usable_size", pointer as usize).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn malloc_trim(_pad: usize) -> c_int {
    #[cfg(any_engine)]
    crate::pressure::trimmed();
    c_int::from(ready() && YARD.trim())
}

/// The same for Rust's `alloc`.
#[cfg(panic = "abort")]
#[allow(dead_code, reason = "a build of the whole workspace gives the engine the standard library")]
pub(crate) struct Rust;

// SAFETY: both are our own functions, which fit together.
#[cfg(panic = "abort")]
unsafe impl core::alloc::GlobalAlloc for Rust {
    unsafe fn alloc(&self, layout: core::alloc::Layout) -> *mut u8 {
        allocate(layout.size(), layout.align().max(ALIGN)).cast()
    }

    unsafe fn dealloc(&self, pointer: *mut u8, _: core::alloc::Layout) {
        free_slow(pointer.cast());
    }
}
