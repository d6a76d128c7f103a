//! System calls of the program that the library must know of: filters of system calls (seccomp(2))
//! that it installs after its start, and areas of restartable sequences that it registers.
//!
//! A filter may end the process at a call that it does not know, and cannot be queried before.
//! So the library defines `prctl` and `syscall` too: they make the requested call, and if it
//! installs a filter, the library makes from then on only the calls that any allocator makes
//! (`slabyard::platform::linux::Linux::restrict`), and in strict mode none about memory
//! (`slabyard::platform::linux::Linux::seal`).
//!
//! A thread has one area of restartable sequences (rseq(2)). Where the library registered its own,
//! it takes it back before the program registers another (`Linux::give_way`).
//!
//! The library does not see a filter that a program installs by an instruction of its own; if
//! such a filter refuses a call and does not end the process, the caller handles the error.

#![cfg(target_arch = "x86_64")]

use crate::errno::set_errno;
use crate::state::{YARD, ready};
use core::arch::naked_asm;
use core::ffi::{c_int, c_long};

const SYS_PRCTL: u32 = 157;
const SYS_SECCOMP: u32 = 317;
const SYS_RSEQ: u32 = 334;
const PR_SET_SECCOMP: u32 = 22;

/// A filter is about to be installed, or an area registered: the call's number and its first
/// arguments.
extern "C" fn comes(number: u32, first: u32, second: usize, third: usize) {
    const STRICT_BY_PRCTL: usize = 1;
    const STRICT_BY_SECCOMP: u32 = 0;
    if !ready() {
        return;
    }
    let strict = match number {
        // An area, its length, and flags: 0 to register it.
        SYS_RSEQ if third == 0 => return YARD.platform().give_way(),
        SYS_RSEQ => return,
        SYS_PRCTL => second == STRICT_BY_PRCTL,
        // With flags or an argument it is refused.
        _ => first == STRICT_BY_SECCOMP && second == 0 && third == 0,
    };
    YARD.restrict();
    if strict {
        YARD.platform().seal();
    }
}

/// A call failed.
extern "C" fn failed(result: isize) -> c_long {
    set_errno(-result as c_int);
    -1
}

/// As the C library's, which has no stack frame either: the child of a call that it makes may
/// return from it too.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn syscall() -> c_long {
    naked_asm!(
        "cmp edi, {seccomp}",
        "je 2f",
        "cmp edi, {rseq}",
        "je 2f",
        "cmp edi, {prctl}",
        "jne 1f",
        "cmp esi, {set_seccomp}",
        "je 2f",
        "1: mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "3: mov rdi, rax",
        "jmp {failed}",
        // An odd number of words, beside the return address.
        "2: push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call {comes}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp 1b",
        seccomp = const SYS_SECCOMP,
        rseq = const SYS_RSEQ,
        prctl = const SYS_PRCTL,
        set_seccomp = const PR_SET_SECCOMP,
        comes = sym comes,
        failed = sym failed,
    )
}

/// As `syscall`, of one number.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn prctl() -> c_int {
    naked_asm!(
        "mov r9, r8",
        "mov r8, rcx",
        "mov rcx, rdx",
        "mov rdx, rsi",
        "movsxd rsi, edi",
        "mov edi, {prctl}",
        "jmp {syscall}",
        prctl = const SYS_PRCTL,
        syscall = sym syscall,
    )
}
