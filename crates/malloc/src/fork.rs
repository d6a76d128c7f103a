//! Fork: it waits until no thread is in a slow path, so nothing is in transit
//! in the child. A stack is always whole (one committing store), so threads on
//! the fast path need not be waited for.

use crate::state::YARD;
use crate::{helper, observe};
use slabyard::platform::linux::Mode;

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

/// Our constructor runs before the program's, so our handlers are the last
/// before the fork and the first after it.
pub(crate) fn register() {
    // SAFETY: the handlers live as long as the process: we are never unloaded.
    unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) };
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
    YARD.forget_mail();
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
}
