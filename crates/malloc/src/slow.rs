//! What `malloc`, `free` and their C++ names do where the fast path of [`crate::entry`] cannot
//! serve them.

use crate::choice::{is_other_large_size, is_other_size};
#[cfg(any_engine)]
use crate::debug::makers::compare;
use crate::errno::set_errno;
use crate::misuse;
use crate::start;
use crate::state::{YARD, is_closed, ready};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
#[cfg(any_engine)]
use slabyard::slab::debug::Maker;
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

#[cfg(not(any_engine))]
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

#[cfg(not(any_engine))]
#[cold]
pub(crate) extern "C" fn delete_sized_slow(pointer: *mut c_void, bytes: usize) {
    release_sized("sized free", pointer, bytes, ALIGN);
}
// Where nobody asks who allocated.
#[cfg(not(any_engine))]
pub(crate) use {
    delete_sized_slow as delete_array_sized_slow, delete_sized_slow as free_sized_slow,
    free_slow as delete_array_slow, free_slow as delete_slow,
};

/// Frees, after a check of whether the size is the object's: that which was asked for last. Where
/// `realloc` left objects of the class as they were, or gave them room, the class does not tell.
pub(crate) fn release_sized(function: &str, pointer: *mut c_void, bytes: usize, align: usize) {
    if !pointer.is_null() && ready() {
        let address = pointer as usize;
        let class = YARD.class_for(bytes, align.max(ALIGN));
        match YARD.place_of(address) {
            Place::Object { class: found, begin: true, bytes: have }
                if (class != Some(found) || is_other_size(address, bytes, have))
                    && !(bytes <= have && YARD.is_roomy(found)) =>
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
    #[cfg(not(any_engine))]
    free_slow(pointer);
    #[cfg(any_engine)]
    if !pointer.is_null() {
        release("free", pointer as usize);
    }
}

/// Frees, of which each must fit the function that allocated, where that is noted.
#[cfg(any_engine)]
macro_rules! releasing {
    ($($name:ident $sized:ident $function:literal $maker:ident),*) => {$(
        #[cold]
        pub(crate) extern "C" fn $name(pointer: *mut c_void) {
            compare($function, pointer as usize, Maker::$maker);
            if !pointer.is_null() {
                release("free", pointer as usize);
            }
        }
        #[cold]
        pub(crate) extern "C" fn $sized(pointer: *mut c_void, bytes: usize) {
            compare($function, pointer as usize, Maker::$maker);
            release_sized("sized free", pointer, bytes, ALIGN);
        }
    )*};
}
#[cfg(any_engine)]
releasing! {
    free_slow free_sized_slow "free" Malloc,
    delete_slow delete_sized_slow "delete" New,
    delete_array_slow delete_array_sized_slow "delete[]" NewArray
}

fn is_run(pointer: *mut c_void) -> bool {
    YARD.heap.run_bytes(pointer as usize).is_some()
}
