//! Children that share their parent's memory: of `vfork`, and of `clone` with CLONE_VM and
//! CLONE_VFORK.
//!
//! Such a child runs with its parent's thread-local data, while that thread sleeps and other
//! threads go on. The kernel unregisters the child's sequences, so it does not restart one that
//! another thread interrupts, and the CPU number that they read is its parent's last. POSIX lets
//! a child do next to nothing; programs allocate all the same.
//!
//! So while one may run, the fast path is closed for the process ([`crate::state`]), and the
//! thread that it shares has no row (`slabyard::platform::linux::Linux::leave_row`): its
//! slow paths are served from slabs, under locks. Other threads take their sequences inside
//! of the slow path.
//!
//! The library does not see children of a system call that the program makes without the C
//! library's functions.

#![cfg(target_arch = "x86_64")]

use crate::errno::{keeping_errno, set_errno};
use crate::start;
use crate::state;
use crate::state::{YARD, choose, hold_open};
use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Before a child that shares our memory begins: true if this thread is one itself.
extern "C" fn before() -> bool {
    if !start::ensure() {
        return true;
    }
    hold_open(false);
    choose();
    YARD.platform().leave_row()
}

/// In the parent, as its child has ended or become another program.
fn after(was_child: bool) {
    if !state::ready() {
        return;
    }
    if !was_child {
        YARD.platform().return_to_row();
    }
    hold_open(true);
    choose();
}

/// The end of `vfork` in the parent: returns the system's result as the C library does.
extern "C" fn after_vfork(result: isize, was_child: bool) -> c_int {
    after(was_child);
    if (-4095..0).contains(&result) {
        set_errno(-result as c_int);
        return -1;
    }
    result as c_int
}

/// Two returns from one call: the child goes on in our caller, over the stack from which the
/// parent returns later. So the return address waits in a register, which each of the two
/// has for itself, and nothing else is on the stack. (The C library's does the same.)
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn vfork() -> c_int {
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
        before = sym before,
        after = sym after_vfork,
    )
}

type Clone = extern "C" fn(usize, usize, c_int, usize, usize, usize, usize) -> c_int;

/// The C library's has a variable number of arguments, all of which are words.
#[unsafe(no_mangle)]
extern "C" fn clone(
    function: usize,
    stack: usize,
    flags: c_int,
    argument: usize,
    parent_tid: usize,
    tls: usize,
    child_tid: usize,
) -> c_int {
    const CLONE_VM: c_int = 0x100;
    const CLONE_VFORK: c_int = 0x4000;
    const CLONE_SETTLS: c_int = 0x8_0000;
    const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
    const ENOSYS: c_int = 38;
    // SAFETY: the next definition after ours (dlsym(3)).
    let next = unsafe { dlsym(RTLD_NEXT, c"clone".as_ptr()) };
    if next.is_null() {
        set_errno(ENOSYS);
        return -1;
    }
    // SAFETY: the C library's function, of these arguments.
    let next = unsafe { core::mem::transmute::<*mut c_void, Clone>(next) };
    let shares = flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS) == CLONE_VM | CLONE_VFORK;
    let was_child = shares && before();
    let result = next(function, stack, flags, argument, parent_tid, tls, child_tid);
    if shares {
        // The child shares it.
        keeping_errno(|| after(was_child));
    }
    result
}
