//! Floor 9: lets others read a yard and make requests: the header by which another process finds
//! all of the yard, the mailbox, the counts of a quiesced yard, and samples of a running one.

pub mod count;
pub(crate) mod quiesce;
pub mod sample;

pub use crate::quiesced::Quiesced;
