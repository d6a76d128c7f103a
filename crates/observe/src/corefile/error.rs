//! Why a core file cannot be read, and what to do.

use std::path::PathBuf;

/// One reason for each way in which a file is no core that can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is something else.
    #[error("{} is not a core file: {what}", path.display())]
    NotCore {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// Of a machine that is not read here.
    #[error(
        "{} is the core file of a {what} program; those of little-endian 64-bit programs \
         can be read",
        path.display()
    )]
    Machine {
        /// The file.
        path: PathBuf,
        /// Which.
        what: &'static str,
    },
    /// It ends too early.
    #[error(
        "{} is truncated: it has {has} bytes and speaks of {wants}; make it again with room \
         enough (`ulimit -c unlimited`, or `gcore PID`)",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that it has.
        has: u64,
        /// Bytes that it should have.
        wants: u64,
    },
    /// No yard in it.
    #[error(
        "{} holds no yard: the program did not run on Slabyard, or its private memory was not \
         dumped (see coredump_filter)",
        path.display()
    )]
    NoYard {
        /// The file.
        path: PathBuf,
    },
    /// Of another version.
    #[error(
        "the yard in {} has layout {found}; this slabyard reads {known}; use the slabyard that \
         came with its library",
        path.display()
    )]
    Layout {
        /// The file.
        path: PathBuf,
        /// The version that was found.
        found: u64,
        /// The version that is known.
        known: u64,
    },
    /// Numbers that cannot be.
    #[error("the yard in {} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
}
