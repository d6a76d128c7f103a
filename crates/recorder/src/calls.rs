//! The functions themselves. Each begins with a jump that takes the caller's address with it as one
//! argument more; then it does as the malloc behind does, and tells of it.
//!
//! An allocation is told after it is there, a free before it is done, so that the order of what is told is
//! one in which it may have happened.

use crate::next::{Next, early, is_early};
use crate::rings::tell;
use core::arch::naked_asm;
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;

type Pointer = *mut c_void;

/// `name(arguments)` jumps to `to(arguments, caller)`.
macro_rules! jump {
    (1: $($name:ident => $to:path),* $(,)?) => {
        $(jump!(@ $name, $to, (_a: usize), "mov rsi, [rsp]", "mov x1, x30", "mv a1, ra");)*
    };
    (2: $($name:ident => $to:path),* $(,)?) => {
        $(jump!(@ $name, $to, (_a: usize, _b: usize), "mov rdx, [rsp]", "mov x2, x30", "mv a2, ra");)*
    };
    (3: $($name:ident => $to:path),* $(,)?) => {
        $(jump!(@ $name, $to, (_a: usize, _b: usize, _c: usize), "mov rcx, [rsp]", "mov x3, x30", "mv a3, ra");)*
    };
    (@ $name:ident, $to:path, ($($argument:ident: usize),*), $x86:literal, $arm:literal, $riscv:literal) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C-unwind" fn $name($($argument: usize),*) -> usize {
            #[cfg(target_arch = "x86_64")]
            naked_asm!($x86, "jmp {to}", to = sym $to);
            #[cfg(target_arch = "aarch64")]
            naked_asm!($arm, "b {to}", to = sym $to);
            #[cfg(target_arch = "riscv64")]
            naked_asm!($riscv, "tail {to}", to = sym $to);
        }
    };
}

/// The next function, as one of this type; what to do while it is looked for.
macro_rules! next {
    ($name:literal as $type:ty) => {
        next!($name as $type, else Default::default())
    };
    ($name:literal as $type:ty, else $otherwise:expr) => {{
        static NEXT: Next = Next::new($name);
        let function = NEXT.get();
        if function.is_null() {
            return $otherwise;
        }
        // SAFETY: the function of this name has this type in every C library.
        unsafe { transmute::<*mut c_void, $type>(function) }
    }};
}

jump!(1: malloc => told_malloc, free => told_free, valloc => told_valloc, pvalloc => told_pvalloc);
jump!(2: calloc => told_calloc, realloc => told_realloc, memalign => told_memalign,
    aligned_alloc => told_aligned_alloc, free_sized => told_free2);
jump!(3: posix_memalign => told_posix_memalign, reallocarray => told_reallocarray,
    free_aligned_sized => told_free3);

extern "C" fn told_malloc(bytes: usize, site: usize) -> Pointer {
    let next = next!(c"malloc" as extern "C" fn(usize) -> Pointer, else early(bytes));
    let pointer = next(bytes);
    tell(false, pointer as usize, bytes, site);
    pointer
}

extern "C" fn told_free(pointer: Pointer, site: usize) {
    if is_early(pointer) {
        return;
    }
    let next = next!(c"free" as extern "C" fn(Pointer));
    tell(true, pointer as usize, 0, site);
    next(pointer);
}

/// `free_sized`, whose size is not needed.
extern "C" fn told_free2(pointer: Pointer, _: usize, site: usize) {
    told_free(pointer, site);
}

extern "C" fn told_free3(pointer: Pointer, _: usize, _: usize, site: usize) {
    told_free(pointer, site);
}

extern "C" fn told_calloc(n: usize, each: usize, site: usize) -> Pointer {
    let next = next!(c"calloc" as extern "C" fn(usize, usize) -> Pointer, else early(n.saturating_mul(each)));
    let pointer = next(n, each);
    tell(false, pointer as usize, n.saturating_mul(each), site);
    pointer
}

extern "C" fn told_realloc(old: Pointer, bytes: usize, site: usize) -> Pointer {
    if is_early(old) {
        let new = told_malloc(bytes, site);
        if !new.is_null() {
            // SAFETY: the old memory is followed by as much of the same piece or by other memory of
            // ours; what is copied too much has no meaning.
            unsafe { new.cast::<u8>().copy_from(old.cast(), bytes.min(1024)) };
        }
        return new;
    }
    let next = next!(c"realloc" as extern "C" fn(Pointer, usize) -> Pointer, else early(bytes));
    resized(old, bytes, site, |old| next(old, bytes))
}

extern "C" fn told_reallocarray(old: Pointer, n: usize, each: usize, site: usize) -> Pointer {
    let next =
        next!(c"reallocarray" as extern "C" fn(Pointer, usize, usize) -> Pointer, else null_mut());
    resized(old, n.saturating_mul(each), site, |old| next(old, n, each))
}

/// A free and an allocation; of what could not be made larger an allocation of what it was.
fn resized(
    old: Pointer,
    bytes: usize,
    site: usize,
    next: impl FnOnce(Pointer) -> Pointer,
) -> Pointer {
    let was = if old.is_null() { 0 } else { usable(old) };
    tell(true, old as usize, 0, site);
    let new = next(old);
    if !new.is_null() {
        tell(false, new as usize, bytes, site);
    } else if bytes != 0 {
        tell(false, old as usize, was, site);
    }
    new
}

fn usable(pointer: Pointer) -> usize {
    let next = next!(c"malloc_usable_size" as extern "C" fn(Pointer) -> usize, else 0);
    next(pointer)
}

extern "C" fn told_memalign(align: usize, bytes: usize, site: usize) -> Pointer {
    let next = next!(c"memalign" as extern "C" fn(usize, usize) -> Pointer, else null_mut());
    let pointer = next(align, bytes);
    tell(false, pointer as usize, bytes, site);
    pointer
}

extern "C" fn told_aligned_alloc(align: usize, bytes: usize, site: usize) -> Pointer {
    let next = next!(c"aligned_alloc" as extern "C" fn(usize, usize) -> Pointer, else null_mut());
    let pointer = next(align, bytes);
    tell(false, pointer as usize, bytes, site);
    pointer
}

extern "C" fn told_posix_memalign(
    out: *mut Pointer,
    align: usize,
    bytes: usize,
    site: usize,
) -> c_int {
    const ENOMEM: c_int = 12;
    let next =
        next!(c"posix_memalign" as extern "C" fn(*mut Pointer, usize, usize) -> c_int, else ENOMEM);
    let failed = next(out, align, bytes);
    if failed == 0 {
        // SAFETY: the call just made wrote it.
        tell(false, unsafe { *out } as usize, bytes, site);
    }
    failed
}

extern "C" fn told_valloc(bytes: usize, site: usize) -> Pointer {
    let next = next!(c"valloc" as extern "C" fn(usize) -> Pointer, else null_mut());
    let pointer = next(bytes);
    tell(false, pointer as usize, bytes, site);
    pointer
}

extern "C" fn told_pvalloc(bytes: usize, site: usize) -> Pointer {
    let next = next!(c"pvalloc" as extern "C" fn(usize) -> Pointer, else null_mut());
    let pointer = next(bytes);
    tell(false, pointer as usize, bytes, site);
    pointer
}

/// An operator `new`: the next one's, which may throw.
macro_rules! new {
    ($($name:ident, $told:ident, $symbol:literal, ($($argument:ident),*);)*) => {$(
        extern "C-unwind" fn $told(bytes: usize, $($argument: usize,)* site: usize) -> Pointer {
            type New = extern "C-unwind" fn(usize, $(new!(@ $argument)),*) -> Pointer;
            let next = next!($symbol as New, else early(bytes));
            let pointer = next(bytes, $($argument),*);
            tell(false, pointer as usize, bytes, site);
            pointer
        }
    )*};
    (@ $argument:ident) => { usize };
}

new! {
    _Znwm, told_znwm, c"_Znwm", ();
    _Znam, told_znam, c"_Znam", ();
    _ZnwmRKSt9nothrow_t, told_znwm_nothrow, c"_ZnwmRKSt9nothrow_t", (b);
    _ZnamRKSt9nothrow_t, told_znam_nothrow, c"_ZnamRKSt9nothrow_t", (b);
    _ZnwmSt11align_val_t, told_znwm_aligned, c"_ZnwmSt11align_val_t", (b);
    _ZnamSt11align_val_t, told_znam_aligned, c"_ZnamSt11align_val_t", (b);
    _ZnwmSt11align_val_tRKSt9nothrow_t, told_znwm_both, c"_ZnwmSt11align_val_tRKSt9nothrow_t", (b, c);
    _ZnamSt11align_val_tRKSt9nothrow_t, told_znam_both, c"_ZnamSt11align_val_tRKSt9nothrow_t", (b, c);
}

jump!(1: _Znwm => told_znwm, _Znam => told_znam, _ZdlPv => told_free, _ZdaPv => told_free);
jump!(2: _ZnwmRKSt9nothrow_t => told_znwm_nothrow, _ZnamRKSt9nothrow_t => told_znam_nothrow,
    _ZnwmSt11align_val_t => told_znwm_aligned, _ZnamSt11align_val_t => told_znam_aligned,
    _ZdlPvm => told_free2, _ZdaPvm => told_free2,
    _ZdlPvRKSt9nothrow_t => told_free2, _ZdaPvRKSt9nothrow_t => told_free2,
    _ZdlPvSt11align_val_t => told_free2, _ZdaPvSt11align_val_t => told_free2);
jump!(3: _ZnwmSt11align_val_tRKSt9nothrow_t => told_znwm_both,
    _ZnamSt11align_val_tRKSt9nothrow_t => told_znam_both,
    _ZdlPvmSt11align_val_t => told_free3, _ZdaPvmSt11align_val_t => told_free3,
    _ZdlPvSt11align_val_tRKSt9nothrow_t => told_free3,
    _ZdaPvSt11align_val_tRKSt9nothrow_t => told_free3);
