//! SLUB with its sheaves front.
//!
//! Containers of a cache, from the fast path down: each CPU's main and spare
//! [sheaf](sheaf), the node's [barn] of full and empty sheaves, the node's list
//! of partial slabs ([`node`]), the pages below. Walks: "I am a malloc(64)
//! call" comes through [`alloc`], "I am a freed object" through [`free`].
//!
//! # Lock order ([`crate::sync::Rank`], asserted in debug builds)
//!
//! 1. `Drain`: one thread at a time stops other CPUs' stacks ([`age`]).
//! 2. `Barn`: the two lists of sheaves of one cache.
//! 3. `List`: the partial list of one cache; `listed` of each slab; who may take
//!    bits of a listed slab; that a slab ends.
//! 4. `Pool`: sheaves that nobody uses.
//! 5. `Grow`: the committed end of the region.
//! 6. `Pages`: the buddy's lists.
//!
//! No system call is made under `Barn`, `List` or `Pages`.
//!
//! # States of a slab
//!
//! | state | free objects | listed | who may take bits |
//! |---|---|---|---|
//! | new | all | no | the thread that made it |
//! | partial | 1 to all - 1 | yes | holder of the list lock |
//! | full | 0 | no | nobody: there are none |
//! | empty, kept | all | yes | holder of the list lock |
//! | passing | 1 to all | no | nobody: a `put` is on its way to list or end it |
//!
//! A slab that is empty with `min_partial` slabs on the list ends under the list
//! lock; its run goes to the pages behind it.
//!
//! # Equations (asserted by `verify`)
//!
//! For each slab: free + parked + in transit + live = objects. For each cache:
//! slabs that begin in the region = `nr_slabs`; listed slabs = `nr_partial`.

pub mod age;
pub mod alloc;
pub mod barn;
#[cfg(any(test, feature = "machine"))]
pub mod cpu_slab;
pub mod free;
pub mod node;
pub mod sheaf;

use crate::platform::Slot;
use crate::slab::Geometry;
use crate::sync::{AtomicU32, Lock, Once, Ordering, Rank};

/// Distance from a cache's main slot to its spare slot.
pub const SPARE: u16 = 128;

/// What is fixed when a cache begins.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Shape of its slabs.
    pub geometry: Geometry,
    /// Slot of its main sheaves.
    pub slot: u16,
    /// Objects in a full sheaf.
    pub sheaf_capacity: u32,
}

impl Shape {
    /// A sheaf holds at most this many bytes of objects (or one object); twice as many
    /// of small objects.
    pub const SHEAF_BYTES: u32 = 32 << 10;
    /// A sheaf holds at most this many objects.
    pub const SHEAF_OBJECTS: u32 = 1022;

    /// The shape for a geometry.
    #[must_use]
    pub fn new(geometry: Geometry, slot: u16) -> Self {
        let size = geometry.size;
        // Small objects come and go in larger numbers: more of them, up to twice the
        // bytes at 64 bytes and below.
        let bytes = 128 * Self::SHEAF_BYTES / size;
        let bytes = bytes.clamp(Self::SHEAF_BYTES, 2 * Self::SHEAF_BYTES);
        let sheaf_capacity = (bytes / size).clamp(1, Self::SHEAF_OBJECTS);
        Shape { geometry, slot, sheaf_capacity }
    }

    /// Slot of the main sheaf.
    #[inline]
    #[must_use]
    pub const fn main(&self) -> Slot {
        Slot(self.slot)
    }

    /// Slot of the spare sheaf.
    #[inline]
    #[must_use]
    pub const fn spare(&self) -> Slot {
        Slot(self.slot + SPARE)
    }
}

/// One cache: objects of one geometry.
pub struct Cache {
    shape: Once<Shape>,
    barn: Lock<barn::Barn>,
    partial: Lock<node::Partial>,
    nr_slabs: AtomicU32,
    min_partial: AtomicU32,
    /// Slow paths taken: tells an idle cache from a busy one.
    visits: AtomicU32,
    /// `visits` at the last tick.
    seen: AtomicU32,
}

impl Cache {
    /// A cache without a shape.
    #[must_use]
    pub const fn new() -> Self {
        Cache {
            shape: Once::new(),
            barn: Lock::new(Rank::Barn, barn::Barn::new()),
            partial: Lock::new(Rank::List, node::Partial::new()),
            nr_slabs: AtomicU32::new(0),
            min_partial: AtomicU32::new(0),
            visits: AtomicU32::new(0),
            seen: AtomicU32::new(0),
        }
    }

    /// Gives the cache its shape, once, before its first use.
    pub fn init(&self, shape: Shape) {
        // SLUB: clamp(ilog2(size) / 2, 5, 10).
        let min_partial = (shape.geometry.size.ilog2() / 2).clamp(5, 10);
        self.min_partial.store(min_partial, Ordering::Relaxed);
        self.shape.set(shape);
    }

    /// Its shape.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.shape.get()
    }

    /// Slabs of the cache.
    pub fn nr_slabs(&self) -> u32 {
        self.nr_slabs.load(Ordering::Relaxed)
    }

    /// Slabs that stay on the partial list although they are empty.
    pub fn min_partial(&self) -> u32 {
        self.min_partial.load(Ordering::Relaxed)
    }

    /// Changes `min_partial`; holds from the next free on.
    pub fn set_min_partial(&self, slabs: u32) {
        self.min_partial.store(slabs, Ordering::Relaxed);
    }

    fn visit(&self) {
        // Not exact between CPUs: it only has to move.
        let visits = self.visits.load(Ordering::Relaxed);
        self.visits.store(visits.wrapping_add(1), Ordering::Relaxed);
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}
