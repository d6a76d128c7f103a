//! Fork: it waits until no thread is in a slow path, so nothing is in transit
//! in the child. A stack is always whole (one committing store), so threads on
//! the fast path need not be waited for.
//!
//! Between our handler and the fork itself the C library runs other handlers and takes locks
//! of its own, which other threads may hold while they allocate. So no thread waits long for the
//! gate meanwhile: the yard serves its call as that of a handler that interrupted a slow path.

use crate::state::YARD;
use crate::{helper, observe};
use slabyard::process::fork::at_fork;

/// Our constructor runs before the program's, so our handlers are the last
/// before the fork and the first after it.
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

extern "C" fn prepare() {
    #[cfg(object_caches)]
    around(0);
    YARD.close();
}

extern "C" fn parent() {
    YARD.open();
    #[cfg(object_caches)]
    around(1);
}

extern "C" fn child() {
    YARD.open_in_child();
    #[cfg(object_caches)]
    around(1);
    observe::after_fork();
    YARD.adopt_foreign_rows();
    YARD.platform().free_foreign_slots();
    // Last: it allocates.
    helper::after_fork();
    #[cfg(any_engine)]
    crate::pressure::after_fork();
    #[cfg(any_engine)]
    if crate::debug::is_wanted() {
        crate::ending::look_at_this_process();
    }
}
