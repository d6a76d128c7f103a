//! The C++ operators with an alignment: `new`, which begins with the fast path of a size that
//! has it, and `delete` with a size. [`crate::entry`] has those without one, and
//! [`crate::throw`] what `new` does without memory.

use crate::c::allocate;
use crate::slow::{ALIGN, release_sized};
use crate::throw::{nothrow_by_runtime, trying};
use core::arch::naked_asm;
use core::ffi::c_void;

/// Memory, or null.
extern "C" fn attempt(bytes: usize, align: usize) -> *mut c_void {
    allocate(bytes, align.max(ALIGN))
}

trying!(aligned_or_throw, attempt);

/// Jumps to [`aligned_or_throw`] without a stack frame of its own.
macro_rules! throwing {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name(_bytes: usize, _align: usize) -> *mut c_void {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("jmp {to}", to = sym aligned_or_throw);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("b {to}", to = sym aligned_or_throw);
            #[cfg(target_arch = "riscv64")]
            naked_asm!("tail {to}", to = sym aligned_or_throw);
        }
    )*};
}
throwing!(_ZnwmSt11align_val_t, _ZnamSt11align_val_t);

fn nothrow_aligned(bytes: usize, align: usize) -> *mut c_void {
    let pointer = allocate(bytes, align.max(ALIGN));
    if pointer.is_null() { nothrow_by_runtime(bytes, align.max(ALIGN)) } else { pointer }
}

#[unsafe(no_mangle)]
extern "C" fn _ZnwmSt11align_val_tRKSt9nothrow_t(
    bytes: usize,
    align: usize,
    _: *const u8,
) -> *mut c_void {
    nothrow_aligned(bytes, align)
}

#[unsafe(no_mangle)]
extern "C" fn _ZnamSt11align_val_tRKSt9nothrow_t(
    bytes: usize,
    align: usize,
    _: *const u8,
) -> *mut c_void {
    nothrow_aligned(bytes, align)
}

#[unsafe(no_mangle)]
extern "C" fn _ZdlPvmSt11align_val_t(pointer: *mut c_void, bytes: usize, align: usize) {
    release_sized("sized free", pointer, bytes, align);
}

#[unsafe(no_mangle)]
extern "C" fn _ZdaPvmSt11align_val_t(pointer: *mut c_void, bytes: usize, align: usize) {
    release_sized("sized free", pointer, bytes, align);
}
