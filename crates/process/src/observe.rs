//! Gives other processes permission to read this one. What they read is in the yard's own memory
//! (`slabyard_abi::region`).
//!
//! Where Yama restricts who may read another process (`kernel.yama.ptrace_scope` of 1), a process
//! may permit this: `SLABYARD_OBSERVABLE=1` does so, for child processes too. A child that executes
//! another program inherits the variable; a forked child gives the permission again.

use crate::errno::keeping_errno;
use slabyard::sync::{AtomicBool, Ordering};

static ALLOWED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn prctl(what: i32, ...) -> i32;
}

/// Allows any process of the same user to read and write this one's memory.
pub fn allow() {
    const PR_SET_PTRACER: i32 = 0x5961_6d61;
    const ANY: usize = usize::MAX;
    ALLOWED.store(true, Ordering::Relaxed);
    // A kernel without Yama refuses it, where nothing is needed: neither the first malloc nor a
    // fork shows that.
    // SAFETY: numbers only.
    keeping_errno(|| unsafe { prctl(PR_SET_PTRACER, ANY, 0usize, 0usize, 0usize) });
}

/// In the child of a fork, which does not have its parent's permission.
pub fn after_fork() {
    if ALLOWED.load(Ordering::Relaxed) {
        allow();
    }
}
