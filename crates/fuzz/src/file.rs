//! A file that holds the fuzzer's bytes, for readers that take a path.
//!
//! Neighbours: every target. Invariant: the file is gone when its value is.

use std::io::Write;
use std::path::Path;
use tempfile::{Builder, NamedTempFile};

/// A file of these bytes, whose name ends as said: some readers look at it. It is in memory where
/// the system has such a directory.
///
/// # Panics
/// It cannot be written: no fault of a reader.
pub fn holding(bytes: &[u8], suffix: &str) -> NamedTempFile {
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
    let file = Builder::new().prefix("slabyard-fuzz-").suffix(suffix).tempfile_in(directory);
    let mut file = file.expect("a temporary file can be made");
    file.write_all(bytes).expect("the temporary file can be written");
    file
}
