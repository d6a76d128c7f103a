//! Counts that the policy reports to platforms that keep them. Other platforms have no code for
//! counting.
//!
//! Neighbour: `abi::stats` defines the layout of the words. Engines report events, and a yard
//! publishes the words' address.

use crate::stack::Slot;

/// Something that policy counts about one cache.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// So much, by the number of its counter in `abi::stats`.
    Counted(usize, u32),
    /// A slow free that drained a CPU partial list of this many slabs, maybe of none, and what it
    /// cost.
    Drained {
        /// How many were on the list.
        slabs: u32,
        /// Nanoseconds.
        ns: u64,
    },
}

/// Counts of slow paths.
pub trait Counts {
    /// True if the platform keeps what [`Counts::count`] tells it, and so if waiting and drains
    /// are to be timed.
    #[inline]
    fn counts(&self) -> bool {
        false
    }

    /// Called where policy counts something about the cache of a slot.
    #[inline]
    fn count(&self, _slot: Slot, _event: Event) {}

    /// Called at each slab operation (objects put into one slab, or taken out of it).
    #[inline]
    fn slab_operation(&self) {}

    /// Called where the kernel refused a page, before the drain that follows.
    #[inline]
    fn page_refused(&self) {}

    /// Called at the end of a drain of everything, with the bytes that went back to the kernel.
    #[inline]
    fn drained_all(&self, _bytes: usize) {}

    /// Address of the counts, as `abi::stats` lays them out; 0 where nothing is counted.
    fn counts_at(&self) -> usize {
        0
    }
}
