//! Fork: it waits until no thread is in a slow path, so nothing is in transit
//! in the child. A stack is always whole (one committing store), so threads on
//! the fast path need not be waited for.
//!
//! Between our handler and the fork itself the C library runs other handlers and takes locks
//! of its own, which other threads may hold while they allocate. So no thread waits long for the
//! gate meanwhile: the yard serves its call as that of a handler that interrupted a slow path.

use crate::state::YARD;
use crate::{helper, observe};
use slabyard::platform::linux::Mode;

type Handler = extern "C" fn();

/// Registers handlers by what the C library has. One library is to load beside each: glibc's
/// `pthread_atfork` is a part of each program, which calls `__register_atfork`; musl has none
/// of that name, and a plain `pthread_atfork`.
#[cfg(target_arch = "x86_64")]
fn at_fork(prepare: Handler, parent: Handler, child: Handler) {
    type Register = extern "C" fn(Handler, Handler, Handler, *const u8) -> i32;
    let register = crate::weak::address_of!("__register_atfork", "pthread_atfork");
    if register != 0 {
        // SAFETY: the function that the C library has; the plain one looks at three arguments.
        // Without a fourth, the handlers are no library's that might go.
        let call = unsafe { core::mem::transmute::<usize, Register>(register) };
        call(prepare, parent, child, core::ptr::null());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn at_fork(prepare: Handler, parent: Handler, child: Handler) {
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> i32;
    }
    // SAFETY: the handlers live as long as the process: we are never unloaded.
    unsafe { pthread_atfork(prepare, parent, child) };
}

/// Our constructor runs before the program's, so our handlers are the last
/// before the fork and the first after it.
pub(crate) fn register() {
    at_fork(prepare, parent, child);
}

extern "C" fn prepare() {
    YARD.close();
}

extern "C" fn parent() {
    YARD.open();
}

extern "C" fn child() {
    let platform = YARD.platform();
    platform.after_fork();
    YARD.forget_others();
    YARD.open();
    observe::after_fork();
    if platform.mode() == Mode::Slots {
        YARD.adopt_rows(platform.foreign_slots());
        for slot in platform.foreign_slots() {
            platform.free_slot(slot);
        }
    }
    // Last: it allocates.
    helper::after_fork();
    #[cfg(any_engine)]
    crate::pressure::after_fork();
}
