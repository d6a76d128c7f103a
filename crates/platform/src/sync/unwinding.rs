//! Finds out whether the calling thread is unwinding from a panic. `std` knows this and `core` does
//! not, so tests whose threads unwind supply the function. Only an unwinding thread may drop
//! objects in transit.

use super::{AtomicPtr, Ordering};
use core::mem::transmute;
use core::ptr::null_mut;

static ASK: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// From now on [`is_unwinding`] calls this.
pub fn ask_whether_unwinding_by(ask: fn() -> bool) {
    ASK.store(ask as *mut (), Ordering::Relaxed);
}

/// True if the calling thread unwinds, as far as anybody can tell.
pub fn is_unwinding() -> bool {
    let ask = ASK.load(Ordering::Relaxed);
    // SAFETY: such a function was stored, and nothing else but null.
    !ask.is_null() && unsafe { transmute::<*mut (), fn() -> bool>(ask) }()
}
