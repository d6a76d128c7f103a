//! Children that share their parent's memory and thread-local data: those of `vfork`, and of
//! `clone` with CLONE_VM and without CLONE_SETTLS, made by the C library's functions or by
//! `syscall`.
//!
//! Such a child runs with its parent thread's thread-local data, while that thread waits and other
//! threads continue. POSIX permits a child of `vfork` almost nothing; programs allocate there all
//! the same. Therefore the parent thread uses no restartable sequences (rseq) until the child is
//! gone (`slabyard::platform::linux::OnLinux::leave_cpu`).
//!
//! Where the kernel refuses to unregister them, the fast path is closed for the whole process
//! ([`crate::state`]), and this thread has no row
//! (`slabyard::platform::linux::OnLinux::leave_row`). This thread's slow paths are served from
//! slabs, under locks; other threads run their sequences from within the slow path.
//!
//! The library does not notice children that a program makes with a raw system-call instruction.

#![cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]

use super::Malloc;
use crate::errno::{keeping_errno, set_errno};
use crate::state::{choose, hold_open};
use crate::{dynamic, start, state};
use core::arch::naked_asm;
use core::ffi::{c_int, c_long, c_void};
use slabyard::platform::linux::Left;

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_SETTLS: u64 = 0x8_0000;
#[cfg(target_arch = "aarch64")]
const SIGCHLD: u64 = 17;

/// What [`before`] did, for [`after`].
const UNPREPARED: u8 = 0;
const LEFT_CPU: u8 = 1;
const CLOSED: u8 = 2;
/// With [`CLOSED`]: the thread is such a child itself.
const WAS_CHILD: u8 = 4;

/// Before a child that shares our memory begins.
extern "C" fn before<L: Malloc>() -> u8 {
    if !start::ensure::<L>() {
        return UNPREPARED;
    }
    match L::yard().platform().leave_cpu() {
        Left::Nothing => UNPREPARED,
        Left::Registration => LEFT_CPU,
        Left::Refused => {
            hold_open(false);
            choose::<L>();
            // A thread that is such a child itself has no row already.
            if L::yard().platform().leave_row() { CLOSED | WAS_CHILD } else { CLOSED }
        }
    }
}

/// In the parent, when its child has ended or executed another program; or when it continues while
/// the child with this process id still runs.
fn after<L: Malloc>(did: u8, beside: Option<u32>) {
    if did == UNPREPARED || !state::ready() {
        return;
    }
    if did == LEFT_CPU {
        return match beside {
            None => L::yard().platform().return_to_cpu(),
            Some(child) => L::yard().platform().return_after(child),
        };
    }
    // The fast path stays closed beside a child: nobody says when it ends.
    if beside.is_none() {
        if did & WAS_CHILD == 0 {
            L::yard().platform().return_to_row();
        }
        hold_open(true);
        choose::<L>();
    }
}

/// The process that still runs while a parent continues after such a call.
fn beside(flags: u64, result: isize) -> Option<u32> {
    (flags & CLONE_VFORK == 0 && result > 0).then_some(result as u32)
}

/// The end of `vfork` in the parent: returns the kernel's result as the C library does.
extern "C" fn after_vfork<L: Malloc>(result: isize, did: u8) -> c_int {
    after::<L>(did, None);
    returned(result) as c_int
}

/// Before a clone by `syscall`, of these flags.
pub(super) extern "C" fn before_clone<L: Malloc>(flags: u64) -> u8 {
    if is_shared(flags) { before::<L>() } else { UNPREPARED }
}

/// The end of a clone by `syscall` in the parent.
pub(super) extern "C" fn after_clone<L: Malloc>(result: isize, flags: u64, did: u8) -> c_long {
    after::<L>(did, beside(flags, result));
    returned(result)
}

/// True of a clone whose child shares our thread-local data.
const fn is_shared(flags: u64) -> bool {
    flags & (CLONE_VM | CLONE_SETTLS) == CLONE_VM
}

fn returned(result: isize) -> c_long {
    if (-4095..0).contains(&result) {
        set_errno(-result as c_int);
        return -1;
    }
    result as c_long
}

/// Two returns from one call: the child continues in our caller, over the stack from which the
/// parent returns later. So the return address waits in a register, which each of the two has for
/// itself, and nothing else is on the stack. (The C library's does the same.) The kernel of aarch64
/// has `clone` alone.
#[unsafe(naked)]
pub extern "C" fn vfork<L: Malloc>() -> c_int {
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "str x30, [sp, #-16]!",
        "bl {before}",
        "ldr x30, [sp], #16",
        "and w9, w0, #0xff",
        "mov x0, #{flags}",
        "mov x1, xzr",
        "mov x2, xzr",
        "mov x3, xzr",
        "mov x4, xzr",
        "mov x8, #{clone}",
        "svc 0",
        "cbz x0, 2f",
        "mov x1, x9",
        "b {after}",
        "2: ret",
        before = sym before::<L>,
        after = sym after_vfork::<L>,
        flags = const CLONE_VM | CLONE_VFORK | SIGCHLD,
        clone = const 220,
    );
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "movzx esi, al",
        "pop rdi",
        "mov eax, 58",
        "syscall",
        "push rdi",
        "test eax, eax",
        "jz 2f",
        "mov rdi, rax",
        "sub rsp, 8",
        "call {after}",
        "add rsp, 8",
        "2: ret",
        before = sym before::<L>,
        after = sym after_vfork::<L>,
    )
}

type Clone = extern "C" fn(usize, usize, c_int, usize, usize, usize, usize) -> c_int;

/// The C library's has a variable number of arguments, all of which are words.
pub fn clone<L: Malloc>(
    function: usize,
    stack: usize,
    flags: c_int,
    argument: usize,
    parent_tid: usize,
    tls: usize,
    child_tid: usize,
) -> c_int {
    const ENOSYS: c_int = 38;
    let next = dynamic::next(c"clone");
    if next.is_null() {
        set_errno(ENOSYS);
        return -1;
    }
    // SAFETY: the C library's function, of these arguments.
    let next = unsafe { core::mem::transmute::<*mut c_void, Clone>(next) };
    let word = flags.cast_unsigned().into();
    let did = if is_shared(word) { before::<L>() } else { UNPREPARED };
    let result = next(function, stack, flags, argument, parent_tid, tls, child_tid);
    keeping_errno(|| after::<L>(did, beside(word, result as isize)));
    result
}
