//! The process's end: the check of the whole yard that `SLABYARD_VERIFY_AT_EXIT` asks for. The report
//! that `slabyard run` asks for is malloc's library's.
//!
//! Neighbour: [`crate::start`] calls these functions of either library.

use crate::state::YARD;
use crate::text::{abort, say};
use core::sync::atomic::{AtomicBool, Ordering};

static VERIFY: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_verify(on: bool) {
    VERIFY.store(on, Ordering::Relaxed);
}

pub(crate) fn remember() {}

pub(crate) fn at_exit() {
    if VERIFY.load(Ordering::Relaxed)
        && let Some(Err(fault)) = YARD.verify()
    {
        say!("verify at exit: {fault}");
        abort();
    }
}
