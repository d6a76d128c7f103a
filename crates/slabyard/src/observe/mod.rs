//! Floor 9: what others see of a yard, and ask of it: the header by which another process finds
//! everything, the mailbox, the counts of a yard that stands still, and samples of one that runs.

pub mod count;
pub(crate) mod quiesce;
pub mod sample;

pub use crate::quiesced::Quiesced;
