//! The interposed functions: what each does before and after the next malloc's function of the same
//! name, which [`crate::frame`] calls in between.
//!
//! An allocation is recorded after the call, a free before it, so that the recorded order is one in
//! which the calls may really have happened. Invariant: no Rust frame is on the stack while the
//! next malloc runs. So an exception (from `operator new` or its handler), or a thread's exit
//! inside that malloc, can unwind to the caller.

use crate::frame::{Call, Function, allocates, frees};
use crate::next::{NextFunction, early, early_left, is_early};
use crate::rings::record_call;
use core::ffi::c_void;
use core::mem::transmute;
use core::ptr::null_mut;

type Pointer = *mut c_void;

/// The function of that name behind, or another one while it is looked for.
macro_rules! next {
    ($name:literal, else $otherwise:expr) => {{
        static NEXT: NextFunction = NextFunction::new($name);
        let function: Function = NEXT.get();
        if function.is_null() { $otherwise as Function } else { function }
    }};
}

/// Allocations: a name, what serves while the next function of this name is looked up, and the
/// requested bytes.
macro_rules! allocations {
    ($($name:ident, $symbol:literal, $early:path, $bytes:expr;)*) => {$(
        #[allow(non_snake_case)]
        mod $name {
            use super::*;
            extern "C" fn before(_: &mut Call) -> Function {
                next!($symbol, else $early)
            }
            extern "C" fn after(call: &Call) -> usize {
                let bytes: fn(&Call) -> usize = $bytes;
                told(call, bytes(call))
            }
            allocates!($name, before, after);
        }
    )*};
}

allocations! {
    malloc, c"malloc", early_malloc, |call| call.first;
    calloc, c"calloc", early_calloc, |call| call.first.saturating_mul(call.second);
    memalign, c"memalign", none, |call| call.second;
    aligned_alloc, c"aligned_alloc", none, |call| call.second;
    valloc, c"valloc", none, |call| call.first;
    pvalloc, c"pvalloc", none, |call| call.first;
    _Znwm, c"_Znwm", early_malloc, |call| call.first;
    _Znam, c"_Znam", early_malloc, |call| call.first;
    _ZnwmRKSt9nothrow_t, c"_ZnwmRKSt9nothrow_t", early_malloc, |call| call.first;
    _ZnamRKSt9nothrow_t, c"_ZnamRKSt9nothrow_t", early_malloc, |call| call.first;
    _ZnwmSt11align_val_t, c"_ZnwmSt11align_val_t", early_malloc, |call| call.first;
    _ZnamSt11align_val_t, c"_ZnamSt11align_val_t", early_malloc, |call| call.first;
    _ZnwmSt11align_val_tRKSt9nothrow_t, c"_ZnwmSt11align_val_tRKSt9nothrow_t", early_malloc,
        |call| call.first;
    _ZnamSt11align_val_tRKSt9nothrow_t, c"_ZnamSt11align_val_tRKSt9nothrow_t", early_malloc,
        |call| call.first;
}

allocates!(realloc, before_realloc, after_realloc);
allocates!(reallocarray, before_reallocarray, after_reallocarray);
allocates!(posix_memalign, before_posix_memalign, after_posix_memalign);
// The sizes and alignments that some of them are given are not needed.
frees!(before_free: free, free_sized, free_aligned_sized, _ZdlPv, _ZdaPv, _ZdlPvm, _ZdaPvm,
    _ZdlPvRKSt9nothrow_t, _ZdaPvRKSt9nothrow_t, _ZdlPvSt11align_val_t, _ZdaPvSt11align_val_t,
    _ZdlPvmSt11align_val_t, _ZdaPvmSt11align_val_t, _ZdlPvSt11align_val_tRKSt9nothrow_t,
    _ZdaPvSt11align_val_tRKSt9nothrow_t);

/// What an allocation returned; the loader's memory is not reported.
fn told(call: &Call, bytes: usize) -> usize {
    if !is_early(call.answer as Pointer) {
        record_call(false, call.answer, bytes, call.site);
    }
    call.answer
}

extern "C" fn early_malloc(bytes: usize) -> Pointer {
    early(bytes)
}

extern "C" fn early_calloc(n: usize, each: usize) -> Pointer {
    early(n.saturating_mul(each))
}

extern "C" fn none() -> Pointer {
    null_mut()
}

extern "C" fn no_memory() -> usize {
    const ENOMEM: usize = 12;
    ENOMEM
}

extern "C" fn nothing() {}

extern "C" fn before_free(pointer: Pointer, site: usize) -> Function {
    if is_early(pointer) {
        return nothing as Function;
    }
    record_call(true, pointer as usize, 0, site);
    next!(c"free", else nothing)
}

extern "C" fn before_realloc(call: &mut Call) -> Function {
    let bytes = call.second;
    before_resize(call, bytes, |_| next!(c"realloc", else early_realloc))
}

extern "C" fn after_realloc(call: &Call) -> usize {
    resized(call, call.second)
}

extern "C" fn before_reallocarray(call: &mut Call) -> Function {
    let bytes = call.second.saturating_mul(call.third);
    before_resize(call, bytes, |_| next!(c"reallocarray", else none))
}

extern "C" fn after_reallocarray(call: &Call) -> usize {
    resized(call, call.second.saturating_mul(call.third))
}

extern "C" fn early_realloc(_: Pointer, bytes: usize) -> Pointer {
    early(bytes)
}

/// A free and an allocation. The next malloc does not know the loader's memory: another block is
/// requested instead.
fn before_resize(call: &mut Call, bytes: usize, next: impl FnOnce(&Call) -> Function) -> Function {
    call.old = call.first;
    if is_early(call.old as Pointer) {
        call.first = bytes;
        return next!(c"malloc", else early_malloc);
    }
    call.was = if call.old == 0 { 0 } else { usable(call.old) };
    record_call(true, call.old, 0, call.site);
    next(call)
}

/// Of what could not be made larger an allocation of what it was.
fn resized(call: &Call, bytes: usize) -> usize {
    let old = call.old as Pointer;
    if call.answer != 0 && is_early(old) {
        // SAFETY: both are as long, and the old one is the loader's, which nobody frees.
        unsafe { (call.answer as *mut u8).copy_from(old.cast(), bytes.min(early_left(old))) };
    }
    if call.answer != 0 {
        return told(call, bytes);
    }
    if bytes != 0 && !is_early(old) {
        record_call(false, call.old, call.was, call.site);
    }
    0
}

fn usable(pointer: usize) -> usize {
    extern "C" fn zero(_: usize) -> usize {
        0
    }
    let next = next!(c"malloc_usable_size", else zero);
    // SAFETY: the function of this name has this type in every C library.
    let next = unsafe { transmute::<Function, extern "C" fn(usize) -> usize>(next) };
    next(pointer)
}

extern "C" fn before_posix_memalign(_: &mut Call) -> Function {
    next!(c"posix_memalign", else no_memory)
}

extern "C" fn after_posix_memalign(call: &Call) -> usize {
    // An `int`: the register's upper half has no meaning.
    if call.answer as u32 == 0 {
        // SAFETY: the call just made wrote it.
        record_call(false, unsafe { *(call.first as *const usize) }, call.third, call.site);
    }
    call.answer
}
