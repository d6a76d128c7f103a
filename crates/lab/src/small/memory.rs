//! Manages a machine's free pages in a plain buddy allocator, or in a zone like a kernel's.
//!
//! [`super::pages`] allocates pages for slabs and requests here, and frees them.

use super::buddy::{Block, Buddy, MOST_ORDER};
use super::kept::Limits;
use super::mobility::Type;
use super::zone::Zone;

/// Free pages.
pub(super) enum Memory {
    /// From nothing.
    Plain(Box<Buddy>),
    Kernel(Box<Zone>),
}

impl Memory {
    /// Takes a block, for which nothing is reclaimed.
    pub(super) fn take(&mut self, order: u8, of: Type) -> Option<Block> {
        match self {
            Memory::Plain(buddy) => buddy.take(order),
            Memory::Kernel(zone) => zone.take(order, of),
        }
    }

    /// All that CPUs keep becomes free.
    pub(super) fn drain(&mut self) {
        if let Memory::Kernel(zone) = self {
            zone.drain();
        }
    }

    /// All that a CPU keeps becomes free.
    pub(super) fn drain_of(&mut self, cpu: usize) {
        if let Memory::Kernel(zone) = self {
            zone.drain_of(cpu);
        }
    }

    /// From now on a CPU allocates and frees.
    pub(super) fn on(&mut self, cpu: usize) {
        if let Memory::Kernel(zone) = self {
            zone.on(cpu);
        }
    }

    pub(super) fn put(&mut self, block: Block) {
        match self {
            Memory::Plain(buddy) => buddy.put(block),
            Memory::Kernel(zone) => zone.put(block),
        }
    }

    /// Limits of lists on the CPU; a plain one has none.
    pub(super) fn limit(&mut self, limits: Limits) {
        if let Memory::Kernel(zone) = self {
            zone.limit(limits);
        }
    }

    pub(super) fn free_pages(&self) -> u32 {
        match self {
            Memory::Plain(buddy) => buddy.free_pages(),
            Memory::Kernel(zone) => zone.free_pages(),
        }
    }

    /// Pages that CPUs keep, which are not free by the kernel's count.
    pub(super) fn kept_pages(&self) -> u32 {
        match self {
            Memory::Plain(_) => 0,
            Memory::Kernel(zone) => zone.kept_pages(),
        }
    }

    pub(super) fn counts(&self) -> [u32; MOST_ORDER as usize + 1] {
        match self {
            Memory::Plain(buddy) => buddy.counts(),
            Memory::Kernel(zone) => zone.counts(),
        }
    }
}
