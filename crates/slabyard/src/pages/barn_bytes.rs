//! The bytes that the full sheaves of all barns hold, and their limit: one number for the yard,
//! since all caches share its memory.
//!
//! Neighbours: the sheaf engine counts these bytes; reclaim passes flush the excess.
//! Invariant: while no thread is in a slow path, `parked` equals the sum of all barns' bytes
//! ([`crate::verify`]).

use crate::sync::{AtomicUsize, Ordering};

/// Most bytes that the barns of a yard hold together, until another number is set.
pub const NODE_LIMIT: usize = 16 << 20;

/// What the barns of a yard hold together, and its limit.
pub struct BarnBytes {
    /// Bytes in full sheaves: bounded by [`BarnBytes::limit`].
    pub parked: AtomicUsize,
    limit: AtomicUsize,
}

impl BarnBytes {
    pub(super) const fn new() -> Self {
        BarnBytes { parked: AtomicUsize::new(0), limit: AtomicUsize::new(NODE_LIMIT) }
    }

    /// Most bytes that the barns hold together.
    #[inline]
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes that limit; the next reclaim passes flush what is above it.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Address of the limit.
    pub(super) fn limit_at(&self) -> usize {
        self.limit.as_ptr() as usize
    }
}
