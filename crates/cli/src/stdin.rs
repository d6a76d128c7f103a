//! Standard input in place of a file: defines its name, and reads kernels' snapshots from it.
//!
//! Neighbour: `observe::source` itself accepts `-` as a SOURCE.

use slabyard_lab::snapshot::{Error, KernelSnapshot};
use std::io::{self, Read};
use std::path::Path;

/// In place of a file's name: standard input, or output.
pub const DASH: &str = "-";

/// True for the name of standard input.
pub fn is_meant(file: &Path) -> bool {
    file == Path::new(DASH)
}

/// A file as it is named to people.
pub fn shown(file: &Path) -> String {
    if is_meant(file) { "standard input".into() } else { file.display().to_string() }
}

/// Kernels' snapshots of a file, or from standard input.
pub fn snapshots(file: &Path) -> Result<Vec<KernelSnapshot>, Error> {
    if !is_meant(file) {
        return KernelSnapshot::open(file);
    }
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Error::Read { path: file.into(), error })?;
    KernelSnapshot::parse(&bytes)
}
