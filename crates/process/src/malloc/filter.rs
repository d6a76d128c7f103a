//! The program's system calls that the library must notice: those that install system-call filters
//! (seccomp(2)) after the start, and those that register rseq areas.
//!
//! A filter may kill the process at a system call that it does not allow, and cannot be queried
//! beforehand. So the library interposes `prctl` and `syscall`, which make the requested call. If
//! that call installs a filter, the library from then on makes only the system calls that any
//! allocator makes (`slabyard::platform::linux::Linux::restrict`), and in strict mode none about
//! memory (`slabyard::platform::linux::Linux::seal`).
//!
//! A thread can register only one rseq area (rseq(2)). If the library registered its own, it
//! unregisters that area before the program registers another (`Linux::give_way`).
//!
//! `syscall` also notices children that share our memory ([`super::vfork`]).
//!
//! The library does not notice a filter that a program installs with a raw system-call instruction;
//! if such a filter denies a call without killing the process, the caller handles the error.

#![cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]

use super::Malloc;
#[cfg(target_arch = "x86_64")]
use super::vfork::vfork;
use super::vfork::{after_clone, before_clone};
use crate::errno::set_errno;
use crate::start;
use crate::state::ready;
use core::arch::naked_asm;
use core::ffi::{c_int, c_long};
use slabyard::slow_path;

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const CLONE: u32 = 56;
    pub(super) const VFORK: u32 = 58;
    pub(super) const PRCTL: u32 = 157;
    pub(super) const SECCOMP: u32 = 317;
    pub(super) const RSEQ: u32 = 334;
}
#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const CLONE: u32 = 220;
    pub(super) const PRCTL: u32 = 167;
    pub(super) const SECCOMP: u32 = 277;
    pub(super) const RSEQ: u32 = 293;
}
const SYS_CLONE3: u32 = 435;
const PR_SET_SECCOMP: u32 = 22;

/// A filter is about to be installed, or an area registered: the call's number and its first
/// arguments.
extern "C" fn comes<L: Malloc>(call: u32, first: u32, second: usize, third: usize) {
    const STRICT_BY_PRCTL: usize = 1;
    const STRICT_BY_SECCOMP: u32 = 0;
    // An area, its length, and flags: 0 to register it.
    if call == number::RSEQ {
        if third == 0 && ready() {
            L::yard().platform().give_way();
        }
        return;
    }
    // The start makes calls that a filter may not allow.
    if !start::ensure::<L>() {
        return;
    }
    let strict = match call {
        number::PRCTL => second == STRICT_BY_PRCTL,
        // With flags or an argument it is refused.
        _ => first == STRICT_BY_SECCOMP && second == 0 && third == 0,
    };
    slow_path::restrict(L::yard());
    if strict {
        L::yard().platform().seal();
    }
}

/// A call failed.
extern "C" fn failed(result: isize) -> c_long {
    set_errno(-result as c_int);
    -1
}

/// As the C library's, which has no stack frame either: the child of a call that it makes may
/// return from it too.
#[unsafe(naked)]
pub extern "C" fn syscall<L: Malloc>() -> c_long {
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "cmp w0, #{seccomp}",
        "b.eq 2f",
        "cmp w0, #{rseq}",
        "b.eq 2f",
        "cmp w0, #{clone}",
        "b.eq 4f",
        "cmp w0, #{clone3}",
        "b.eq 5f",
        "cmp w0, #{prctl}",
        "b.ne 6f",
        "cmp w1, #{set_seccomp}",
        "b.eq 2f",
        "6: mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc 0",
        "cmn x0, #4095",
        "b.hs 3f",
        "ret",
        "3: b {failed}",
        "2: stp x0, x1, [sp, #-64]!",
        "stp x2, x3, [sp, #16]",
        "stp x4, x5, [sp, #32]",
        "stp x6, x30, [sp, #48]",
        "bl {comes}",
        "ldp x6, x30, [sp, #48]",
        "ldp x4, x5, [sp, #32]",
        "ldp x2, x3, [sp, #16]",
        "ldp x0, x1, [sp], #64",
        "b 6b",
        // A clone: its child may return from here over our stack, so what the parent needs waits in
        // registers, as in `vfork`. The flags are the first argument of `clone`,
        "4: stp x1, x2, [sp, #-48]!",
        "stp x3, x4, [sp, #16]",
        "stp x5, x30, [sp, #32]",
        "mov x0, x1",
        "bl {before_clone}",
        "and w9, w0, #0xff",
        "ldp x5, x30, [sp, #32]",
        "ldp x3, x4, [sp, #16]",
        "ldp x1, x2, [sp], #48",
        "mov x10, x1",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x8, #{clone}",
        "svc 0",
        "b 7f",
        // and the first word of what that of `clone3` points to.
        "5: cbz x1, 6b",
        "stp x1, x2, [sp, #-32]!",
        "str x30, [sp, #16]",
        "ldr x0, [x1]",
        "bl {before_clone}",
        "and w9, w0, #0xff",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "ldr x10, [x0]",
        "mov x8, #{clone3}",
        "svc 0",
        "7: cbz x0, 8f",
        "mov x1, x10",
        "mov x2, x9",
        "b {after_clone}",
        "8: ret",
        clone = const number::CLONE,
        clone3 = const SYS_CLONE3,
        before_clone = sym before_clone::<L>,
        after_clone = sym after_clone::<L>,
        seccomp = const number::SECCOMP,
        rseq = const number::RSEQ,
        prctl = const number::PRCTL,
        set_seccomp = const PR_SET_SECCOMP,
        comes = sym comes::<L>,
        failed = sym failed,
    );
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "cmp edi, {seccomp}",
        "je 2f",
        "cmp edi, {rseq}",
        "je 2f",
        "cmp edi, {clone}",
        "je 4f",
        "cmp edi, {clone3}",
        "je 5f",
        "cmp edi, {vfork}",
        "je {make_vfork}",
        "cmp edi, {prctl}",
        "jne 6f",
        "cmp esi, {set_seccomp}",
        "je 2f",
        "6: mov rax, rdi",
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
        "jmp 6b",
        // A clone: its child may return from here over our stack, so what the parent needs waits in
        // registers, as in `vfork`: the return address in r9, of which no clone has an argument,
        // and what was done before in its upper byte. The flags are the first argument of `clone`,
        "4: push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "mov rdi, rsi",
        "call {before_clone}",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "movzx r9d, al",
        "shl r9, 56",
        "pop rcx",
        "or r9, rcx",
        "mov eax, {clone}",
        "syscall",
        "mov rcx, rdi",
        "jmp 7f",
        // and the first word of what that of `clone3` points to.
        "5: test rsi, rsi",
        "jz 6b",
        "push rsi",
        "push rdx",
        "sub rsp, 8",
        "mov rdi, [rsi]",
        "call {before_clone}",
        "add rsp, 8",
        "pop rdx",
        "pop rdi",
        "mov rsi, rdx",
        "movzx r9d, al",
        "shl r9, 56",
        "pop rcx",
        "or r9, rcx",
        "mov eax, {clone3}",
        "syscall",
        "mov rcx, [rdi]",
        "7: mov rsi, r9",
        "shl rsi, 8",
        "shr rsi, 8",
        "push rsi",
        "test rax, rax",
        "jz 8f",
        "mov rdi, rax",
        "mov rsi, rcx",
        "mov rdx, r9",
        "shr rdx, 56",
        "jmp {after_clone}",
        "8: ret",
        clone = const number::CLONE,
        clone3 = const SYS_CLONE3,
        vfork = const number::VFORK,
        make_vfork = sym vfork::<L>,
        before_clone = sym before_clone::<L>,
        after_clone = sym after_clone::<L>,
        seccomp = const number::SECCOMP,
        rseq = const number::RSEQ,
        prctl = const number::PRCTL,
        set_seccomp = const PR_SET_SECCOMP,
        comes = sym comes::<L>,
        failed = sym failed,
    )
}

/// As `syscall`, of one number.
#[unsafe(naked)]
pub extern "C" fn prctl<L: Malloc>() -> c_int {
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "mov x5, x4",
        "mov x4, x3",
        "mov x3, x2",
        "mov x2, x1",
        "sxtw x1, w0",
        "mov x0, #{prctl}",
        "b {syscall}",
        prctl = const number::PRCTL,
        syscall = sym syscall::<L>,
    );
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "mov r9, r8",
        "mov r8, rcx",
        "mov rcx, rdx",
        "mov rdx, rsi",
        "movsxd rsi, edi",
        "mov edi, {prctl}",
        "jmp {syscall}",
        prctl = const number::PRCTL,
        syscall = sym syscall::<L>,
    )
}
