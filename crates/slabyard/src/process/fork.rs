//! Fork handlers, which wait for no other thread: after they ran, the C library takes locks of its
//! own, which other threads may hold while they allocate. The child repairs what they left half
//! done ([`crate::child`]).
//!
//! Neighbours: the malloc library has handlers of its own around the same calls; [`super`]
//! registers the handlers of this file for all yards of the process.

use super::started::each_started;
pub use super::started::{lock_starts, unlock_starts};
use crate::calls::trim;
use crate::child;
use crate::engine::Engine;
use crate::platform::linux::{Counting, OnLinux};
use crate::platform::{PerCpu, Threads};
use crate::sync::{AtomicU32, Ordering};
use crate::yard::Yard;

/// The C library calls it before a fork, or after it in parent or child.
pub type Handler = extern "C" fn();

/// Registers handlers by what the C library has: glibc's `pthread_atfork` is a part of each
/// program, which calls `__register_atfork`; musl has none of that name, and a plain
/// `pthread_atfork`. The handlers stay for ever: what has them is never unloaded.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub fn at_fork(prepare: Handler, parent: Handler, child: Handler) {
    type Register = extern "C" fn(Handler, Handler, Handler, *const u8) -> i32;
    let register = crate::weak_address!("__register_atfork", "pthread_atfork");
    if register != 0 {
        // SAFETY: the function that the C library has; the plain one looks at three arguments.
        // Without a fourth, the handlers are no library's that might go.
        let call = unsafe { core::mem::transmute::<usize, Register>(register) };
        call(prepare, parent, child, core::ptr::null());
    }
}

/// Registers handlers. They stay for ever: what has them is never unloaded.
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub fn at_fork(prepare: Handler, parent: Handler, child: Handler) {
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> i32;
    }
    // SAFETY: the handlers live as long as the process: we are never unloaded.
    unsafe { pthread_atfork(prepare, parent, child) };
}

/// In the child of a fork: takes what threads that are not there had in rows of their own.
/// Their slots are free [afterwards](OnLinux::free_foreign_slots).
pub fn adopt_foreign_rows<C: Counting, E: Engine>(yard: &Yard<OnLinux<C>, E>) {
    // Else rows are CPUs', and the repair waits for the first slow path.
    if yard.platform().rows().are_private() {
        trim::adopt_rows(yard, yard.platform().foreign_slots());
    }
}

/// Registers the handlers for the yards of the process, once.
pub(super) fn register() {
    static REGISTERED: AtomicU32 = AtomicU32::new(0);
    // Relaxed: the others do not wait until it is done.
    if REGISTERED.swap(1, Ordering::Relaxed) == 0 {
        at_fork(prepare, parent, child);
    }
}

extern "C" fn prepare() {
    // No yard is half started in the child.
    lock_starts();
    each_started(|yard| yard.platform().begin_fork());
}

extern "C" fn parent() {
    each_started(|yard| yard.platform().end_fork());
    unlock_starts();
}

extern "C" fn child() {
    each_started(|yard| child::mark_child(yard.platform()));
    // Slots are of the process: they are free when no yard has a row of theirs.
    each_started(|yard| yard.adopt_foreign_rows());
    each_started(|yard| yard.platform().free_foreign_slots());
    unlock_starts();
}
