//! Accesses this thread's `errno`. `malloc` sets `errno` if there is no memory; everything else in
//! the library must leave it unchanged.

use core::ffi::c_int;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// Its value.
pub fn errno() -> c_int {
    // SAFETY: this thread's own word.
    unsafe { *__errno_location() }
}

/// What `f` does leaves `errno` as it was.
pub fn keeping_errno<R>(f: impl FnOnce() -> R) -> R {
    let before = errno();
    let result = f();
    set_errno(before);
    result
}

/// For a call that fails; one that succeeds leaves the word alone.
pub fn set_errno(value: c_int) {
    // SAFETY: this thread's own word.
    unsafe { *__errno_location() = value };
}
