//! Prints what a source could not read, and why, at the end of a list or of one cache's view.

use super::cell;
use crate::snapshot::Snapshot;
use std::io::{self, Write};

/// Writes one line for each of [`Snapshot::missing`], under an empty line; nothing if there is none.
pub(super) fn write(out: &mut dyn Write, snapshot: &Snapshot) -> io::Result<()> {
    if !snapshot.missing.is_empty() {
        writeln!(out)?;
    }
    for missing in &snapshot.missing {
        writeln!(out, "not read: {}: {}", cell::clean(&missing.what), cell::clean(&missing.why))?;
    }
    Ok(())
}
