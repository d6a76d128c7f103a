//! The state that every cache has, whatever its engine: its shape, the words that readers see, the
//! partial list, and whether it is idle.
//!
//! Neighbours: [`super::shown`] has the words, [`super::partial`] the list; an engine keeps its own
//! state beside this.

use super::flags::CacheFlags;
use super::shown::PublishedWords;
use crate::engine::partial_list::Partial;
use crate::pages::sheaf::NO_SHEAF;
use crate::platform::Slot;
use crate::slab::{Geometry, ObjectFn};
use crate::sync::{AtomicU32, AtomicU64, Lock, Once, Ordering, Rank};
use core::fmt;
use slabyard_abi::region::CacheWord;

/// Distance from a cache's main slot to its spare slot.
pub const SPARE: u16 = slabyard_abi::region::row::SPARE as u16;

/// The largest slab of a kernel: order 3.
const KERNEL_SLAB: usize = 32 << 10;
/// Bytes of the empty slabs that a list keeps of larger ones, until another number of slabs is set:
/// their pages serve each other cache.
/// With `min_partial` empty slabs of up to 256 KiB, 200 buffers that grow to 40 KB left 9 MB in
/// empty slabs beside 8.7 MB live (`ci/growth-by-hand`, `turns_200_100_40k`).
const MOST_EMPTY: usize = 64 << 10;

/// What is fixed when a cache begins.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Shape of its slabs.
    pub geometry: Geometry,
    /// Makes the objects of each new slab.
    pub constructor: Option<ObjectFn>,
    /// Ends the objects of each discarded slab.
    pub destructor: Option<ObjectFn>,
    /// What its maker asked of its objects.
    pub flags: CacheFlags,
    /// Slot of its main stacks.
    pub slot: u16,
    /// Objects in a full stack, until another number is set.
    pub stack_objects: u32,
    /// Slab operations in one piece of work: see [`Self::MOST_PIECE`].
    pub piece: u32,
    /// Slab operations of one slice of a reclaim pass: see [`Self::MOST_SLICE`].
    pub slice: u32,
}

impl Shape {
    /// A stack holds at most this many bytes of objects that are larger than
    /// [`Self::SMALL`], or [`Self::STACK_LEAST`] objects.
    /// With 64 KiB, whose main and spare stacks two CPUs fill by chance, a Larson-like load grew by
    /// 1250 to 1400 KiB in ten million cycles, with 32 KiB by 780 (a606596).
    pub const STACK_BYTES: u32 = 32 << 10;
    /// Objects of at most a cache line: of these a stack holds [`Self::STACK_OBJECTS`],
    /// because they take little memory and programs allocate them most.
    pub const SMALL: u32 = 64;
    /// A stack holds at most this many objects. SLUB 6.18 has 32. With 254, stacks of 1000 objects
    /// took 1.03 to 1.06 of mimalloc's time, with 1022 they take 1.00 to 1.04 (9c63f82).
    pub const STACK_OBJECTS: u32 = slabyard_abi::region::SHEAF_OBJECTS as u32;

    /// A stack has room for at least this many objects of any size.
    pub const STACK_LEAST: u32 = 8;

    /// A slow path flushes objects to slabs, or takes them out of many slabs, in one piece
    /// of at most this many slab operations: each may miss the CPU's caches two or three
    /// times. A piece of large objects is smaller: their slabs have few objects.
    /// With 32, p99.9 of `free` in four threads was 1440 to 1570 ns instead of 1250 (61ec904).
    pub const MOST_PIECE: u32 = 8;
    const LEAST_PIECE: u32 = 2;
    /// A slice of a reclaim pass makes more operations than a piece: a pass has few slices
    /// for much work, and most calls run none.
    pub const MOST_SLICE: u32 = 32;
    /// Where sheaves and barn are full, larger objects bypass the sheaves, one at a time.
    /// Their exchanges took longer than what they saved, because few such objects are in one slab.
    const LARGEST_IN_PIECES: u32 = 512;

    /// The shape for a geometry.
    #[must_use]
    pub fn new(geometry: Geometry, slot: u16) -> Self {
        let size = geometry.size;
        let stack_objects = if size <= Self::SMALL {
            Self::STACK_OBJECTS
        } else {
            (Self::STACK_BYTES / size).max(Self::STACK_LEAST)
        };
        Self::with_stacks_of(geometry, slot, stack_objects)
    }

    /// The shape for a geometry, whose full stacks have this many objects.
    #[must_use]
    pub fn with_stacks_of(geometry: Geometry, slot: u16, objects: u32) -> Self {
        let stack_objects = objects.clamp(1, Self::STACK_OBJECTS);
        let slice = (stack_objects / 16).clamp(Self::LEAST_PIECE, Self::MOST_SLICE);
        let piece = slice.min(Self::MOST_PIECE);
        let (constructor, destructor, flags) = (None, None, CacheFlags::NONE);
        Shape { geometry, constructor, destructor, flags, slot, stack_objects, piece, slice }
    }

    /// True for objects that a free returns to their slab directly where sheaves and barn
    /// are full: few are in a slab, so that a piece of several would save little.
    #[inline]
    #[must_use]
    pub const fn may_bypass(&self) -> bool {
        self.geometry.size > Self::LARGEST_IN_PIECES
    }

    /// About how many calls make one slow path, as an estimate for the look at the clock: a
    /// stack is filled to the half.
    #[inline]
    #[must_use]
    pub const fn calls(&self) -> u32 {
        const MOST: u32 = 64;
        let half = self.stack_objects / 2;
        if half < MOST { half } else { MOST }
    }

    /// Slot of the main stack.
    #[inline]
    #[must_use]
    pub const fn main(&self) -> Slot {
        Slot(self.slot)
    }

    /// Slot of the spare stack.
    #[inline]
    #[must_use]
    pub const fn spare(&self) -> Slot {
        Slot(self.slot + SPARE)
    }
}

/// A cache of fewer slabs is not sparse.
const SPARSE_SLABS: u32 = 8;

/// The part of a cache that all engines have. Its words are first: readers outside find those of
/// created caches at the start of their table.
#[repr(C)]
pub struct Header {
    pub(super) shown: PublishedWords,
    shape: Once<Shape>,
    pub(super) partial: Lock<Partial>,
    /// Slow paths begun until the last reclaim pass: the next pass finds the cache idle if
    /// the number is still the same.
    pub(super) seen: AtomicU32,
}

const _: () = assert!(core::mem::offset_of!(Header, shown) == 0);

impl Header {
    /// The header of a cache that is not in use.
    #[allow(clippy::new_without_default, reason = "it is for a constant")]
    #[must_use]
    pub const fn new() -> Self {
        Header {
            shown: PublishedWords::new(),
            shape: Once::new(),
            partial: Lock::new(Rank::List, Partial::new()),
            seen: AtomicU32::new(0),
        }
    }

    /// Gives the cache its shape, once, before its first use. [`Header::show`] follows.
    /// `generation` tells it from earlier caches of its slot.
    pub fn begin(&self, name: impl fmt::Display, shape: Shape, generation: u32) {
        let (shown, geometry) = (&self.shown, &shape.geometry);
        let set = |word: &AtomicU64, value: u32| word.store(value.into(), Ordering::Relaxed);
        set(&shown.object_size, geometry.object);
        set(&shown.slab_size, geometry.size);
        set(&shown.order, geometry.order);
        set(&shown.objects, geometry.objects);
        // SLUB: clamp(ilog2(size) / 2, 5, 10).
        let empties = match geometry.slab_bytes() {
            ..=KERNEL_SLAB => (geometry.size.ilog2() / 2).clamp(5, 10),
            larger => (MOST_EMPTY / larger) as u32,
        };
        set(&shown.min_partial, empties);
        set(&shown.generation, generation);
        shown.set_name(name);
        self.shape.set(shape);
    }

    /// Changes the name, before the cache or its yard is shown.
    pub fn rename(&self, name: impl fmt::Display) {
        self.shown.set_name(name);
    }

    /// Takes another cache's name over, before the cache is used.
    pub fn rename_as(&self, other: &Header) {
        for (word, from) in self.shown.name.iter().zip(&other.shown.name) {
            word.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Shows the cache to readers outside: last, because they know by it that it is in use.
    pub fn show(&self) {
        self.shown.slot.store(self.shape().slot.into(), Ordering::Release);
    }

    /// Hides the cache from readers outside: it is no more.
    pub fn hide(&self) {
        self.shown.slot.store(0, Ordering::Release);
    }

    /// Tells the cache from earlier ones of its slot.
    pub fn generation(&self) -> u32 {
        self.shown.generation.load(Ordering::Relaxed) as u32
    }

    /// True if no slow path moves objects of this cache.
    pub fn is_still(&self) -> bool {
        self.shown.is_still()
    }

    /// Address of the words that others read (`abi::region::CacheWord`).
    pub fn shown_at(&self) -> usize {
        core::ptr::from_ref(&self.shown) as usize
    }

    /// The words that others read, as they are now.
    pub fn words(&self, to: &mut [u64; CacheWord::Name3.index() + 1]) {
        self.shown.words(to);
    }

    /// Set as the cache begins, and not changed while it lives.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.shape.get()
    }

    /// Slabs of the cache.
    pub fn nr_slabs(&self) -> u32 {
        self.shown.nr_slabs.load(Ordering::Relaxed) as u32
    }

    /// Slow paths begun: a wrapping count.
    pub fn begun(&self) -> u32 {
        self.shown.begun()
    }

    /// True with more than a few slabs: then a refill takes more objects, and makes new
    /// slabs ahead of need.
    pub(super) fn is_busy(&self) -> bool {
        self.nr_slabs() >= 4
    }

    /// True if few objects are out of many slabs, so that each may be the last one of its slab.
    pub(super) fn is_sparse(&self) -> bool {
        let slabs = self.nr_slabs();
        slabs >= SPARSE_SLABS && self.out() < 2 * u64::from(slabs)
    }

    /// The first slab of the partial list and the list's length, as published.
    pub fn listed(&self) -> (u32, u32) {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed) as u32;
        (word(&self.shown.partial_head), word(&self.shown.nr_partial))
    }

    /// Objects in the barn's full sheaves, as published.
    pub fn barn_objects(&self) -> u64 {
        self.shown.barn_objects.load(Ordering::Relaxed)
    }

    /// Slabs that stay on the partial list although they are empty.
    pub fn min_partial(&self) -> u32 {
        self.shown.min_partial.load(Ordering::Relaxed) as u32
    }

    /// Changes `min_partial`, from the next free on; returns the old one.
    pub fn set_min_partial(&self, slabs: u32) -> u32 {
        self.shown.min_partial.swap(slabs.into(), Ordering::Relaxed) as u32
    }

    /// Objects in a full stack: 0 for an engine without stacks.
    pub fn sheaf_capacity(&self) -> u32 {
        self.shown.sheaf_capacity.load(Ordering::Relaxed) as u32
    }

    /// True if the published words say that the cache has no sheaves: of an engine without
    /// stacks (for `verify`).
    pub(super) fn has_no_sheaves(&self) -> bool {
        let shown = &self.shown;
        [&shown.sheaf_capacity, &shown.barn_objects, &shown.barn_full, &shown.barn_empty]
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Free objects, and slabs, that a CPU partial list may hold.
    pub fn cpu_partial(&self) -> (u32, u32) {
        let limit = |word: &AtomicU64| word.load(Ordering::Relaxed) as u32;
        (limit(&self.shown.cpu_partial), limit(&self.shown.cpu_partial_slabs))
    }

    /// Changes how many free objects that are, and the slabs that follow from it; returns the old
    /// number of objects.
    pub(super) fn set_cpu_partial(&self, objects: u32) -> u32 {
        // Slabs are taken to be half full.
        let slabs = (2 * objects).div_ceil(self.shape().geometry.objects);
        self.shown.cpu_partial_slabs.store(slabs.into(), Ordering::Relaxed);
        self.shown.cpu_partial.swap(objects.into(), Ordering::Relaxed) as u32
    }

    /// Top of the sheaf that holds the CPU slabs below sheaves.
    pub(super) fn below(&self) -> &AtomicU64 {
        &self.shown.below
    }

    /// What CPUs have of the cache: bits of `abi::region::front`.
    pub fn front(&self) -> u64 {
        self.shown.front.load(Ordering::Relaxed)
    }

    /// Says what CPUs have of the cache, by bits of `abi::region::front`.
    pub(super) fn set_front(&self, front: u32) {
        self.shown.front.store(front.into(), Ordering::Relaxed);
    }

    /// Changes it; returns the old one.
    pub(super) fn set_sheaf_capacity(&self, objects: u32) -> u32 {
        self.shown.sheaf_capacity.swap(objects.into(), Ordering::Relaxed) as u32
    }

    /// Most full and most empty sheaves of the barn: 0 for an engine without sheaves.
    pub fn barn_limits(&self) -> (u32, u32) {
        let limit = |word: &AtomicU64| word.load(Ordering::Relaxed) as u32;
        (limit(&self.shown.barn_full_limit), limit(&self.shown.barn_empty_limit))
    }

    /// Changes them.
    pub fn set_barn_limits(&self, full: u32, empty: u32) {
        self.shown.barn_full_limit.store(full.into(), Ordering::Relaxed);
        self.shown.barn_empty_limit.store(empty.into(), Ordering::Relaxed);
    }

    /// Objects that left their slabs: live, parked or in transit.
    pub fn out(&self) -> u64 {
        self.shown.out.load(Ordering::Relaxed)
    }

    /// True if no slow path ran since the last call. Asked once a reclaim pass.
    pub(super) fn is_idle(&self) -> bool {
        let begun = self.shown.begun();
        self.seen.swap(begun, Ordering::Relaxed) == begun
    }
}

/// What a barn has, as it is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarnWords {
    /// Objects in its full sheaves.
    pub objects: u64,
    /// Full sheaves.
    pub full: u64,
    /// Empty sheaves, kept for frees.
    pub empty: u64,
    /// The first full one, as readers outside find it.
    pub head: u32,
}

impl BarnWords {
    /// A barn without sheaves.
    pub const NONE: Self = BarnWords { objects: 0, full: 0, empty: 0, head: NO_SHEAF };
}
