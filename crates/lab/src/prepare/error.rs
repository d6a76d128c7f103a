//! The errors that end the preparation. [`super::Oddities`] counts inconsistencies that do not end
//! it.

use super::input::{MAX_ORDER, NO_CACHE};

/// Why nothing can be prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// See the text.
    #[error("{0} caches: at most {max} can be told apart", max = NO_CACHE)]
    TooManyCaches(usize),
    /// See the text.
    #[error("cache {id}: {what}; take the snapshot again")]
    Facts {
        /// The cache.
        id: String,
        /// What is wrong.
        what: &'static str,
    },
    /// See the text.
    #[error("a page shift of {0}: 12 (4 KiB) to 16 (64 KiB) are known")]
    PageShift(u32),
    /// See the text.
    #[error("event {event} has pages of order {order}: at most {max} is possible",
            max = MAX_ORDER)]
    PageOrder {
        /// Place in the trace.
        event: usize,
        /// As the event has it: higher than any that the kernel has.
        order: u8,
    },
    /// The trace's file.
    #[error("cannot read the trace: {0}")]
    Read(String),
    /// See the text.
    #[error("the trace is too long: {0} do not fit 32 bits; cut it")]
    TooLong(&'static str),
}

impl From<crate::trace::Error> for Error {
    fn from(error: crate::trace::Error) -> Error {
        Error::Read(error.to_string())
    }
}
