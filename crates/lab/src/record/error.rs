//! The reasons why nothing can be recorded.

use super::tracefs;
use crate::trace;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why nothing can be recorded.
#[derive(Debug, Error)]
pub enum Error {
    /// The kernel shows its events to root alone.
    #[error("the kernel shows its events to root only ({path}: {error})")]
    NotAllowed {
        /// What could not be used.
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// Without it a kernel shows no events.
    #[error("this kernel has no tracefs (CONFIG_TRACING is off): {0}")]
    NoTracefs(io::Error),
    /// A file of tracefs.
    #[error("{path}: {error}")]
    File {
        /// As it was opened.
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// A kernel whose events do not tell enough.
    #[error("this kernel's event {event} {what}; kernels from 5.12 on tell all that is needed")]
    Event {
        /// Its name.
        event: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No room for the buffers.
    #[error("the kernel has no memory for buffers of {kib} KiB a CPU: give less with --buffer")]
    Buffers {
        /// The requested size.
        kib: u64,
    },
    /// A page of the ring buffer makes no sense.
    #[error("a page of CPU {cpu}'s ring buffer makes no sense: {what}")]
    Page {
        /// The CPU that wrote it.
        cpu: u16,
        /// What is wrong.
        what: &'static str,
    },
    /// The trace file.
    #[error(transparent)]
    Trace(#[from] trace::Error),
}

impl From<tracefs::Error> for Error {
    fn from(error: tracefs::Error) -> Error {
        match error {
            tracefs::Error::NoTracefs(error) => Error::NoTracefs(error),
            tracefs::Error::File { path, error } => Error::at(path, error),
        }
    }
}

impl Error {
    /// What went wrong with a file of tracefs.
    pub(super) fn at(path: impl Into<PathBuf>, error: io::Error) -> Error {
        let path = path.into();
        match error.kind() {
            io::ErrorKind::PermissionDenied => Error::NotAllowed { path, error },
            _ => Error::File { path, error },
        }
    }
}
