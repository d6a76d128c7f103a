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
//! 2. `Barn`: the two lists of sheaves of one cache, and how many full ones it keeps.
//! 3. `List`: the partial list of one cache; `listed` of each slab; who may take
//!    bits of a listed slab; that a slab ends.
//! 4. `Pool`: sheaves that nobody uses.
//! 5. `Grow`: the committed end of the region, until what is new is on the buddy's lists.
//! 6. `Pages`: the buddy's lists.
//!
//! No system call is made, and no other lock taken, under `Barn`, `List` or `Pages`.
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
//! slabs that begin in the region = `nr_slabs`; listed slabs = `nr_partial`;
//! `out` = objects - free.
//!
//! # Read from outside
//!
//! What another process reads of a cache, and the version rule by which it knows that
//! nothing moved meanwhile, is in [`shown`].

pub mod age;
pub mod alloc;
pub mod barn;
#[cfg(any(test, feature = "cpu-slab"))]
pub mod cpu_slab;
pub mod flush;
pub mod free;
pub mod node;
pub mod sheaf;
mod shown;
mod working_set;

pub use shown::Moving;

use crate::platform::Slot;
use crate::slab::Geometry;
use crate::sync::{AtomicU32, AtomicU64, Lock, Once, Ordering, Rank};
use core::fmt;
use shown::Shown;
use working_set::WorkingSet;

/// Distance from a cache's main slot to its spare slot.
pub const SPARE: u16 = slabyard_abi::region::row::SPARE as u16;

/// What is fixed when a cache begins.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Shape of its slabs.
    pub geometry: Geometry,
    /// Slot of its main sheaves.
    pub slot: u16,
    /// Objects in a full sheaf, until another number is set.
    pub sheaf_capacity: u32,
    /// Slab operations in one piece of work: see [`Self::MOST_PIECE`].
    pub piece: u32,
    /// Slab operations of a round's step: see [`Self::MOST_STEP`].
    pub step: u32,
}

impl Shape {
    /// A sheaf holds at most this many bytes of objects that are larger than
    /// [`Self::SMALL`], or [`Self::SHEAF_LEAST`] objects.
    pub const SHEAF_BYTES: u32 = 32 << 10;
    /// Objects of a cache line: of these a sheaf holds [`Self::SHEAF_OBJECTS`], which are
    /// little memory and are allocated most.
    pub const SMALL: u32 = 64;
    /// A sheaf holds at most this many objects.
    pub const SHEAF_OBJECTS: u32 = slabyard_abi::region::SHEAF_OBJECTS as u32;

    /// A sheaf has room for so many objects of any size.
    pub const SHEAF_LEAST: u32 = 8;

    /// What is to go home goes by pieces, one at a slow path, and so does what is taken
    /// out of many slabs: of at most so many slab operations, each of which may miss the
    /// caches two or three times. Few of large objects: their slabs have few objects.
    pub const MOST_PIECE: u32 = 8;
    const LEAST_PIECE: u32 = 2;
    /// A round has few steps for much, and most calls make none.
    pub const MOST_STEP: u32 = 32;
    /// Larger objects go one at a time, and past the sheaves.
    const LARGEST_IN_PIECES: u32 = 512;

    /// The shape for a geometry.
    #[must_use]
    pub fn new(geometry: Geometry, slot: u16) -> Self {
        let size = geometry.size;
        let sheaf_capacity = if size <= Self::SMALL {
            Self::SHEAF_OBJECTS
        } else {
            (Self::SHEAF_BYTES / size).max(Self::SHEAF_LEAST)
        };
        let step = (sheaf_capacity / 16).clamp(Self::LEAST_PIECE, Self::MOST_STEP);
        let piece = step.min(Self::MOST_PIECE);
        Shape { geometry, slot, sheaf_capacity, piece, step }
    }

    /// True for objects that go straight home where sheaves and barn are full: few lie in
    /// a slab, so that a piece of several would save little.
    #[inline]
    #[must_use]
    pub const fn goes_straight(&self) -> bool {
        self.geometry.size > Self::LARGEST_IN_PIECES
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
    shown: Shown,
    shape: Once<Shape>,
    barn: Lock<barn::Barn>,
    working_set: WorkingSet,
    partial: Lock<node::Partial>,
    /// Slow paths begun until the last round: tells an idle cache from a busy one.
    seen: AtomicU32,
}

impl Cache {
    /// A cache without a shape.
    #[must_use]
    pub const fn new() -> Self {
        Cache {
            shown: Shown::new(),
            shape: Once::new(),
            barn: Lock::new(Rank::Barn, barn::Barn::new()),
            working_set: WorkingSet::new(),
            partial: Lock::new(Rank::List, node::Partial::new()),
            seen: AtomicU32::new(0),
        }
    }

    /// Gives the cache its shape, once, before its first use.
    pub fn init(&self, name: impl fmt::Display, shape: Shape) {
        let (shown, geometry) = (&self.shown, &shape.geometry);
        let tell = |word: &AtomicU64, value: u32| word.store(value.into(), Ordering::Relaxed);
        tell(&shown.object_size, geometry.size);
        tell(&shown.slab_size, geometry.size);
        tell(&shown.order, geometry.order);
        tell(&shown.objects, geometry.objects);
        tell(&shown.sheaf_capacity, shape.sheaf_capacity);
        // SLUB: clamp(ilog2(size) / 2, 5, 10).
        tell(&shown.min_partial, (geometry.size.ilog2() / 2).clamp(5, 10));
        tell(&shown.barn_full_limit, barn::most_full(geometry.size));
        tell(&shown.barn_empty_limit, barn::MOST_EMPTY);
        shown.set_name(name);
        self.shape.set(shape);
        // Last: a reader outside knows by it that the cache is in use.
        shown.slot.store(shape.slot.into(), Ordering::Release);
    }

    /// Address of the words that others read (`abi::region::CacheWord`).
    pub fn shown_at(&self) -> usize {
        core::ptr::from_ref(&self.shown) as usize
    }

    /// Its shape.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.shape.get()
    }

    /// Slabs of the cache.
    pub fn nr_slabs(&self) -> u32 {
        self.shown.nr_slabs.load(Ordering::Relaxed) as u32
    }

    /// True with more than a few slabs: more objects, and new slabs, are made ready at a
    /// time.
    pub(super) fn is_busy(&self) -> bool {
        self.nr_slabs() >= 4
    }

    /// Slabs that stay on the partial list although they are empty.
    pub fn min_partial(&self) -> u32 {
        self.shown.min_partial.load(Ordering::Relaxed) as u32
    }

    /// Changes `min_partial`; holds from the next free on.
    pub fn set_min_partial(&self, slabs: u32) {
        self.shown.min_partial.store(slabs.into(), Ordering::Relaxed);
    }

    /// Objects in a full sheaf.
    pub fn sheaf_capacity(&self) -> u32 {
        self.shown.sheaf_capacity.load(Ordering::Relaxed) as u32
    }

    /// Changes the sheaves' capacity, at most [`Shape::SHEAF_OBJECTS`]: holds for each
    /// stack from its next slow path on.
    pub fn set_sheaf_capacity(&self, objects: u32) {
        let objects = objects.clamp(1, Shape::SHEAF_OBJECTS);
        self.shown.sheaf_capacity.store(objects.into(), Ordering::Relaxed);
    }

    /// Objects that left their slabs: live, parked or in transit.
    pub fn out(&self) -> u64 {
        self.shown.out.load(Ordering::Relaxed)
    }

    /// A slow path that moves objects of this cache begins; it ends with the value.
    pub fn moving(&self) -> Moving<'_> {
        Moving::new(&self.shown)
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}
