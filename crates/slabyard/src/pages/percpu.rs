//! Per-CPU lists of free runs, in front of the buddy: each is one of the CPU's stacks, with one
//! slot per order. These slots precede those of the caches.
//!
//! A run on such a list has kind [`GranuleKind::Parked`] and is dirty. Runs freed by programs are
//! on other stacks, in later slots ([`super::bank`]).
//!
//! Neighbours: engines take and free the slabs' runs here; [`super::buddy`] serves requests that
//! the lists cannot; a reclaim pass drains the lists of idle CPUs.

use super::descriptor::GranuleKind;
use super::heap::PageHeap;
use crate::pages::{Sheaf, ahead, nodes, runs};
use crate::platform::{GRANULE, Platform, Slot, Stack, Takes};
use crate::sync::Ordering;
use slabyard_kernels::page_lists::{LIST_BYTES, LISTED_ORDERS};

/// Slot of order 0's list; further orders follow.
pub const FIRST_SLOT: u16 = slabyard_abi::region::row::FIRST_RUNS as u16;

/// The slot of cold pages, where lists were chosen that keep these apart: no kind that does has a
/// list of this order.
pub const COLD_SLOT: u16 = FIRST_SLOT + LISTED_ORDERS as u16 - 1;

fn slot_of(order: u32) -> Slot {
    Slot(FIRST_SLOT + order as u16)
}

/// The order whose list is in a slot.
pub fn order_of(slot: Slot) -> Option<u32> {
    let order = u32::from(slot.0.checked_sub(FIRST_SLOT)?);
    (order < LISTED_ORDERS).then_some(order)
}

/// True for the slots of stacks of runs: lists of blocks, and banks.
pub fn has_runs(slot: Slot) -> bool {
    order_of(slot).is_some() || super::bank::is_bank(slot)
}

impl<P: Platform> PageHeap<P> {
    /// Takes a run of 2^order granules, aligned to its size: from this CPU's list, else from the
    /// buddy.
    pub fn take_block(&self, order: u32) -> Option<u32> {
        self.take_block_of(order, None, u32::MAX)
    }

    /// As [`PageHeap::take_block`], on a node if one is named, of whole pages; for objects of so many
    /// bytes.
    #[inline(always)]
    pub fn take_block_of(&self, order: u32, node: Option<usize>, object: u32) -> Option<u32> {
        if order < LISTED_ORDERS
            && let Some(address) = self.platform.pop(slot_of(order))
        {
            let index = self.region.granule_of(address)?;
            self.region.descriptor(index).set(GranuleKind::None, 0, 0);
            if nodes::is_of::<P>(&self.region, index, node) {
                return Some(index);
            }
            // A thread parked it that moved to this CPU meanwhile.
            self.free_run(index, 1 << order);
        }
        match node {
            Some(_) if P::MOST_NODES > 1 => {
                runs::take_run_of(self, 1 << order, 1 << order, 1 << order, node)
            }
            _ => ahead::take_ahead(self, order, object)
                .or_else(|| self.take_run(1 << order, 1 << order)),
        }
    }

    /// Frees a run of 2^order granules whose descriptor is of kind [`GranuleKind::None`].
    pub fn free_block(&self, index: u32, order: u32) {
        if order < LISTED_ORDERS
            && nodes::is_of::<P>(&self.region, index, self.near())
            && self.park(index, order)
        {
            return;
        }
        self.free_run(index, 1 << order);
    }

    fn park(&self, index: u32, order: u32) -> bool {
        let (slot, address) = (slot_of(order), self.region.address(index));
        let descriptor = self.region.descriptor(index);
        self.region.set_dirty(index as usize, 1 << order, true);
        descriptor.set(GranuleKind::Parked, order, 0);
        if self.platform.push(slot, address, Takes::Each) || self.found_list(slot, order, address) {
            return true;
        }
        descriptor.set(GranuleKind::None, 0, 0);
        false
    }

    /// Makes the list of a CPU that has none yet, with a first run on it.
    fn found_list(&self, slot: Slot, order: u32, address: usize) -> bool {
        let Some(row) = self.platform.row_hint() else {
            return false;
        };
        if !self.platform.rows().entry(row, slot).is_none() {
            return false;
        }
        let capacity = (LIST_BYTES / (GRANULE << order)).max(1) as u32;
        self.put_list(slot, capacity, address)
    }

    /// Puts a new list with one run in the place of this CPU's.
    pub(super) fn put_list(&self, slot: Slot, capacity: u32, address: usize) -> bool {
        let Some(mut sheaf) = self.sheaves.take(&self.platform, capacity) else {
            return false;
        };
        self.sheaves.push(&mut sheaf, address);
        let new = self.sheaves.publish(sheaf, capacity);
        match self.platform.exchange(slot, new) {
            Ok(old) => self.free_parked(old),
            Err(_) => {
                // No other thread has seen it: the sheaf is ours again.
                if let Some(mut sheaf) = self.sheaves.adopt(new) {
                    let _ = self.sheaves.pop(&mut sheaf);
                    self.sheaves.give(&self.platform, sheaf);
                }
                return false;
            }
        }
        true
    }

    /// Frees the runs of a list that was taken out of its entry.
    pub(super) fn free_parked(&self, stack: Stack) {
        let Some(mut sheaf) = self.sheaves.adopt(stack) else {
            return;
        };
        self.free_runs_of(&mut sheaf);
        self.sheaves.give(&self.platform, sheaf);
    }

    /// Frees the runs in a sheaf that was the stack of a list.
    pub(crate) fn free_runs_of(&self, sheaf: &mut Sheaf) {
        runs::free_parked_runs(self, core::iter::from_fn(|| self.sheaves.pop(sheaf)));
    }

    /// Gives a run that left a CPU's list to the buddy.
    pub fn free_parked_run(&self, address: usize) {
        runs::free_parked_runs(self, core::iter::once(address));
    }

    /// Granules of the run at an address that a CPU's list or bank holds.
    pub fn parked_granules(&self, address: usize) -> usize {
        self.region
            .granule_of(address)
            .map(|i| self.region.descriptor(i))
            .filter(|f| f.kind() == GranuleKind::Parked)
            .map_or(0, |f| match f.is_banked() {
                true => f.granules.load(Ordering::Relaxed) as usize,
                false => 1 << f.order(),
            })
    }
}
