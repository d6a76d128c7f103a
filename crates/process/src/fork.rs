//! Fork handlers: a fork does not wait for threads that are allocating; its child repairs what its
//! parent's threads left half done (`slabyard::child`).

use crate::library::{Library, Start};
use crate::state::ready;
use crate::{helper, observe, profile};
use slabyard::child;
use slabyard::platform::Threads;
use slabyard::process::fork;
use slabyard::process::fork::{at_fork, lock_starts, unlock_starts};
use slabyard::sync::{AtomicU32, Ordering};

/// Registers what is to be done in the child, and what the library does around a fork.
pub(crate) fn register<L: Library>() {
    at_fork(prepare::<L>, parent::<L>, child::<L>);
}

/// Of a library whose yard starts at the first call: whether it had started before the forks that
/// are under way, a bit each, the innermost one's the lowest. The lock of starts protects it.
static HAD_STARTED: AtomicU32 = AtomicU32::new(0);

/// A fork begins: true if there is a yard. One that starts at the first call does not until the
/// fork [ends], but in a handler of this thread.
fn begins<L: Library>() -> bool {
    if L::START == Start::InConstructor {
        return true;
    }
    lock_starts();
    let (had, is) = (HAD_STARTED.load(Ordering::Relaxed), ready());
    HAD_STARTED.store(had << 1 | u32::from(is), Ordering::Relaxed);
    is
}

/// Whether there was a yard when the fork began.
fn had_started<L: Library>() -> bool {
    L::START == Start::InConstructor || HAD_STARTED.load(Ordering::Relaxed) & 1 == 1
}

/// The fork has ended, in either process.
fn ends<L: Library>() {
    if L::START == Start::AtFirstCall {
        HAD_STARTED.store(HAD_STARTED.load(Ordering::Relaxed) >> 1, Ordering::Relaxed);
        unlock_starts();
    }
}

extern "C" fn prepare<L: Library>() {
    if begins::<L>() {
        L::yard().platform().begin_fork();
        L::before_fork();
    }
}

extern "C" fn parent<L: Library>() {
    if had_started::<L>() {
        L::yard().platform().end_fork();
        L::after_fork();
    }
    ends::<L>();
}

extern "C" fn child<L: Library>() {
    if had_started::<L>() {
        yard_in_child::<L>();
    }
    ends::<L>();
}

fn yard_in_child<L: Library>() {
    let yard = L::yard();
    child::mark_child(yard.platform());
    L::after_fork();
    observe::after_fork();
    if L::IS_MALLOC {
        profile::after_fork::<L>();
    }
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    crate::outside::after_fork();
    fork::adopt_foreign_rows(yard);
    yard.platform().free_foreign_slots();
    // Last: it allocates.
    helper::after_fork::<L>();
    L::in_child();
}
