//! The layout of a sheaf's memory: an array of elements, in one of three sizes.
//!
//! ```text
//! Elements (of 9, 33 or 129 cache lines; an odd number spreads over L1's sets)
//! +------+-----+-------+-----------------------------------+-----+
//! | next | len | guard | objects[0] objects[1] ...         | tag |
//! +------+-----+-------+-----------------------------------+-----+
//!                ^ top of an empty stack
//! ```
//! The guard holds 0: a pop that reads it finds the stack empty. A row refers to an element by its
//! number ([`crate::platform::stack`]). A stack's tag (which objects it accepts), if any, follows
//! the stack's end: in the last two words, or in unused elements if the capacity is lower.
//!
//! A sheaf of large objects holds few: if all sheaves had one size, each would touch a page of its
//! own, while smaller sheaves share pages. Each size has its own part of the memory, so that an
//! element's number determines the size of its sheaf.
//!
//! Neighbours: [`super::sheaf`] is the handle of an array; other processes read it by
//! `abi::region::sheaf`.

use crate::platform::stack::{ELEMENT_BYTES, Tag};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize};
use crate::table::Zeroed;
use core::mem::offset_of;
use slabyard_abi::region::sheaf::BYTES;

/// Sizes of sheaves.
pub(super) const SIZES: usize = BYTES.len();
/// The largest.
pub(super) const LARGE: usize = SIZES - 1;
/// Elements for objects of a sheaf of each size.
pub(super) const ROOM: [usize; SIZES] = [room_in(BYTES[0]), room_in(BYTES[1]), room_in(BYTES[2])];

const fn room_in(bytes: usize) -> usize {
    (bytes - size_of::<Head>()) / ELEMENT_BYTES - Tag::ELEMENTS as usize
}

/// A cache line of sheaves' memory: of its words only [`View`] knows the meaning.
#[repr(C, align(64))]
pub(super) struct Line([AtomicU64; 8]);

// SAFETY: atomic numbers only.
unsafe impl Zeroed for Line {}

/// Lines of a sheaf of each size.
pub(super) const LINES: [usize; SIZES] =
    [BYTES[0] / size_of::<Line>(), BYTES[1] / size_of::<Line>(), BYTES[2] / size_of::<Line>()];

#[repr(C)]
struct Head {
    next: AtomicU32,
    count: AtomicU32,
    guard: AtomicUsize,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use slabyard_abi::region::sheaf;
    assert!(offset_of!(Head, next) == sheaf::NEXT);
    assert!(offset_of!(Head, count) == sheaf::COUNT);
    assert!(offset_of!(Head, guard) == sheaf::GUARD);
    assert!(size_of::<Head>() == sheaf::OBJECTS);
};
/// Elements of a sheaf of each size, with its head; and the number of the guard among them.
pub(super) const STRIDES: [u32; SIZES] =
    [words_of(BYTES[0]), words_of(BYTES[1]), words_of(BYTES[2])];
pub(super) const GUARD: u32 = words_of(offset_of!(Head, guard));

const fn words_of(bytes: usize) -> u32 {
    (bytes / ELEMENT_BYTES) as u32
}

/// The smallest size with room for this many objects.
pub(super) fn size_for(objects: u32) -> usize {
    ROOM.iter().position(|room| *room >= objects as usize).unwrap_or(LARGE)
}

/// A sheaf's memory, whatever its size.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub next: &'a AtomicU32,
    pub count: &'a AtomicU32,
    pub objects: &'a [AtomicUsize],
}

impl View<'_> {
    /// The sheaf whose guard is at an address.
    ///
    /// # Safety
    /// A sheaf with room for this many objects is there, which stays for ever and is changed
    /// as atomic numbers only.
    #[inline]
    pub(super) unsafe fn at(guard: usize, room: usize) -> Self {
        // SAFETY: the caller's promise.
        let Head { next, count, .. } =
            unsafe { &*((guard - offset_of!(Head, guard)) as *const Head) };
        let objects = guard + ELEMENT_BYTES;
        // SAFETY: as above; the objects lie behind the guard.
        let objects = unsafe { core::slice::from_raw_parts(objects as *const AtomicUsize, room) };
        View { next, count, objects }
    }
}
