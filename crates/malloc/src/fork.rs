//! Fork: it waits for no thread that allocates; the child repairs what its parent's threads left
//! half done (`slabyard::child`).

use crate::state::YARD;
use crate::{helper, observe};
#[cfg(object_caches)]
use core::sync::atomic::Ordering;
use slabyard::process::fork::at_fork;

/// Registers what is to be done in the child, and what object caches do around a fork.
pub(crate) fn register() {
    at_fork(prepare, parent, child);
}

/// What object caches do before a fork and after it, in either process.
#[cfg(object_caches)]
pub(crate) static AROUND: slabyard::sync::Once<[fn(); 2]> = slabyard::sync::Once::new();

#[cfg(object_caches)]
fn around(which: usize) {
    if let Some(calls) = AROUND.try_get() {
        calls[which]();
    }
}

/// Object caches start when a thread first uses them: whether they had started before the forks
/// that are under way, a bit each, the innermost one's the lowest. The lock of starts protects it.
#[cfg(object_caches)]
static HAD_STARTED: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// A fork begins: true if there is a yard. Object caches do not start until it
/// [ends], but in a handler of this thread.
fn begins() -> bool {
    #[cfg(object_caches)]
    {
        slabyard::process::fork::lock_starts();
        let (had, is) = (HAD_STARTED.load(Ordering::Relaxed), crate::state::ready());
        HAD_STARTED.store(had << 1 | u32::from(is), Ordering::Relaxed);
        is
    }
    #[cfg(not(object_caches))]
    true
}

/// Whether there was a yard when the fork began.
fn had_started() -> bool {
    #[cfg(object_caches)]
    return HAD_STARTED.load(Ordering::Relaxed) & 1 == 1;
    #[cfg(not(object_caches))]
    true
}

/// The fork has ended, in either process.
fn ends() {
    #[cfg(object_caches)]
    {
        HAD_STARTED.store(HAD_STARTED.load(Ordering::Relaxed) >> 1, Ordering::Relaxed);
        slabyard::process::fork::unlock_starts();
    }
}

extern "C" fn prepare() {
    if begins() {
        YARD.begin_fork();
        #[cfg(object_caches)]
        around(0);
    }
}

extern "C" fn parent() {
    if had_started() {
        YARD.end_fork();
        #[cfg(object_caches)]
        around(1);
    }
    ends();
}

extern "C" fn child() {
    if had_started() {
        yard_in_child();
    }
    ends();
}

fn yard_in_child() {
    YARD.mark_child();
    #[cfg(object_caches)]
    around(1);
    observe::after_fork();
    #[cfg(target_arch = "x86_64")]
    crate::outside::after_fork();
    YARD.adopt_foreign_rows();
    YARD.platform().free_foreign_slots();
    // Last: it allocates.
    helper::after_fork();
    #[cfg(any_engine)]
    crate::pressure::after_fork();
    #[cfg(any(any_engine, object_caches))]
    crate::debug::after_fork();
    #[cfg(any_engine)]
    if crate::debug::is_wanted() {
        crate::ending::look_at_this_process();
    }
}
