//! Decides what follows a report of misuse: the library aborts or continues, as `SLABYARD_ON_ERROR`
//! says.
//!
//! Neighbours: [`crate::misuse`] and caches with debugging report misuse.

use crate::text::abort;
use slabyard::sync::{AtomicU8, Ordering};
use slabyard_kernels::settings::choices::OnMisuse;

static POLICY: AtomicU8 = AtomicU8::new(OnMisuse::Auto as u8);

/// Sets it, as the option says.
pub fn set(wanted: Option<OnMisuse>) {
    POLICY.store(wanted.unwrap_or(OnMisuse::Auto) as u8, Ordering::Relaxed);
}

/// What was set.
pub fn get() -> OnMisuse {
    const ABORT: u8 = OnMisuse::Abort as u8;
    const REPORT: u8 = OnMisuse::Report as u8;
    match POLICY.load(Ordering::Relaxed) {
        ABORT => OnMisuse::Abort,
        REPORT => OnMisuse::Report,
        _ => OnMisuse::Auto,
    }
}

/// After a report.
pub fn end() {
    if get() != OnMisuse::Report {
        abort();
    }
}
