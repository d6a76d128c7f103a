//! The C++ operators. `new` calls the new handler until memory is found or the
//! handler throws, and throws `std::bad_alloc` without one, through whatever C++
//! runtime the program has.

use crate::bad;
use crate::c::{ALIGN, allocate, free_slow, malloc_slow};
use crate::start;
use crate::state::YARD;
use core::ffi::{c_char, c_void};
use slabyard::cache::classes;
use slabyard::yard::Place;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The C++ runtime's function of this name, if the program has one.
fn runtime(name: &core::ffi::CStr) -> *mut c_void {
    // SAFETY: a null handle searches the whole program.
    unsafe { dlsym(core::ptr::null_mut(), name.as_ptr()) }
}

type Handler = unsafe extern "C-unwind" fn();

/// The new handler that the program set.
fn new_handler() -> Option<Handler> {
    let get = runtime(c"_ZSt15get_new_handlerv");
    if get.is_null() {
        return None;
    }
    // SAFETY: `std::get_new_handler()` returns a function without arguments, or null.
    unsafe {
        let get: extern "C" fn() -> Option<Handler> = core::mem::transmute(get);
        get()
    }
}

/// Tries until there is memory or no handler is left.
fn new_or_null(bytes: usize, align: usize) -> *mut c_void {
    loop {
        let pointer = allocate(bytes, align);
        if !pointer.is_null() {
            return pointer;
        }
        let Some(handler) = new_handler() else {
            return pointer;
        };
        // SAFETY: what the program set; it may throw through us.
        unsafe { handler() };
    }
}

fn new_or_throw(bytes: usize, align: usize) -> *mut c_void {
    let pointer = new_or_null(bytes, align);
    if !pointer.is_null() {
        return pointer;
    }
    let throw = runtime(c"_ZSt17__throw_bad_allocv");
    if throw.is_null() {
        crate::text::say!("operator new: out of memory, and no C++ runtime to tell");
        std::process::abort();
    }
    // SAFETY: `std::__throw_bad_alloc()` takes nothing and does not return.
    unsafe {
        let throw: Handler = core::mem::transmute(throw);
        throw();
    }
    core::ptr::null_mut()
}

#[cold]
pub(crate) extern "C-unwind" fn new_slow(bytes: usize) -> *mut c_void {
    let pointer = malloc_slow(bytes);
    if pointer.is_null() { new_or_throw(bytes, ALIGN) } else { pointer }
}

#[cold]
pub(crate) extern "C-unwind" fn new_nothrow_slow(bytes: usize) -> *mut c_void {
    let pointer = malloc_slow(bytes);
    if pointer.is_null() { nothrow_by_runtime(bytes, ALIGN) } else { pointer }
}

fn new_nothrow_aligned(bytes: usize, align: usize) -> *mut c_void {
    let pointer = allocate(bytes, align.max(ALIGN));
    if pointer.is_null() { nothrow_by_runtime(bytes, align.max(ALIGN)) } else { pointer }
}

/// Out of memory in a `nothrow` operator: the C++ runtime's own one calls our
/// throwing `new`, which calls the new handler, and turns what is thrown into null.
fn nothrow_by_runtime(bytes: usize, align: usize) -> *mut c_void {
    // The next definition after ours (dlsym(3)).
    const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;
    // SAFETY: the names are those of functions of these types.
    unsafe {
        let nothrow = c"".as_ptr().cast();
        if align > ALIGN {
            let next = dlsym(RTLD_NEXT, c"_ZnwmSt11align_val_tRKSt9nothrow_t".as_ptr());
            if next.is_null() {
                return next;
            }
            let next: unsafe extern "C-unwind" fn(usize, usize, *const u8) -> *mut c_void =
                core::mem::transmute(next);
            return next(bytes, align, nothrow);
        }
        let next = dlsym(RTLD_NEXT, c"_ZnwmRKSt9nothrow_t".as_ptr());
        if next.is_null() {
            return next;
        }
        let next: unsafe extern "C-unwind" fn(usize, *const u8) -> *mut c_void =
            core::mem::transmute(next);
        next(bytes, nothrow)
    }
}

#[cold]
pub(crate) extern "C" fn delete_sized_slow(pointer: *mut c_void, bytes: usize) {
    release_sized("sized free", pointer, bytes, ALIGN);
}

/// Frees, after a look at whether the size is the object's.
pub(crate) fn release_sized(function: &str, pointer: *mut c_void, bytes: usize, align: usize) {
    if !pointer.is_null() && start::ready() {
        let class = classes::class_for_aligned(bytes, align.max(ALIGN));
        match YARD.place_of(pointer as usize) {
            Place::Object { class: found, .. } if class != Some(found) => {
                return bad::wrong_size(function, pointer as usize, bytes, Some(found));
            }
            // A small block is large only where a handler interrupted malloc:
            // then it is a mapping, not a run.
            Place::Large(have) if bytes > have || class.is_some() && is_run(pointer) => {
                return bad::wrong_size(function, pointer as usize, bytes, None);
            }
            _ => {}
        }
    }
    free_slow(pointer);
}

fn is_run(pointer: *mut c_void) -> bool {
    YARD.ground.run_bytes(pointer as usize).is_some()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _ZnwmSt11align_val_t(bytes: usize, align: usize) -> *mut c_void {
    new_or_throw(bytes, align.max(ALIGN))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _ZnamSt11align_val_t(bytes: usize, align: usize) -> *mut c_void {
    new_or_throw(bytes, align.max(ALIGN))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _ZnwmSt11align_val_tRKSt9nothrow_t(
    bytes: usize,
    align: usize,
    _: *const u8,
) -> *mut c_void {
    new_nothrow_aligned(bytes, align)
}

#[unsafe(no_mangle)]
extern "C-unwind" fn _ZnamSt11align_val_tRKSt9nothrow_t(
    bytes: usize,
    align: usize,
    _: *const u8,
) -> *mut c_void {
    new_nothrow_aligned(bytes, align)
}

#[unsafe(no_mangle)]
extern "C" fn _ZdlPvmSt11align_val_t(pointer: *mut c_void, bytes: usize, align: usize) {
    release_sized("sized free", pointer, bytes, align);
}

#[unsafe(no_mangle)]
extern "C" fn _ZdaPvmSt11align_val_t(pointer: *mut c_void, bytes: usize, align: usize) {
    release_sized("sized free", pointer, bytes, align);
}
