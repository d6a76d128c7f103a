//! Floor 5: what others see of a yard, and ask of it: the header by which another process finds
//! everything, the mailbox, and the counts of a yard that stands still.

pub mod count;
mod empties;
mod header;
mod mailbox;
mod quiesce;

pub use mailbox::Relief;
pub use quiesce::Quiesced;
