//! SLUB with its sheaves front.
//!
//! A cache is a chain of containers, from the fast path down: each CPU's main and spare
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
//! 4. `Pool`: the free sheaves, in no entry and no barn.
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
//! | full | 0 | no | no thread: there are none |
//! | empty, kept | all | yes | holder of the list lock |
//! | passing | 1 to all | no | no thread: the one whose `put` changed it is about to list or end it |
//!
//! A slab that is empty with `min_partial` slabs on the list ends under the list
//! lock; its run is freed to the page heap after the lock is released.
//!
//! # Equations (asserted by `verify`)
//!
//! For each slab: free + parked + in transit + live = objects. For each cache:
//! slabs that begin in the region = `nr_slabs`; listed slabs = `nr_partial`;
//! `out` = objects - free.
//!
//! # Read from outside
//!
//! [`shown`] has the words that another process reads of a cache, and the version rule by
//! which it knows that nothing moved meanwhile.

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
    /// Slab operations of one slice of a reclaim pass: see [`Self::MOST_SLICE`].
    pub slice: u32,
}

impl Shape {
    /// A sheaf holds at most this many bytes of objects that are larger than
    /// [`Self::SMALL`], or [`Self::SHEAF_LEAST`] objects.
    pub const SHEAF_BYTES: u32 = 32 << 10;
    /// Objects of at most a cache line: of these a sheaf holds [`Self::SHEAF_OBJECTS`],
    /// because they take little memory and programs allocate them most.
    pub const SMALL: u32 = 64;
    /// A sheaf holds at most this many objects.
    pub const SHEAF_OBJECTS: u32 = slabyard_abi::region::SHEAF_OBJECTS as u32;

    /// A sheaf has room for at least this many objects of any size.
    pub const SHEAF_LEAST: u32 = 8;

    /// A slow path flushes objects to slabs, or takes them out of many slabs, in one piece
    /// of at most so many slab operations: each may miss the CPU's caches two or three
    /// times. A piece of large objects is smaller: their slabs have few objects.
    pub const MOST_PIECE: u32 = 8;
    const LEAST_PIECE: u32 = 2;
    /// A slice of a reclaim pass makes more operations than a piece: a pass has few slices
    /// for much work, and most calls run none.
    pub const MOST_SLICE: u32 = 32;
    /// Where sheaves and barn are full, larger objects bypass the sheaves, one at a time.
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
        let slice = (sheaf_capacity / 16).clamp(Self::LEAST_PIECE, Self::MOST_SLICE);
        let piece = slice.min(Self::MOST_PIECE);
        Shape { geometry, slot, sheaf_capacity, piece, slice }
    }

    /// True for objects that a free returns to their slab directly where sheaves and barn
    /// are full: few lie in a slab, so that a piece of several would save little.
    #[inline]
    #[must_use]
    pub const fn may_bypass(&self) -> bool {
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
    /// Slow paths begun until the last reclaim pass: the next pass finds the cache idle if
    /// the number is still the same.
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
        let set = |word: &AtomicU64, value: u32| word.store(value.into(), Ordering::Relaxed);
        set(&shown.object_size, geometry.size);
        set(&shown.slab_size, geometry.size);
        set(&shown.order, geometry.order);
        set(&shown.objects, geometry.objects);
        set(&shown.sheaf_capacity, shape.sheaf_capacity);
        // SLUB: clamp(ilog2(size) / 2, 5, 10).
        set(&shown.min_partial, (geometry.size.ilog2() / 2).clamp(5, 10));
        set(&shown.barn_full_limit, barn::most_full(geometry.size));
        set(&shown.barn_empty_limit, barn::MOST_EMPTY);
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

    /// True with more than a few slabs: then a refill takes more objects, and makes new
    /// slabs ahead of need.
    pub(super) fn is_busy(&self) -> bool {
        self.nr_slabs() >= 4
    }

    /// Slabs that stay on the partial list although they are empty.
    pub fn min_partial(&self) -> u32 {
        self.shown.min_partial.load(Ordering::Relaxed) as u32
    }

    /// Changes `min_partial`, from the next free on.
    pub fn set_min_partial(&self, slabs: u32) {
        self.shown.min_partial.store(slabs.into(), Ordering::Relaxed);
    }

    /// Objects in a full sheaf.
    pub fn sheaf_capacity(&self) -> u32 {
        self.shown.sheaf_capacity.load(Ordering::Relaxed) as u32
    }

    /// Changes the sheaves' capacity, at most [`Shape::SHEAF_OBJECTS`]: each stack takes it
    /// over in its next slow path.
    pub fn set_sheaf_capacity(&self, objects: u32) {
        let objects = objects.clamp(1, Shape::SHEAF_OBJECTS);
        self.shown.sheaf_capacity.store(objects.into(), Ordering::Relaxed);
    }

    /// Objects that left their slabs: live, parked or in transit.
    pub fn out(&self) -> u64 {
        self.shown.out.load(Ordering::Relaxed)
    }

    /// Marks that a slow path that moves objects of this cache is under way, until the
    /// value is dropped.
    pub fn moving(&self) -> Moving<'_> {
        Moving::new(&self.shown)
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}
