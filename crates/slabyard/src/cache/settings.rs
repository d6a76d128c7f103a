//! The settings of a created cache.

use crate::engine::{CacheFlags, Shape};
use crate::slab::{Geometry, ObjectFn};
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::engines::EngineName;

/// What a cache is made for.
#[derive(Clone, Copy, Debug)]
pub struct CacheSettings {
    /// Bytes of an object.
    pub object: u32,
    /// Its alignment, a power of two.
    pub align: u32,
    /// Where the first object begins in a slab, at least.
    pub first: u32,
    /// Called for each object of a slab as the slab is allocated, not at allocations of the object.
    pub constructor: Option<ObjectFn>,
    /// Called for each object of a slab as the slab is discarded, not at frees.
    pub destructor: Option<ObjectFn>,
    /// What is asked of the objects.
    pub flags: CacheFlags,
    /// Objects in a full sheaf; else as many as objects of this size have by default.
    pub sheaf_capacity: Option<u32>,
    /// Empty slabs that the partial list keeps; else SLUB's number for the size.
    pub min_partial: Option<u32>,
    /// A slab has 2^order granules, at least and at most. A page of the machine is the least,
    /// whatever is set.
    pub orders: (u32, u32),
    /// The engine, where a yard may have several; else that of malloc's classes.
    pub engine: Option<EngineName>,
    /// Debugging, where the yard's engines have it.
    pub debug: DebugFlags,
}

/// Bytes of a cache line.
const LINE: u32 = 64;

impl CacheSettings {
    /// Objects of this many bytes, aligned to a word.
    #[must_use]
    pub const fn of(object: u32) -> Self {
        CacheSettings {
            object,
            align: 8,
            first: 0,
            constructor: None,
            destructor: None,
            flags: CacheFlags::NONE,
            sheaf_capacity: None,
            min_partial: None,
            orders: (0, Geometry::LARGEST_ORDER),
            engine: None,
            debug: DebugFlags::NONE,
        }
    }

    /// The geometry, on a machine whose pages are of this order in granules; `None` if these are
    /// no objects for slabs, or not for slabs of these orders.
    #[must_use]
    pub const fn geometry(&self, page_order: u32) -> Option<Geometry> {
        let (least, most) = self.limits(page_order);
        Geometry::fitting_within(self.object, self.aligned(), self.first, least, most)
    }

    /// The least and the largest order, on a machine whose pages are of this order.
    pub(crate) const fn limits(&self, page_order: u32) -> (u32, u32) {
        let (least, most) = self.orders;
        let least = if least < page_order { page_order } else { least };
        (least, if most < page_order { page_order } else { most })
    }

    /// The alignment, by the flags too.
    const fn aligned(&self) -> u32 {
        let mut line = LINE;
        while line > 8 && self.object <= line / 2 {
            line /= 2;
        }
        let by_lines = self.flags.has(CacheFlags::HWCACHE_ALIGN);
        if by_lines && self.align < line && self.align.is_power_of_two() {
            line
        } else {
            self.align
        }
    }

    /// The shape of a cache with a geometry in a slot.
    pub(crate) fn shape(&self, geometry: Geometry, slot: u16) -> Shape {
        let shape = match self.sheaf_capacity {
            Some(objects) => Shape::with_stacks_of(geometry, slot, objects),
            None => Shape::new(geometry, slot),
        };
        let Self { constructor, destructor, flags, .. } = *self;
        Shape { constructor, destructor, flags, ..shape }
    }
}
