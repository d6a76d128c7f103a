//! One slab of the traced kernel.
//!
//! [`super`] finds the slabs; the passes after it number their objects. Invariant: objects of a slab
//! have consecutive numbers.

use super::super::input::{CacheFacts, CacheNumber};
use std::ops::Range;

/// One slab of the kernel's, from its opening to its closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// Number of its first page frame.
    pub frame: u64,
    /// When its pages were allocated; for an initial slab, when it was first seen.
    pub opened_at: u64,
    /// When its pages were freed.
    pub closed_at: Option<u64>,
    /// The CPU that freed them, as far as an event shows.
    pub closed_by: Option<u16>,
    /// Number of its first object; the others follow. Where [`super::super::Steps`] are not held in
    /// memory this is for initial slabs alone, as the numbers of ended slabs are used again.
    pub first_object: u32,
    /// How many it has room for.
    pub objects: u32,
    /// By its index in the trace's caches.
    pub cache: CacheNumber,
    /// Its order: the cache's, or a lower one if memory was short.
    pub order: u8,
    /// It existed when the trace began.
    pub initial: bool,
}

impl Slab {
    /// One object, and there from the trace's start to its end: what tests begin with.
    #[cfg(test)]
    pub(crate) const ONE: Slab = Slab {
        frame: 0,
        opened_at: 0,
        closed_at: None,
        closed_by: None,
        first_object: 0,
        objects: 1,
        cache: 0,
        order: 0,
        initial: true,
    };

    /// Its objects' numbers.
    #[must_use]
    pub fn objects_range(&self) -> Range<usize> {
        let first = self.first_object as usize;
        first..first + self.objects as usize
    }
}

/// How many objects of a cache a slab of an order holds.
pub(super) fn objects_at(facts: &CacheFacts, order: u8, page_shift: u32) -> u32 {
    if order == facts.order {
        return facts.objects;
    }
    ((1u64 << (page_shift + u32::from(order))) / u64::from(facts.slab_size)) as u32
}
