//! What `malloc`, `free` and their C++ names do where the fast path of [`crate::entry`] cannot
//! serve them.

use crate::choice::{is_other_large_size, is_other_size};
use crate::errno::set_errno;
use crate::misuse;
use crate::start;
use crate::state::{YARD, is_closed, ready};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use slabyard::yard::Place;

pub(crate) const ENOMEM: c_int = 12;
/// Every allocation is aligned to this.
pub(crate) const ALIGN: usize = 16;

#[cold]
pub(crate) fn allocate_slow(bytes: usize, align: usize) -> *mut c_void {
    given(if start::ensure() { YARD.alloc(bytes, align) } else { None })
}

#[cold]
pub(crate) extern "C" fn malloc_slow(bytes: usize) -> *mut c_void {
    given(if !start::ensure() {
        None
    } else if is_closed() {
        YARD.alloc_fast(bytes, ALIGN)
    } else {
        YARD.alloc(bytes, ALIGN)
    })
}

/// The address as a pointer; null and ENOMEM without one.
pub(crate) fn given(address: Option<usize>) -> *mut c_void {
    if let Some(address) = address {
        return address as *mut c_void;
    }
    set_errno(ENOMEM);
    null_mut()
}

#[cold]
pub(crate) extern "C" fn free_slow(pointer: *mut c_void) {
    if pointer.is_null() {
        return;
    }
    release("free", pointer as usize);
}

fn release(function: &str, address: usize) {
    if !ready() {
        return misuse::found_at_call(function, address, Place::Foreign);
    }
    let freed = if is_closed() { YARD.free_fast(address) } else { YARD.free(address) };
    if let Err(place) = freed {
        misuse::found_at_call(function, address, place);
    }
}

#[cold]
pub(crate) extern "C" fn delete_sized_slow(pointer: *mut c_void, bytes: usize) {
    release_sized("sized free", pointer, bytes, ALIGN);
}

/// Frees, after a check of whether the size is the object's.
pub(crate) fn release_sized(function: &str, pointer: *mut c_void, bytes: usize, align: usize) {
    if !pointer.is_null() && ready() {
        let address = pointer as usize;
        let class = YARD.class_for(bytes, align.max(ALIGN));
        match YARD.place_of(address) {
            Place::Object { class: found, begin: true, bytes: have }
                if class != Some(found) || is_other_size(address, bytes, have) =>
            {
                misuse::wrong_size(function, address, bytes, Some(found));
            }
            // A small block is large only where a handler interrupted malloc:
            // then it is a mapping, not a run.
            Place::Large(have)
                if bytes > have
                    || class.is_some() && is_run(pointer)
                    || is_other_large_size(bytes, have) =>
            {
                misuse::wrong_size(function, address, bytes, None);
            }
            _ => {}
        }
    }
    free_slow(pointer);
}

fn is_run(pointer: *mut c_void) -> bool {
    YARD.heap.run_bytes(pointer as usize).is_some()
}
