//! At the process's end, reports misuse that parked objects reveal, and checks the whole yard if
//! `SLABYARD_VERIFY_AT_EXIT` requests it.
//!
//! Neighbours: [`crate::misuse`] finds and reports misuse; a library that writes a report does so
//! [after](Library::at_exit) these checks.

use crate::library::Library;
use crate::state::ready;
use crate::text::abort;
use crate::{misuse, say};
use slabyard::sync::{AtomicBool, Ordering};

static VERIFY: AtomicBool = AtomicBool::new(false);

/// Sets whether the yard is checked.
pub(crate) fn set_verify(on: bool) {
    VERIFY.store(on, Ordering::Relaxed);
}

/// What a library runs as the process ends or the library is unloaded.
pub extern "C" fn destructor<L: Library>() {
    if !ready() {
        return;
    }
    misuse::at_exit::<L>();
    if VERIFY.load(Ordering::Relaxed)
        && let Some(Err(fault)) = L::yard().verify()
    {
        say!("verify at exit: {fault}");
        abort();
    }
    L::at_exit();
}
