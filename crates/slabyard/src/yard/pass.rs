//! The position of a reclaim pass: its phase, its next entry, its next cache.
//!
//! Neighbour: [`crate::reclaim::pass`] does the work. Invariant: the drain lock protects it.

use crate::engine::Found;
use crate::pages::PageHeap;
use crate::pages::bank::is_bank;
use crate::platform::Entry;
use crate::platform::stack::Slot;
use crate::yard::sparse::Flushing;

/// The phases of a pass, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Idle stacks; those in use too, in a pass that compacts.
    Stacks,
    /// Unused sheaves of barns, empty slabs of idle caches.
    Caches,
    /// In a pass that compacts: runs of ended slabs in CPUs' lists.
    Runs,
    /// Free pages.
    Pages,
    /// Metadata of free pages.
    Metadata,
    /// The memory of unused sheaves.
    Sheaves,
    /// No pass is open.
    Ended,
}

/// The position of a pass.
pub(crate) struct Pass {
    pub(crate) phase: Phase,
    pub(crate) compact: bool,
    /// It has flushed unused sheaves, ended slabs or purged pages.
    pub(crate) reclaimed: bool,
    /// It found freed runs in a bank.
    pub(crate) has_banked: bool,
    /// The next entry: its row and slot.
    pub(crate) at: (usize, u16),
    /// The number of the next cache, and what the pass found of it.
    pub(crate) cache: usize,
    pub(crate) found: Option<Found>,
    /// Slices made before the phase of pages, and from there on.
    pub(crate) slices: [u32; 2],
    /// Beside the pass: sparse caches.
    pub(crate) flushing: Flushing,
}

impl Pass {
    pub(crate) const fn new() -> Self {
        Pass {
            phase: Phase::Ended,
            compact: false,
            reclaimed: false,
            has_banked: false,
            at: (0, 0),
            cache: 0,
            found: None,
            slices: [0; 2],
            flushing: Flushing::NONE,
        }
    }

    /// Begins a pass. It replaces an open pass that has spent as many slices on purging pages as
    /// on the phases before: what became idle meanwhile must not wait until much memory is
    /// purged. False if the open pass continues.
    pub(crate) fn begin(&mut self, compact: bool) -> bool {
        let open = self.is_open();
        if open && (self.phase < Phase::Pages || self.slices[1] < self.slices[0]) {
            return false;
        }
        let flushing = core::mem::replace(&mut self.flushing, Flushing::NONE);
        *self = Pass { phase: Phase::Stacks, compact, reclaimed: open, flushing, ..Pass::new() };
        true
    }

    /// A cache is no more: what the pass found of it is nothing.
    pub(crate) fn forget(&mut self, number: usize) {
        if self.cache == number {
            self.found = None;
        }
    }

    /// True during the phases that return parked objects to slabs.
    pub(crate) fn is_flushing(&self) -> bool {
        self.phase < Phase::Pages
    }

    /// A slice purged a part of the backlog instead of continuing the pass.
    pub(crate) fn count_purge(&mut self) {
        self.slices[1] += 1;
    }

    /// True while there may be something to do.
    pub(crate) fn is_open(&self) -> bool {
        self.phase != Phase::Ended
    }

    /// Notes if an entry's stack is a bank with runs.
    pub(crate) fn look_for_banked<P>(&mut self, heap: &PageHeap<P>, slot: Slot, entry: &Entry) {
        let has_runs = || heap.sheaves.count_of(entry.top()).is_some_and(|runs| runs > 0);
        self.has_banked |= is_bank(slot) && has_runs();
    }

    pub(crate) fn next_phase(&mut self) {
        self.at = (0, 0);
        self.phase = match self.phase {
            Phase::Stacks => Phase::Caches,
            Phase::Caches if self.compact => Phase::Runs,
            Phase::Caches | Phase::Runs => Phase::Pages,
            Phase::Pages => Phase::Metadata,
            Phase::Metadata => Phase::Sheaves,
            Phase::Sheaves | Phase::Ended => Phase::Ended,
        };
    }
}
