//! A run that failed: it is said, and leaves its place empty.

use anyhow::Result;
use indicatif::ProgressBar;

/// Says why a run failed, and goes on without it.
pub fn reported<T>(run: Result<T>, bar: &ProgressBar, load: &str, allocator: &str) -> Option<T> {
    if let Err(error) = &run {
        bar.suspend(|| eprintln!("slabyard-bench: {load} on {allocator}: {error:#}"));
    }
    run.ok()
}
