//! The fast paths where there are no restartable sequences: functions of Rust, with private slots.

use crate::debug;
use crate::malloc::Malloc;
use crate::malloc::slow::malloc_slow;
use crate::state::ready;
use core::ffi::c_void;

/// Allocates by the fast path, else by the function given.
#[inline(always)]
pub fn alloc_or<L: Malloc>(bytes: usize, slow: extern "C" fn(usize) -> *mut c_void) -> *mut c_void {
    if L::DEBUGS && debug::is_on() {
        return slow(bytes);
    }
    if ready()
        && let Some(address) = L::yard().alloc_fast(bytes, 16)
    {
        return address as *mut c_void;
    }
    slow(bytes)
}

/// Frees by the fast path, else by the function given.
#[inline(always)]
pub fn free_or<L: Malloc>(pointer: *mut c_void, slow: extern "C" fn(*mut c_void)) {
    if pointer.is_null() || !ready() {
        return;
    }
    if L::DEBUGS && debug::is_on() {
        return slow(pointer);
    }
    if L::yard().free_fast(pointer as usize).is_err() {
        slow(pointer);
    }
}

/// `malloc` under a name of our own, for the library's other functions.
pub extern "C" fn own_malloc<L: Malloc>(bytes: usize) -> *mut c_void {
    alloc_or::<L>(bytes, malloc_slow::<L>)
}
