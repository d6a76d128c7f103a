//! The banks of a CPU: stacks of freed runs, kept whole for the next requests of their size.
//!
//! A program that repeatedly allocates and frees a buffer needs no slow path: the free pushes the
//! run onto this CPU's stack, and the next allocation of its size pops it. Push and pop are each
//! one restartable sequence outside of the gate, so that CPUs share no cache line. There are two
//! banks per doubling of the size; a request takes a run at most an eighth too large.
//!
//! Neighbours: [`crate::large`] calls this; [`super::percpu`] frees runs taken off a bank; drains
//! and reclaim passes empty idle banks like idle page lists.
//! Invariants: a run in a bank has kind [`GranuleKind::Parked`] and the slot [`BANKED`]; a live run
//! that a bank supplied has that slot, too. All granules of these runs are dirty. A banked run
//! counts as live (`Buddy::runs`): outside of the gate only its kind changes, so a check finds
//! exact counts whatever other threads do. Between the change of its kind and the push or pop, a
//! run is in no stack; in the child of a fork it stays live. A bank has room for one run, and for
//! more while the CPU has spare room: a new bank takes half of the spare room left, so the sizes
//! that a program uses first get the most. All banks of a CPU together hold at most 3.1 MiB.

use super::buddy::Buddy;
use super::descriptor::{Descriptor, GranuleKind};
use super::heap::PageHeap;
use super::region::Region;
use crate::pages::nodes;
use crate::platform::{GRANULE, Platform, Slot, Stack, Takes};
use crate::sync::Ordering;
use slabyard_abi::region::row;

/// In place of a slot in the descriptor of a run that a bank has.
const BANKED: u16 = slabyard_abi::region::descriptor::BANKED;

/// A run of fewer granules is in no bank: programs ask for objects of that size.
const SMALLEST: u32 = 9;
/// The largest run of a bank: 512 KiB.
const LARGEST: u32 = ((512 << 10) / GRANULE) as u32;
/// Bytes that the banks of a CPU have room for beyond one run each, at most and at least, and as a
/// part of the heap: runs that stay whole break a small heap into pieces.
const LEAST_SPARE_BYTES: usize = 1 << 18;
const SPARE_PART_OF_HEAP: usize = 8;
/// With 1.5 MiB always, a program whose memory is locked had no room for a block of 1.5 MiB in 8
/// MiB in 5 of 8 runs; with 8 MiB two loads that rest kept 3 to 4 MiB more.
const SPARE_BYTES: usize = 3 << 19;
/// Bytes that the banks of a CPU have room for together, 3.1 MiB.
pub const CPU_BYTES: usize = SPARE_BYTES + (12 + 16 + 24 + 32 + 48 + 64 + 96 + 128) * GRANULE;
/// A request takes a run that has this part more than it needs at most.
const SPARE_PART: u32 = 8;

/// The bank of runs of this many granules: 9 to 12, 13 to 16, 17 to 24, 25 to 32 and so on.
#[inline(always)]
pub fn bank_of(granules: u32) -> Option<Slot> {
    let behind = granules.wrapping_sub(SMALLEST);
    if behind > LARGEST - SMALLEST {
        return None;
    }
    let highest = (granules - 1).ilog2();
    // The bit below the highest one says which half of the doubling.
    let nth = 2 * (highest - 3) + ((granules - 1) >> (highest - 1) & 1);
    Some(Slot(row::FIRST_BANK as u16 + nth as u16))
}

/// True for the slot of a bank.
pub(crate) fn is_bank(slot: Slot) -> bool {
    (row::FIRST_BANK..row::FIRST_BANK + row::BANKS).contains(&usize::from(slot.0))
}

/// Granules of the largest run of a bank.
fn largest_of(slot: Slot) -> usize {
    let nth = usize::from(slot.0) - row::FIRST_BANK;
    (3 + nth % 2) << (nth / 2 + 2)
}

/// Runs that a new bank has room for, where the other banks of the CPU have so many spare bytes and
/// the heap has this many.
fn capacity_for(slot: Slot, spare_of_others: usize, heap: usize) -> usize {
    let spare = (heap / SPARE_PART_OF_HEAP).clamp(LEAST_SPARE_BYTES, SPARE_BYTES);
    1 + spare.saturating_sub(spare_of_others) / 2 / (largest_of(slot) * GRANULE)
}

const _: () = {
    assert!(row::BANKS == 8 && LARGEST == 128 && SMALLEST == 9);
    // That of runs of up to 12 granules.
    assert!(1 + SPARE_BYTES / 2 / (12 * GRANULE) == row::MOST_BANKED);
};

/// What a bank gave.
pub(crate) enum Banked {
    /// A run as it was asked for, live.
    Run(usize),
    /// Another run, parked, for which the bank has no room any more: the caller frees it.
    Other(usize),
    /// The bank is empty, or its run does not fit the request.
    Nothing,
}

impl Descriptor {
    /// True if a bank has the run that begins here, or a thread that is about to put it there or
    /// took it out.
    #[inline(always)]
    pub(crate) fn is_banked(&self) -> bool {
        self.kind() == GranuleKind::Parked && self.slot() == BANKED
    }

    /// True of a live run that a bank gave: all its granules are dirty.
    pub(crate) fn is_known_dirty(&self) -> bool {
        self.kind() == GranuleKind::Run && self.slot() == BANKED
    }
}

/// True if a bank's run is what a request wants.
#[inline(always)]
fn suits(descriptor: &Descriptor, address: usize, granules: u32, align: usize) -> bool {
    let more = descriptor.granules.load(Ordering::Relaxed).wrapping_sub(granules);
    more <= granules / SPARE_PART && address & (align - 1) == 0
}

#[inline(always)]
fn banked(region: &Region, address: usize) -> Option<&Descriptor> {
    let index = region.granule_of(address)?;
    Some(region.descriptor(index)).filter(|descriptor| descriptor.is_banked())
}

/// Takes a run for this many bytes, [`LARGEST`] at most, out of this CPU's bank, outside of a
/// slow path.
#[inline(always)]
pub(crate) fn take<P: Platform>(heap: &PageHeap<P>, bytes: usize, align: usize) -> Banked {
    let granules = heap.granules_for(bytes) as u32;
    let taken = bank_of(granules).and_then(|slot| Some((slot, heap.platform.pop(slot)?)));
    let Some((slot, address)) = taken else { return Banked::Nothing };
    let Some(descriptor) = banked(&heap.region, address) else { return Banked::Nothing };
    if suits(descriptor, address, granules, align) && is_near(heap, address) {
        descriptor.set(GranuleKind::Run, 0, BANKED);
        return Banked::Run(address);
    }
    put_back(&heap.platform, slot, address)
}

/// What was on top is for other requests.
#[cold]
#[inline(never)]
fn put_back<P: Platform>(p: &P, slot: Slot, address: usize) -> Banked {
    match p.push(slot, address, Takes::Each) {
        true => Banked::Nothing,
        false => Banked::Other(address),
    }
}

#[inline(always)]
fn is_near<P: Platform>(heap: &PageHeap<P>, address: usize) -> bool {
    P::MOST_NODES == 1
        || heap
            .region
            .granule_of(address)
            .is_some_and(|index| nodes::is_of::<P>(&heap.region, index, heap.near()))
}

/// Granule, descriptor and bank of a live run that may go to a bank. The address is in no slab.
#[inline(always)]
fn bankable<P: Platform>(heap: &PageHeap<P>, address: usize) -> Option<(u32, &Descriptor, Slot)> {
    let index = heap.region.granule_of(address)?;
    if address & (GRANULE - 1) != 0 {
        return None;
    }
    let descriptor = heap.region.descriptor(index);
    let may = descriptor.kind() == GranuleKind::Run
        && heap.page_lists().is_none()
        && is_near(heap, address);
    let slot = bank_of(descriptor.granules.load(Ordering::Relaxed)).filter(|_| may)?;
    Some((index, descriptor, slot))
}

/// From here on the run is free: of two threads that free it, one gets it.
#[inline(always)]
fn begin_banked(region: &Region, index: u32, descriptor: &Descriptor) -> bool {
    let slot = descriptor.slot();
    // A bank gave it: all its granules are dirty.
    if slot != BANKED {
        let granules = descriptor.granules.load(Ordering::Relaxed) as usize;
        // Before, as in `end_live_run`; other CPUs read the words of these bits, too.
        if region.dirty_in(index as usize, granules) < granules {
            region.set_dirty(index as usize, granules, true);
        }
    }
    descriptor.change_run(slot, GranuleKind::Parked, BANKED)
}

/// Puts a live run into this CPU's bank, outside of a slow path too; returns its bytes. `None` if
/// there is no bank, or no room in it.
#[inline(always)]
pub(crate) fn put<P: Platform>(heap: &PageHeap<P>, address: usize, row: usize) -> Option<usize> {
    let p = &heap.platform;
    let (index, descriptor, slot) = bankable(heap, address)?;
    let entry = p.rows().entry(row, slot);
    // A stopped entry's top is above each end.
    if entry.top() >= entry.end() || !begin_banked(&heap.region, index, descriptor) {
        return None;
    }
    let granules = descriptor.granules.load(Ordering::Relaxed);
    if p.push(slot, address, Takes::Each) {
        return Some(granules as usize * GRANULE);
    }
    descriptor.set(GranuleKind::Run, 0, BANKED);
    None
}

/// In a slow path: puts a live run into this CPU's bank, which it may make if there is none, or
/// in the place of the newest one of another size: so a bank follows what a program does now.
pub(crate) fn put_in_slow_path<P: Platform>(
    heap: &PageHeap<P>,
    address: usize,
    may_make: bool,
) -> Option<usize> {
    let p = &heap.platform;
    let (index, descriptor, slot) = bankable(heap, address)?;
    let row = p.row_hint()?;
    let entry = p.rows().entry(row, slot);
    let granules = descriptor.granules.load(Ordering::Relaxed);
    if !entry.is_none() {
        let other =
            |top| Some(banked(&heap.region, top)?.granules.load(Ordering::Relaxed) != granules);
        if entry.top() == entry.end()
            && heap.sheaves.top_object(entry).and_then(other) == Some(true)
            && let Some(other) = p.pop(slot)
        {
            heap.free_parked_run(other);
        }
        return put(heap, address, row);
    }
    if !may_make || !begin_banked(&heap.region, index, descriptor) {
        return None;
    }
    let spare = capacities(heap).map(|(runs, bytes)| (runs - 1) * bytes).sum();
    if heap.put_list(slot, capacity_for(slot, spare, heap.region.top() * GRANULE) as u32, address) {
        return Some(granules as usize * GRANULE);
    }
    descriptor.set(GranuleKind::Run, 0, BANKED);
    None
}

/// In a slow path: takes this CPU's banks away and frees their runs.
pub(crate) fn close<P: Platform>(heap: &PageHeap<P>) {
    for slot in row::FIRST_BANK..row::FIRST_BANK + row::BANKS {
        if let Ok(bank) = heap.platform.exchange(Slot(slot as u16), Stack::NONE)
            && !bank.is_none()
        {
            heap.free_parked(bank);
        }
    }
}

/// Bytes that this CPU's banks have room for, as of a moment ago.
pub(crate) fn room<P: Platform>(heap: &PageHeap<P>) -> usize {
    capacities(heap).map(|(runs, bytes)| runs * bytes).sum()
}

/// Runs that each of this CPU's banks has room for, and the bytes of the largest of its size.
fn capacities<P: Platform>(heap: &PageHeap<P>) -> impl Iterator<Item = (usize, usize)> {
    let rows = heap.platform.rows();
    let row = heap.platform.row_hint();
    let banks = row::FIRST_BANK..row::FIRST_BANK + row::BANKS;
    row.into_iter().flat_map(move |row| {
        banks.clone().map(|slot| Slot(slot as u16)).filter_map(move |slot| {
            let runs = heap.sheaves.count_of(rows.entry(row, slot).end())?;
            Some((runs as usize, largest_of(slot) * GRANULE)).filter(|(runs, _)| *runs > 0)
        })
    })
}

/// Of a run that left a bank, or is to: it is no live run any more. Its granules.
pub(super) fn end(buddy: &Buddy, descriptor: &Descriptor) -> usize {
    let granules = descriptor.granules.load(Ordering::Relaxed) as usize;
    buddy.nr_runs.fetch_sub(1, Ordering::Relaxed);
    buddy.run_granules.fetch_sub(granules, Ordering::Relaxed);
    granules
}

/// In the child of a fork, before [`rebuild`](super::rebuild::rebuild): a run that a stopped bank holds is
/// free.
pub(crate) fn forget(region: &Region, address: usize) {
    if let Some(descriptor) = banked(region, address) {
        descriptor.set(GranuleKind::None, 0, 0);
    }
}

#[cfg(test)]
mod tests;
