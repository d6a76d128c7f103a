//! The throwing operators: `new` calls the new handler until memory is found or the handler throws;
//! without a handler it throws `std::bad_alloc`, through whatever C++ runtime the program has.
//!
//! An exception must not unwind through a Rust stack frame, as the library is built without
//! unwinding: that spares each process the unwinder's library and the panic machinery. Therefore
//! the stack frame that calls a function that may throw is written in assembly, with unwind
//! directives.

use super::Malloc;
use super::slow::{ALIGN, maker_of, malloc_slow};
use crate::debug::makers::made;
use crate::dynamic;
use crate::say;
use crate::text::abort;
use core::ffi::c_void;

/// The function to call where there is no memory. It may throw: Rust must not call it.
type Remedy = unsafe extern "C" fn();

/// The new handler that the program set.
fn new_handler() -> Option<Remedy> {
    let get = dynamic::first(c"_ZSt15get_new_handlerv");
    if get.is_null() {
        return None;
    }
    // SAFETY: `std::get_new_handler()` returns a function without arguments, or null.
    unsafe {
        let get: extern "C" fn() -> Option<Remedy> = core::mem::transmute(get);
        get()
    }
}

/// Memory, or null. Where `new` is a sequence, its pop found nothing; elsewhere each attempt begins
/// with one.
extern "C" fn attempt<L: Malloc, const MAKER: u8>(bytes: usize, _: usize) -> *mut c_void {
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    if crate::state::ready()
        && let Some(address) = L::yard().alloc_fast(bytes, ALIGN)
    {
        return made_by::<L, MAKER>(address as *mut c_void);
    }
    made_by::<L, MAKER>(malloc_slow::<L>(bytes))
}

/// Notes who allocated, where debugging does.
#[inline(always)]
pub(super) fn made_by<L: Malloc, const MAKER: u8>(pointer: *mut c_void) -> *mut c_void {
    if L::NOTES_MAKERS { made::<L>(pointer, maker_of(MAKER)) } else { pointer }
}

/// What to call before the next attempt: the new handler, or what throws.
pub(super) extern "C" fn remedy() -> Remedy {
    if let Some(handler) = new_handler() {
        return handler;
    }
    let throw = dynamic::first(c"_ZSt17__throw_bad_allocv");
    if throw.is_null() {
        say!("operator new: out of memory, and no C++ runtime to tell");
        abort();
    }
    // SAFETY: `std::__throw_bad_alloc()` takes nothing.
    unsafe { core::mem::transmute(throw) }
}

/// A function that asks `$attempt` until there is memory, or something is thrown.
macro_rules! trying {
    ($(#[$doc:meta])* $name:ident, $attempt:ident) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub extern "C" fn $name<L: Malloc, const MAKER: u8>(
            _bytes: usize,
            _align: usize,
        ) -> *mut c_void {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rbx",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbx, -16",
                "push r12",
                ".cfi_def_cfa_offset 24",
                ".cfi_offset r12, -24",
                "sub rsp, 8",
                ".cfi_def_cfa_offset 32",
                "mov rbx, rdi",
                "mov r12, rsi",
                "2: mov rdi, rbx",
                "mov rsi, r12",
                "call {attempt}",
                "test rax, rax",
                "jne 3f",
                "call {remedy}",
                "call rax",
                "jmp 2b",
                "3: add rsp, 8",
                ".cfi_def_cfa_offset 24",
                "pop r12",
                ".cfi_def_cfa_offset 16",
                "pop rbx",
                ".cfi_def_cfa_offset 8",
                "ret",
                ".cfi_endproc",
                attempt = sym $attempt::<L, MAKER>,
                remedy = sym $crate::malloc::throw::remedy,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset x29, -32",
                ".cfi_offset x30, -24",
                "stp x19, x20, [sp, #16]",
                ".cfi_offset x19, -16",
                ".cfi_offset x20, -8",
                "mov x19, x0",
                "mov x20, x1",
                "2: mov x0, x19",
                "mov x1, x20",
                "bl {attempt}",
                "cbnz x0, 3f",
                "bl {remedy}",
                "blr x0",
                "b 2b",
                "3: ldp x19, x20, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                ".cfi_def_cfa_offset 0",
                "ret",
                ".cfi_endproc",
                attempt = sym $attempt::<L, MAKER>,
                remedy = sym $crate::malloc::throw::remedy,
            );
            #[cfg(target_arch = "riscv64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "addi sp, sp, -32",
                ".cfi_def_cfa_offset 32",
                "sd ra, 24(sp)",
                ".cfi_offset ra, -8",
                "sd s0, 16(sp)",
                ".cfi_offset s0, -16",
                "sd s1, 8(sp)",
                ".cfi_offset s1, -24",
                "mv s0, a0",
                "mv s1, a1",
                "2: mv a0, s0",
                "mv a1, s1",
                "call {attempt}",
                "bnez a0, 3f",
                "call {remedy}",
                "jalr a0",
                "j 2b",
                "3: ld ra, 24(sp)",
                "ld s0, 16(sp)",
                "ld s1, 8(sp)",
                "addi sp, sp, 32",
                ".cfi_def_cfa_offset 0",
                "ret",
                ".cfi_endproc",
                attempt = sym $attempt::<L, MAKER>,
                remedy = sym $crate::malloc::throw::remedy,
            );
        }
    };
}
pub(super) use trying;

trying!(
    /// `new` where the fast path finds nothing, and where `new` is no sequence all of it.
    new_or_throw,
    attempt
);

/// The same where `nothrow` is given.
#[cold]
pub extern "C" fn new_nothrow_slow<L: Malloc, const MAKER: u8>(bytes: usize) -> *mut c_void {
    let pointer = malloc_slow::<L>(bytes);
    let pointer = if pointer.is_null() { nothrow_by_runtime(bytes, ALIGN) } else { pointer };
    made_by::<L, MAKER>(pointer)
}

/// Out of memory in a `nothrow` operator: the C++ runtime's own one calls our
/// throwing `new`, which calls the new handler, and turns what is thrown into null.
pub(super) fn nothrow_by_runtime(bytes: usize, align: usize) -> *mut c_void {
    // SAFETY: the names are those of functions of these types, which throw nothing.
    unsafe {
        let nothrow = c"".as_ptr().cast();
        if align > ALIGN {
            let next = dynamic::next(c"_ZnwmSt11align_val_tRKSt9nothrow_t");
            if next.is_null() {
                return next;
            }
            let next: unsafe extern "C" fn(usize, usize, *const u8) -> *mut c_void =
                core::mem::transmute(next);
            return next(bytes, align, nothrow);
        }
        let next = dynamic::next(c"_ZnwmRKSt9nothrow_t");
        if next.is_null() {
            return next;
        }
        let next: unsafe extern "C" fn(usize, *const u8) -> *mut c_void =
            core::mem::transmute(next);
        next(bytes, nothrow)
    }
}
