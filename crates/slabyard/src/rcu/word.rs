//! The bits of the epoch word and of a place's word.
//!
//! Neighbour: the head of [`super`] draws them.

/// The bits of sections in a place's word: this many nest, less one.
pub(super) const NEST: u64 = (1 << 14) - 1;
/// In the epoch word: readers make fences of their own.
pub(super) const FENCED: u64 = 1 << 14;
/// In both words always, so that the word of a place that is taken is not 0.
pub(super) const TAKEN: u64 = 1 << 15;
pub(super) const EPOCH_SHIFT: u32 = 16;
