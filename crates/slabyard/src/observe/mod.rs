//! Floor 9: what others read of a yard, and request of it: the header by which another process
//! finds all of it, the mailbox, the counts of a yard that stands still, and samples of one that
//! runs.

pub mod count;
pub(crate) mod quiesce;
pub mod sample;

pub use crate::quiesced::Quiesced;
