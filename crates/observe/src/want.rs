//! How much of a source to read.
//!
//! Neighbours: each source takes this as an argument; commands derive it from their flags.

/// What to read beyond the plain columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadScope {
    /// Every attribute; else what the plain columns need.
    pub all: bool,
    /// Each slab that is not full, one by one.
    pub slabs: bool,
}
