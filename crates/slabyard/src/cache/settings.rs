//! The settings of a created cache.

use crate::slab::{Constructor, Geometry};

/// What a cache is made for.
#[derive(Clone, Copy, Debug)]
pub struct CacheSettings {
    /// Bytes of an object.
    pub object: u32,
    /// Its alignment, a power of two.
    pub align: u32,
    /// Where the first object begins in a slab, at least.
    pub first: u32,
    /// Makes the objects of each new slab.
    pub constructor: Option<Constructor>,
}

impl CacheSettings {
    /// Objects of so many bytes, aligned to a word.
    #[must_use]
    pub const fn of(object: u32) -> Self {
        CacheSettings { object, align: 8, first: 0, constructor: None }
    }

    /// The geometry, on a machine whose pages are of this order in granules; `None` if these are
    /// no objects for slabs.
    #[must_use]
    pub const fn geometry(&self, page_order: u32) -> Option<Geometry> {
        Geometry::fitting(self.object, self.align, self.first, page_order)
    }
}
