//! The quarantine: freed objects wait in the order of their frees before they return to their
//! slabs.
//!
//! It is a ring of addresses in one array of the pool of sheaves, with room for some [`BYTES`] of
//! objects. External readers see its objects as a barn's. Invariant: only the holder of the list
//! lock changes it. If there is no memory for the array, no object is quarantined.

use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Bytes that wait in a cache.
pub(crate) const BYTES: u32 = 256 << 10;
/// Objects that wait, at least and at most.
pub(super) const LEAST: u32 = 8;
pub(super) const MOST: u32 = slabyard_abi::region::SHEAF_OBJECTS as u32;

/// The ring, under the list lock.
pub(super) struct Quarantine {
    /// The array's, while it is out of the pool: an element number behind its last; 0 without one.
    pub(super) top: AtomicU32,
    /// The oldest.
    pub(super) first: AtomicU32,
    pub(super) len: AtomicU32,
}

impl Quarantine {
    pub(super) const fn new() -> Self {
        Quarantine { top: AtomicU32::new(0), first: AtomicU32::new(0), len: AtomicU32::new(0) }
    }

    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// Puts an object in; returns the oldest if there is no room for both.
    pub(super) fn push(&self, ring: &[AtomicUsize], object: usize) -> Option<usize> {
        let (room, len) = (ring.len() as u32, self.len());
        if room == 0 {
            return Some(object);
        }
        let first = self.first.load(Ordering::Relaxed);
        if len == room {
            let oldest = ring[first as usize].swap(object, Ordering::Relaxed);
            self.first.store((first + 1) % room, Ordering::Relaxed);
            return Some(oldest);
        }
        ring[((first + len) % room) as usize].store(object, Ordering::Relaxed);
        self.len.store(len + 1, Ordering::Relaxed);
        None
    }

    /// Takes the oldest.
    pub(super) fn pop(&self, ring: &[AtomicUsize]) -> Option<usize> {
        let (room, len) = (ring.len() as u32, self.len());
        self.len.store(len.checked_sub(1)?, Ordering::Relaxed);
        let first = self.first.load(Ordering::Relaxed);
        self.first.store((first + 1) % room, Ordering::Relaxed);
        Some(ring[first as usize].load(Ordering::Relaxed))
    }
}
