//! Makes a trace of another one: [a part](cut) of it, [several together](mod@merge), or one that
//! [names nothing](anonymous), or [all caches](named).
//!
//! Each passes through its input (the last one twice) and holds a chunk of it; a file may be larger than the
//! memory. What is attached to a trace is the caller's to write: what is in it is not known here.

pub mod anonymous;
pub mod cut;
pub mod merge;
pub mod named;
mod renamed;

use crate::trace::{Damage, Error, Stream};
use thiserror::Error as ThisError;

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Events that were read.
    pub read: u64,
    /// Events that were written.
    pub written: u64,
    /// Time of the last one.
    pub last: u64,
    /// What could not be read.
    pub damaged: Vec<Damage>,
}

/// Why traces cannot be put together.
#[derive(Debug, ThisError)]
pub enum MergeError {
    /// One of them, or the file to be written.
    #[error(transparent)]
    Trace(#[from] Error),
    /// What addresses mean is not known.
    #[error("trace {nth} does not tell its page size or where its memory is mapped")]
    Addresses {
        /// From 1.
        nth: usize,
    },
    /// Pages of two sizes.
    #[error("trace {nth} has pages of {found} bytes, the first one pages of {first}")]
    Pages {
        /// From 1.
        nth: usize,
        /// Its page size.
        found: u32,
        /// That of the first.
        first: u32,
    },
    /// More than there is room for.
    #[error("no more than {0} traces can be put together")]
    TooMany(usize),
}

/// Events that damaged chunks took count as lost in what is made of them.
fn missing(stream: &Stream) -> u64 {
    stream.damaged().iter().filter_map(|damage| damage.events).sum()
}
