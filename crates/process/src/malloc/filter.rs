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

#![cfg(target_arch = "x86_64")]

use super::Malloc;
use super::vfork::{after_clone, before_clone, vfork};
use crate::errno::set_errno;
use crate::start;
use crate::state::ready;
use core::arch::naked_asm;
use core::ffi::{c_int, c_long};
use slabyard::slow_path;

const SYS_CLONE: u32 = 56;
const SYS_VFORK: u32 = 58;
const SYS_PRCTL: u32 = 157;
const SYS_SECCOMP: u32 = 317;
const SYS_RSEQ: u32 = 334;
const SYS_CLONE3: u32 = 435;
const PR_SET_SECCOMP: u32 = 22;

/// A filter is about to be installed, or an area registered: the call's number and its first
/// arguments.
extern "C" fn comes<L: Malloc>(number: u32, first: u32, second: usize, third: usize) {
    const STRICT_BY_PRCTL: usize = 1;
    const STRICT_BY_SECCOMP: u32 = 0;
    // An area, its length, and flags: 0 to register it.
    if number == SYS_RSEQ {
        if third == 0 && ready() {
            L::yard().platform().give_way();
        }
        return;
    }
    // The start makes calls that a filter may not allow.
    if !start::ensure::<L>() {
        return;
    }
    let strict = match number {
        SYS_PRCTL => second == STRICT_BY_PRCTL,
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
        clone = const SYS_CLONE,
        clone3 = const SYS_CLONE3,
        vfork = const SYS_VFORK,
        make_vfork = sym vfork::<L>,
        before_clone = sym before_clone::<L>,
        after_clone = sym after_clone::<L>,
        seccomp = const SYS_SECCOMP,
        rseq = const SYS_RSEQ,
        prctl = const SYS_PRCTL,
        set_seccomp = const PR_SET_SECCOMP,
        comes = sym comes::<L>,
        failed = sym failed,
    )
}

/// As `syscall`, of one number.
#[unsafe(naked)]
pub extern "C" fn prctl<L: Malloc>() -> c_int {
    naked_asm!(
        "mov r9, r8",
        "mov r8, rcx",
        "mov rcx, rdx",
        "mov rdx, rsi",
        "movsxd rsi, edi",
        "mov edi, {prctl}",
        "jmp {syscall}",
        prctl = const SYS_PRCTL,
        syscall = sym syscall::<L>,
    )
}
