//! Turns SIGINT, SIGTERM and SIGHUP into an error, so that destructors run: they restore the
//! kernel's THP setting and delete the unpacked files.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result, bail};

// Relaxed: the flag alone is read, nothing is published with it.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Turns SIGINT, SIGTERM and SIGHUP into a flag.
pub fn watch() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Relaxed)).context("signal handler")
}

/// Fails if the user wants an end; asked between two measurements.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
