//! The page descriptor: the state of one granule (4096 bytes) of the region, in one cache line of a
//! table that is separate from the granules.
//!
//! Neighbours: [`super::region`] owns the table; the buddy, per-CPU lists and slabs each use the
//! descriptors of their own runs.
//!
//! Only the first descriptor of a run has a kind other than [`GranuleKind::None`]. So one load
//! shows whether a run starts at a granule. The free set of a slab extends over the descriptors of
//! all its granules: 256 bits each, enough for 16-byte objects; slabs of smaller objects hold the
//! rest.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::table::Zeroed;

/// Bits of the free set in one descriptor.
pub const DESCRIPTOR_BITS: usize = 256;

/// No descriptor: the end of a list.
pub const NIL: u32 = 0;

/// What begins at a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GranuleKind {
    /// Nothing: the granule is inside of a run or block, was never used, or changes its kind.
    None = 0,
    /// A free block of the buddy.
    Free = 1,
    /// A free run in a CPU's list, or in its bank ([`super::bank`]).
    Parked = 2,
    /// A live run.
    Run = 3,
    /// The first granule of a live slab; the slot is its cache's.
    Slab = 4,
    /// A free block whose pages are being given back.
    Purging = 5,
    /// A freed run that is not coalesced yet.
    Freed = 6,
    /// A discarded slab that waits for readers.
    Held = 7,
}

/// The state of one granule.
#[repr(C, align(64))]
pub struct Descriptor {
    /// kind (8 bits), order (8 bits), slot (16 bits).
    head: AtomicU32,
    /// Granules of a run, live or freed.
    pub granules: AtomicU32,
    /// Next on a list; the list's lock protects the links.
    pub next: AtomicU32,
    /// Previous on a list.
    pub prev: AtomicU32,
    /// The slab word (`slab::freeset`).
    pub word: AtomicU64,
    /// When a free block was freed, in milliseconds; on a slab: 1 if it is listed.
    pub time: AtomicU32,
    /// On a listed slab: 1 if it is among the empty ones of a list that keeps them apart.
    pub apart: AtomicU32,
    /// A part of the slab's free set.
    pub bits: [AtomicU64; DESCRIPTOR_BITS / 64],
}

// SAFETY: atomic numbers only; kind 0 is `None`.
unsafe impl Zeroed for Descriptor {}

impl Descriptor {
    /// What begins here.
    #[inline]
    pub fn kind(&self) -> GranuleKind {
        // Acquire pairs with the Release in `set`: a thread that sees a run or slab sees
        // its other fields.
        match self.head.load(Ordering::Acquire) as u8 {
            1 => GranuleKind::Free,
            2 => GranuleKind::Parked,
            3 => GranuleKind::Run,
            4 => GranuleKind::Slab,
            5 => GranuleKind::Purging,
            6 => GranuleKind::Freed,
            7 => GranuleKind::Held,
            _ => GranuleKind::None,
        }
    }

    /// Order of a free block or of a slab's run.
    #[inline]
    pub fn order(&self) -> u32 {
        self.head.load(Ordering::Relaxed) >> 8 & 0xff
    }

    /// True if a free block of this order begins here.
    #[inline]
    pub(super) fn is_free_block(&self, order: u32) -> bool {
        self.kind() == GranuleKind::Free && self.order() == order
    }

    /// Slot of a slab's cache.
    #[inline]
    pub fn slot(&self) -> u16 {
        (self.head.load(Ordering::Relaxed) >> 16) as u16
    }

    /// Sets what begins here.
    #[inline]
    pub fn set(&self, kind: GranuleKind, order: u32, slot: u16) {
        let head = kind as u32 | order << 8 | u32::from(slot) << 16;
        self.head.store(head, Ordering::Release);
    }

    /// Changes a live run with a slot to another kind and slot; false if it is none.
    #[inline]
    pub(super) fn change_run(&self, from: u16, to: GranuleKind, slot: u16) -> bool {
        let run = GranuleKind::Run as u32 | u32::from(from) << 16;
        let to = to as u32 | u32::from(slot) << 16;
        self.head.compare_exchange(run, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

const _: () = {
    use core::mem::offset_of;
    use slabyard_abi::region::descriptor;
    assert!(size_of::<Descriptor>() == descriptor::BYTES);
    assert!(offset_of!(Descriptor, head) == descriptor::HEAD);
    assert!(offset_of!(Descriptor, granules) == descriptor::GRANULES);
    assert!(offset_of!(Descriptor, next) == descriptor::NEXT);
    assert!(offset_of!(Descriptor, word) == descriptor::WORD);
    assert!(offset_of!(Descriptor, time) == descriptor::LISTED);
    assert!(offset_of!(Descriptor, bits) == descriptor::BITS);
    assert!(GranuleKind::Free as u8 == descriptor::FREE);
    assert!(GranuleKind::Parked as u8 == descriptor::PARKED);
    assert!(GranuleKind::Run as u8 == descriptor::RUN);
    assert!(GranuleKind::Slab as u8 == descriptor::SLAB);
    assert!(GranuleKind::Purging as u8 == descriptor::PURGING);
    assert!(GranuleKind::Freed as u8 == descriptor::FREED);
    assert!(GranuleKind::Held as u8 == descriptor::HELD);
};
