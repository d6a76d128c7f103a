//! Makes a trace from others: [a part](cut) of one, [several merged](mod@merge), one without
//! [names](anonymous), or one with [the names of all caches](named).
//!
//! Each edit reads its input once ([`named`] reads it twice) and holds one chunk of it in memory.
//! So a file may be larger than the memory, if its header says where the machine's memory was
//! mapped. The caller copies a trace's attachments, because this module does not know what they
//! mean.

pub mod anonymous;
pub mod cut;
pub mod merge;
pub mod named;
mod renamed;

use crate::event::Event;
use crate::lists::{self, Lists};
use crate::trace::{Damage, Error, Frames, LISTS, Stream};
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
    #[error("trace {nth} does not tell its page size")]
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
        /// The page size that all the others must have, too.
        first: u32,
    },
    /// More than there is room for.
    #[error("no more than {0} traces can be put together")]
    TooMany(usize),
}

/// Where the memory of a trace's machine was mapped. Where its header does not say, as that of a
/// machine that allocated next to no slab while it was recorded, all events are read for it, and a
/// replay of the trace finds the same.
fn frames(stream: &mut Stream) -> Result<Frames, Error> {
    if let Some(frames) = stream.header().frames() {
        return Ok(frames);
    }
    let lists = stream.attached().iter().find(|attached| attached.name == LISTS);
    let lists = lists.and_then(|attached| lists::json::read(&attached.bytes));
    let page_shift = stream.header().page_shift();
    let events: &[Event] = stream.held()?;
    let slabs = lists.iter().flat_map(Lists::bases);
    Frames::find(events, slabs, page_shift).map(|(frames, _)| frames).ok_or(Error::Unmapped)
}

/// Events that damaged chunks contained count as lost in the new trace.
fn missing(stream: &Stream) -> u64 {
    stream.damaged().iter().filter_map(|damage| damage.events).fold(0, u64::saturating_add)
}
