//! The number of a grace period, the state of the current one, and the bits of the epoch word and of
//! a place's word, which the head of [`super`] draws.
//!
//! Neighbour: [`super::periods`] starts and ends grace periods.

/// The bits of sections in a place's word: this many nest, less one.
pub(super) const NEST: u64 = (1 << 14) - 1;
/// In the epoch word: readers make fences of their own.
pub(super) const FENCED: u64 = 1 << 14;
/// In both words always, so that the word of a place that is taken is not 0.
pub(super) const TAKEN: u64 = 1 << 15;
pub(super) const EPOCH_SHIFT: u32 = 16;

/// A grace period waits so long where a reader may not know that it must make fences. A CPU
/// delivers a store in less than a microsecond.
pub const DELIVERY_MS: u64 = 10;

/// Names a grace period: it ends after all sections that were open when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub(super) u64);

impl Epoch {
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    /// The epoch of a number.
    pub(crate) const fn of(number: u64) -> Self {
        Epoch(number)
    }
}

/// The grace period under way.
pub(super) struct Grace {
    /// Its epoch; 0 if none is under way.
    pub(super) epoch: u64,
    /// The places in front of this one have no section that it waits for.
    pub(super) next: usize,
    /// It looks at no place before this time, in milliseconds.
    pub(super) looks_at: u64,
}

impl Grace {
    pub(super) const fn new() -> Self {
        Grace { epoch: 0, next: 0, looks_at: 0 }
    }
}
