//! The C++ operators that get a size: they check whether it is the object's. [`crate::throw`]
//! has what `new` does without memory.

use crate::c::{ALIGN, free_slow};
use crate::misuse;
use crate::start;
use crate::state::YARD;
use core::ffi::c_void;
use slabyard::cache::classes;
use slabyard::yard::Place;

#[cold]
pub(crate) extern "C" fn delete_sized_slow(pointer: *mut c_void, bytes: usize) {
    release_sized("sized free", pointer, bytes, ALIGN);
}

/// Frees, after a check of whether the size is the object's.
pub(crate) fn release_sized(function: &str, pointer: *mut c_void, bytes: usize, align: usize) {
    if !pointer.is_null() && start::ready() {
        let address = pointer as usize;
        let class = classes::class_for_aligned(bytes, align.max(ALIGN));
        match YARD.place_of(address) {
            Place::Object { class: found, begin: true, .. } if class != Some(found) => {
                misuse::wrong_size(function, address, bytes, Some(found));
            }
            // A small block is large only where a handler interrupted malloc:
            // then it is a mapping, not a run.
            Place::Large(have) if bytes > have || class.is_some() && is_run(pointer) => {
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

#[unsafe(no_mangle)]
extern "C" fn _ZdlPvmSt11align_val_t(pointer: *mut c_void, bytes: usize, align: usize) {
    release_sized("sized free", pointer, bytes, align);
}

#[unsafe(no_mangle)]
extern "C" fn _ZdaPvmSt11align_val_t(pointer: *mut c_void, bytes: usize, align: usize) {
    release_sized("sized free", pointer, bytes, align);
}
