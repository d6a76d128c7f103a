//! The reasons why a core file cannot be read, and what to do about each.

use std::path::PathBuf;

/// One reason for each way in which a file is no core that can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{} is not a core file: {what}", path.display())]
    NotCore { path: PathBuf, what: String },
    /// Of a machine that is not read here.
    #[error(
        "{} is the core file of a {what} program; those of little-endian 64-bit programs \
         can be read",
        path.display()
    )]
    Machine { path: PathBuf, what: &'static str },
    #[error(
        "{} is truncated: it has {has} bytes and speaks of {wants}; make it again with room \
         enough (`ulimit -c unlimited`, or `gcore PID`)",
        path.display()
    )]
    Truncated {
        path: PathBuf,
        /// Bytes that it has.
        has: u64,
        /// Bytes that it should have.
        wants: u64,
    },
    #[error(
        "{} holds no yard: the program did not run on Slabyard, or its private memory was not \
         dumped (see coredump_filter)",
        path.display()
    )]
    NoYard { path: PathBuf },
    #[error(
        "the yard in {} has layout {found}; this slabyard reads {known}; use the slabyard that \
         came with its library",
        path.display()
    )]
    Layout {
        path: PathBuf,
        /// The version that was found.
        found: u64,
        /// The version that is known.
        known: u64,
    },
    #[error("the yard in {} is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
}
