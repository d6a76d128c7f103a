//! The C++ operators with an alignment: `new`, which begins with the fast path of a size that
//! has it, and `delete` with a size. [`crate::entry`] has those without one, and
//! [`crate::throw`] what `new` does without memory.

use crate::c::allocate;
#[cfg(any_engine)]
use crate::debug::makers::{compare, made};
use crate::slow::{ALIGN, release_sized};
use crate::throw::{nothrow_by_runtime, trying};
use core::arch::naked_asm;
use core::ffi::c_void;
#[cfg(any_engine)]
use slabyard::slab::debug::Maker;

/// Memory of `new`, or null.
extern "C" fn attempt(bytes: usize, align: usize) -> *mut c_void {
    made(allocate(bytes, align.max(ALIGN)), Maker::New)
}
trying!(aligned_or_throw, attempt);

#[cfg(any_engine)]
extern "C" fn attempt_array(bytes: usize, align: usize) -> *mut c_void {
    made(allocate(bytes, align.max(ALIGN)), Maker::NewArray)
}
#[cfg(any_engine)]
trying!(array_aligned_or_throw, attempt_array);
#[cfg(not(any_engine))]
use aligned_or_throw as array_aligned_or_throw;

/// Who allocates, where nobody asks.
#[cfg(not(any_engine))]
enum Maker {
    New,
    NewArray,
}
#[cfg(not(any_engine))]
#[inline(always)]
fn made(pointer: *mut c_void, _: Maker) -> *mut c_void {
    pointer
}
#[cfg(not(any_engine))]
#[inline(always)]
fn compare(_: &str, _: usize, _: Maker) {}

/// Jumps to a function of [`trying`] without a stack frame of its own.
macro_rules! throwing {
    ($($name:ident => $to:ident),*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name(_bytes: usize, _align: usize) -> *mut c_void {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("jmp {to}", to = sym $to);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("b {to}", to = sym $to);
            #[cfg(target_arch = "riscv64")]
            naked_asm!("tail {to}", to = sym $to);
        }
    )*};
}
throwing!(
    _ZnwmSt11align_val_t => aligned_or_throw,
    _ZnamSt11align_val_t => array_aligned_or_throw
);

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
    made(nothrow_aligned(bytes, align), Maker::New)
}

#[unsafe(no_mangle)]
extern "C" fn _ZnamSt11align_val_tRKSt9nothrow_t(
    bytes: usize,
    align: usize,
    _: *const u8,
) -> *mut c_void {
    made(nothrow_aligned(bytes, align), Maker::NewArray)
}

#[unsafe(no_mangle)]
extern "C" fn _ZdlPvmSt11align_val_t(pointer: *mut c_void, bytes: usize, align: usize) {
    compare("delete", pointer as usize, Maker::New);
    release_sized("sized free", pointer, bytes, align);
}

#[unsafe(no_mangle)]
extern "C" fn _ZdaPvmSt11align_val_t(pointer: *mut c_void, bytes: usize, align: usize) {
    compare("delete[]", pointer as usize, Maker::NewArray);
    release_sized("sized free", pointer, bytes, align);
}
