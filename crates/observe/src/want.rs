//! How much of a source is read.
//!
//! Neighbours: each source takes one; commands make it from their flags.

/// What to read beyond the plain columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadScope {
    /// Every attribute; else what the plain columns need.
    pub all: bool,
    /// Each slab that is not full, one by one.
    pub slabs: bool,
}
