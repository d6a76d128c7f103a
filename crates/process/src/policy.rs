//! Decides what follows a report of misuse: the library aborts or goes on, as `SLABYARD_ON_ERROR`
//! says.
//!
//! Neighbours: [`crate::misuse`] reports, and so do caches with debugging.

use crate::text::abort;
use core::sync::atomic::{AtomicU8, Ordering};

/// The values of the option, in their order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Go on after a wrong size alone.
    Auto,
    /// Always abort.
    Abort,
    /// Always go on.
    Report,
}

static POLICY: AtomicU8 = AtomicU8::new(Policy::Auto as u8);

/// Sets it, by the number of the option's value.
pub fn set(word: u64) {
    POLICY.store(word as u8, Ordering::Relaxed);
}

/// What was set.
pub fn get() -> Policy {
    match POLICY.load(Ordering::Relaxed) {
        1 => Policy::Abort,
        2 => Policy::Report,
        _ => Policy::Auto,
    }
}

/// After a report.
pub fn end() {
    if get() != Policy::Report {
        abort();
    }
}
