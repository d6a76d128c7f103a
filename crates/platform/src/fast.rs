//! The words that an inlined pop or push reads to find a cache's stack on this CPU.
//!
//! Neighbours: [`crate::rseq`] implements the restartable sequences (rseq); the typed caches and
//! the global allocator store these words.
//! Invariant: the address of row 0 and the offset of `rseq_cs` never change. The slot may become 0
//! at any moment, and then stays 0. The sequences read it in the part that the kernel aborts, so
//! after a fence of all CPUs every call on this cache is slow. A pop reads the slot's offset from a
//! word of the yard, which is 0 while each allocation must take the slow path.

use crate::stack::{Rows, Slot};
use crate::sync::{AtomicU16, AtomicUsize, Ordering};

/// What an inlined pop or push reads.
#[repr(C)]
#[derive(Debug)]
pub struct FastPath {
    /// Row 0.
    rows: AtomicUsize,
    /// Offset of `rseq_cs` from the thread pointer.
    cs_offset: AtomicUsize,
    /// Offset of the stack in a row, for a push: 0 sends every call to the slow path.
    slot: AtomicU16,
    /// The same for a pop.
    pops: &'static AtomicU16,
}

/// Offsets of the words, for the assembly.
pub(super) mod at {
    pub(crate) const ROWS: usize = 0;
    pub(crate) const CS_OFFSET: usize = 8;
    pub(crate) const SLOT: usize = 16;
    pub(crate) const POPS: usize = 24;
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(core::mem::offset_of!(FastPath, rows) == at::ROWS);
    assert!(core::mem::offset_of!(FastPath, cs_offset) == at::CS_OFFSET);
    assert!(core::mem::offset_of!(FastPath, slot) == at::SLOT);
    assert!(core::mem::offset_of!(FastPath, pops) == at::POPS);
};

impl FastPath {
    /// The words for a slot: `pops` holds its offset for pops, or 0 while each is slow.
    pub fn new(rows: &Rows, slot: Slot, pops: &'static AtomicU16) -> Self {
        FastPath {
            rows: AtomicUsize::new(rows.base()),
            cs_offset: AtomicUsize::new(rows.cs_offset()),
            slot: AtomicU16::new(slot.offset() as u16),
            pops,
        }
    }

    /// The slot; 0 where every call is slow.
    #[inline]
    pub fn slot(&self) -> Slot {
        Slot::at(self.slot.load(Ordering::Relaxed))
    }

    /// The slot of a pop: 0 while each allocation must take the slow path.
    #[inline]
    pub fn slot_of_pop(&self) -> Slot {
        Slot::at(self.pops.load(Ordering::Relaxed))
    }

    /// Row 0 and the offset of `rseq_cs`.
    #[inline]
    pub fn rows(&self) -> (usize, usize) {
        (self.rows.load(Ordering::Relaxed), self.cs_offset.load(Ordering::Relaxed))
    }

    /// Calls take the stack of this slot again.
    pub fn open(&self, slot: Slot) {
        self.slot.store(slot.offset() as u16, Ordering::Relaxed);
    }

    /// From now on every call is slow, as soon as each CPU has seen it: after a fence, for all.
    pub fn close(&self) {
        self.slot.store(0, Ordering::SeqCst);
    }
}
