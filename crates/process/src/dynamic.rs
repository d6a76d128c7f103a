//! Looks up functions by name: of libraries that the program may not have loaded, and the next
//! definitions of names that our library defines, too.

use core::ffi::{CStr, c_char, c_void};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The program's first definition of a name; null if it has none.
pub(crate) fn first(name: &CStr) -> *mut c_void {
    // SAFETY: a null handle searches the whole program (dlsym(3)).
    unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) }
}

/// The next definition after ours; null if there is none, as in a static program.
pub(crate) fn next(name: &CStr) -> *mut c_void {
    const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
    // SAFETY: a plain call (dlsym(3)).
    unsafe { dlsym(RTLD_NEXT, name.as_ptr()) }
}
