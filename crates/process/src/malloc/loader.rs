//! Libraries that a program loads with RTLD_DEEPBIND.
//!
//! Such a library looks up a name first in itself and its dependencies, then in the program. So it
//! passes memory that `strdup` got from us to the C library's `free`, and the process crashes.
//! Debian's PHP loads its extensions this way. So the library interposes `dlopen` too, and clears
//! that flag: the loaded library then finds the same functions as all others. (The sanitizers
//! reject this flag for the same reason.)

#![cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]

use crate::dynamic;
use core::arch::naked_asm;
use core::ffi::{c_char, c_void};
use slabyard::sync::{AtomicUsize, Ordering};

const RTLD_DEEPBIND: u32 = 8;

/// The next definition after ours; 0: not looked up yet.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Asks for it. Where there is none, as in a static program, what is called returns null.
#[cold]
extern "C" fn find() -> usize {
    let next = dynamic::next(c"dlopen") as usize;
    let next = if next == 0 { none as *const () as usize } else { next };
    NEXT.store(next, Ordering::Relaxed);
    next
}

extern "C" fn none() -> *mut c_void {
    core::ptr::null_mut()
}

/// A jump, not a call: where the C library looks for a file depends on who called.
#[unsafe(naked)]
pub extern "C" fn dlopen(_path: *const c_char, _flags: i32) -> *mut c_void {
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "and w1, w1, #{all_but_deepbind}",
        "adrp x16, {next}",
        "ldr x16, [x16, :lo12:{next}]",
        "cbz x16, 2f",
        "br x16",
        "2: stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {find}",
        "mov x16, x0",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "br x16",
        all_but_deepbind = const !RTLD_DEEPBIND,
        next = sym NEXT,
        find = sym find,
    );
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "and esi, {all_but_deepbind}",
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2: push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        all_but_deepbind = const !RTLD_DEEPBIND as i32,
        next = sym NEXT,
        find = sym find,
    )
}
