//! The reasons why a kernel's slab lists cannot be read.

use std::io;
use thiserror::Error;

/// An address whose memory cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the kernel's memory at {0:#x} cannot be read")]
pub struct Unreadable(pub u64);

/// Why lists cannot be read here.
#[derive(Debug, Error)]
pub enum ListsError {
    /// No description of the kernel's structures.
    #[error(
        "the kernel does not describe its structures ({path}: {error}; it takes CONFIG_DEBUG_INFO_BTF)"
    )]
    NoTypes {
        /// Which file.
        path: &'static str,
        /// What the kernel or the parser says.
        error: String,
    },
    /// A kernel with other structures.
    #[error("this kernel has no `{0}`")]
    NoField(&'static str),
    /// A system call was refused.
    #[error("bpf(2) was refused ({step}): {error}")]
    Refused {
        /// What was asked.
        step: &'static str,
        /// What the kernel says.
        error: io::Error,
    },
    /// Another source that is not there.
    #[error("{0}")]
    Missing(String),
    /// Memory that a list leads to.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// It changed while it was read, or makes no sense.
#[derive(Debug)]
pub(super) struct ChangedMeanwhile;

impl From<Unreadable> for ChangedMeanwhile {
    fn from(_: Unreadable) -> ChangedMeanwhile {
        ChangedMeanwhile
    }
}
