//! The table of blocks that grew: it maps an address to the size that was last requested there.
//!
//! Neighbours: [`crate::calls::growth`] gives such blocks spare room; [`crate::large`] removes a
//! block that is freed. Invariant: the table is a hint. Threads overwrite each other's entries, and
//! a new block at the address of an earlier growing block may get room one growth too early.

use crate::cache::classes::{LARGEST, STEP};
use crate::pages::PageHeap;
use crate::platform::Platform;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Entries of the table: this many blocks that grow in turns are known.
const KNOWN: usize = 512;

/// In place of the granules of an object, which keeps its size where it becomes smaller.
const OBJECT: u32 = u32::MAX;

/// What a yard remembers of blocks that grew.
pub(crate) struct Growth {
    /// The key of an address (32 bits), and the granules last asked for there, or [`OBJECT`].
    pub(crate) known: [AtomicU64; KNOWN],
    /// 1: a block grew.
    pub(crate) any: AtomicU32,
    /// A bit for each class: it has an object that `realloc` gave more room than the class of
    /// the size has. The last one stands for further classes.
    pub(crate) roomy: AtomicU64,
}

impl Growth {
    pub(crate) const fn new() -> Self {
        Growth {
            known: [const { AtomicU64::new(0) }; KNOWN],
            any: AtomicU32::new(0),
            roomy: AtomicU64::new(0),
        }
    }

    pub(crate) fn entry(&self, key: u32) -> &AtomicU64 {
        // Fibonacci hashing (Knuth, TAOCP 6.4).
        let hash = key.wrapping_mul(0x9E37_79B9) >> (u32::BITS - KNOWN.ilog2());
        &self.known[hash as usize]
    }

    /// The distance from the region's begin, so that the same calls make the same moves in each
    /// process. Not 0, which means none.
    fn key<P: Platform>(heap: &PageHeap<P>, address: usize) -> u32 {
        ((address.wrapping_sub(heap.region.base()) / STEP) as u32).max(1)
    }

    /// The granules last asked for by the block at an address, if it is known to have grown.
    pub(crate) fn asked<P: Platform>(&self, heap: &PageHeap<P>, address: usize) -> Option<usize> {
        let key = Self::key(heap, address);
        let entry = self.entry(key).load(Ordering::Relaxed);
        (entry >> 32 == u64::from(key)).then_some(entry as u32 as usize)
    }

    /// Notes how much was asked for last by a block that grew.
    pub(crate) fn note_asked<P: Platform>(&self, heap: &PageHeap<P>, address: usize, bytes: usize) {
        let key = Self::key(heap, address);
        let granules = if bytes > LARGEST { heap.granules_for(bytes) as u32 } else { OBJECT };
        let entry = u64::from(key) << 32 | u64::from(granules);
        self.entry(key).store(entry, Ordering::Relaxed);
        self.any.store(1, Ordering::Relaxed);
    }

    /// At the free of a large block.
    #[inline]
    pub(crate) fn forget<P: Platform>(&self, heap: &PageHeap<P>, address: usize) {
        if self.any.load(Ordering::Relaxed) == 0 {
            return;
        }
        let key = Self::key(heap, address);
        let entry = self.entry(key);
        if entry.load(Ordering::Relaxed) >> 32 == u64::from(key) {
            entry.store(0, Ordering::Relaxed);
        }
    }
}

pub(crate) fn bit(class: usize) -> u64 {
    1 << class.min(63)
}
