//! The banks of a CPU: freed runs that stay whole for the next requests of their size.
//!
//! A program that allocates and frees a buffer again and again makes no slow path for it: a free
//! puts the run on a stack of the platform, and the next allocation of its size takes it, each by
//! one sequence outside of the gate, so that CPUs share no cache line. There are two banks for each
//! doubling of the size; a request takes a run that has an eighth more than it needs at most.
//!
//! Neighbours: [`crate::large`] asks; [`super::percpu`] frees what left the stack; drains and
//! passes empty idle ones as they do the lists of blocks.
//! Invariants: a run in a bank is of kind [`Kind::Parked`] with the slot [`BANKED`]; all its
//! granules are dirty. It counts among the live runs (`Buddy::runs`): nothing but its kind
//! changes outside of the gate, so a check finds the counts exact whatever threads are about, and
//! a thread between the change of the kind and its sequence has a run that is in no stack. The
//! child of a fork keeps the runs that were in such hands as live ones. A bank has room for
//! [`BANK_BYTES`], and for two runs at least: 8 MiB for a CPU that uses all sizes.

use super::PageHeap;
use super::descriptor::{Descriptor, Kind};
use crate::platform::{GRANULE, Platform, Slot};
use crate::sync::Ordering;
use slabyard_abi::region::row;

/// In place of a slot in the descriptor of a run that a bank has.
const BANKED: u16 = slabyard_abi::region::descriptor::BANKED;

/// A run of fewer granules is in no bank: programs ask for objects of that size.
const SMALLEST: u32 = 9;
/// The largest run of a bank: 512 KiB.
const LARGEST: u32 = ((512 << 10) / GRANULE) as u32;
/// A bank has room for so many bytes.
const BANK_BYTES: usize = 1 << 20;
/// A request takes a run that has this part more than it needs at most.
const SPARE_PART: u32 = 8;

/// The bank of runs of so many granules: 9 to 12, 13 to 16, 17 to 24, 25 to 32 and so on.
#[inline(always)]
fn bank_of(granules: u32) -> Option<Slot> {
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

/// Runs that the bank of a size has room for.
fn capacity_for(granules: u32) -> u32 {
    let step = granules.next_power_of_two() / 4;
    let largest = granules.next_multiple_of(step) as usize;
    (BANK_BYTES / (largest * GRANULE)).max(2) as u32
}

const _: () = {
    assert!(row::BANKS == 8 && LARGEST == 128 && SMALLEST == 9);
    // That of runs of up to 12 granules.
    assert!(BANK_BYTES / (12 * GRANULE) == row::MOST_BANKED);
};

/// What a bank gave.
pub(crate) enum Banked {
    /// A run as it was asked for, live.
    Run(usize),
    /// Another run, live, which the caller frees.
    Other(usize),
    /// Nothing.
    Nothing,
}

impl Descriptor {
    /// True if a bank has the run that begins here, or a thread that is about to put it there or
    /// took it out.
    #[inline(always)]
    pub(crate) fn is_banked(&self) -> bool {
        self.kind() == Kind::Parked && self.slot() == BANKED
    }
}

/// True if a bank's run is what a request wants.
#[inline(always)]
fn suits(descriptor: &Descriptor, address: usize, granules: u32, align: usize) -> bool {
    let more = descriptor.granules.load(Ordering::Relaxed).wrapping_sub(granules);
    more <= granules / SPARE_PART && address & (align - 1) == 0
}

impl<P: Platform> PageHeap<P> {
    #[inline(always)]
    fn banked(&self, address: usize) -> Option<&Descriptor> {
        let index = self.region.granule_of(address)?;
        Some(self.region.descriptor(index)).filter(|descriptor| descriptor.is_banked())
    }

    /// Takes a run for so many bytes out of this CPU's bank, outside of a slow path.
    #[inline(always)]
    pub(crate) fn take_banked(&self, bytes: usize, align: usize) -> Banked {
        let p = &self.platform;
        if bytes > LARGEST as usize * GRANULE {
            return Banked::Nothing;
        }
        let granules = self.granules_for(bytes) as u32;
        let Some(slot) = bank_of(granules) else { return Banked::Nothing };
        let top = p.row_hint().and_then(|row| self.sheaves.top_object(p.rows().entry(row, slot)));
        let Some(top) = top else { return Banked::Nothing };
        let Some(descriptor) = self.banked(top) else { return Banked::Nothing };
        if !suits(descriptor, top, granules, align) || !self.is_near(top) {
            return Banked::Nothing;
        }
        let Some(address) = p.pop(slot) else { return Banked::Nothing };
        // Between the look and the pop another thread may have had it, and changed its size.
        if address == top && suits(descriptor, top, granules, align) {
            descriptor.set(Kind::Run, 0, 0);
            return Banked::Run(address);
        }
        self.take_other(address, granules, align)
    }

    /// What this thread took is not what was on top: it may have moved to another CPU meanwhile.
    #[cold]
    #[inline(never)]
    fn take_other(&self, address: usize, granules: u32, align: usize) -> Banked {
        let Some(descriptor) = self.banked(address) else { return Banked::Nothing };
        descriptor.set(Kind::Run, 0, 0);
        if suits(descriptor, address, granules, align) && self.is_near(address) {
            Banked::Run(address)
        } else {
            Banked::Other(address)
        }
    }

    #[inline(always)]
    fn is_near(&self, address: usize) -> bool {
        P::MOST_NODES == 1
            || self.region.granule_of(address).is_some_and(|index| self.is_of(index, self.near()))
    }

    /// Granule, descriptor and bank of a live run that may go to a bank.
    #[inline(always)]
    fn bankable(&self, address: usize) -> Option<(u32, &Descriptor, Slot)> {
        let index = self.region.granule_of(address)?;
        if self.region.map_value(index) != 0 || address & (GRANULE - 1) != 0 {
            return None;
        }
        let descriptor = self.region.descriptor(index);
        let may =
            descriptor.kind() == Kind::Run && self.page_lists().is_none() && self.is_near(address);
        let slot = bank_of(descriptor.granules.load(Ordering::Relaxed)).filter(|_| may)?;
        Some((index, descriptor, slot))
    }

    /// From here on the run is free: of two threads that free it, one gets it.
    #[inline(always)]
    fn begin_banked(&self, index: u32, descriptor: &Descriptor) -> bool {
        let granules = descriptor.granules.load(Ordering::Relaxed) as usize;
        // Before, as in `end_live_run`; other CPUs read the words of these bits, too.
        if !self.region.is_all_dirty(index as usize, granules) {
            self.region.set_dirty(index as usize, granules, true);
        }
        descriptor.change_run(Kind::Parked, BANKED)
    }

    /// Puts a live run into this CPU's bank, outside of a slow path too; returns its bytes. `None` if
    /// there is no bank, or no room in it.
    #[inline(always)]
    pub(crate) fn bank_run(&self, address: usize) -> Option<usize> {
        let p = &self.platform;
        let (index, descriptor, slot) = self.bankable(address)?;
        let entry = p.rows().entry(p.row_hint()?, slot);
        // A stopped entry's top is above each end.
        if entry.top() >= entry.end() || !self.begin_banked(index, descriptor) {
            return None;
        }
        let granules = descriptor.granules.load(Ordering::Relaxed);
        if p.push(slot, address) {
            return Some(granules as usize * GRANULE);
        }
        descriptor.set(Kind::Run, 0, 0);
        None
    }

    /// In a slow path: puts a live run into this CPU's bank, which it makes if there is none, or in
    /// the place of the newest one of another size: so a bank follows what a program does now.
    pub(crate) fn bank_in_slow_path(&self, address: usize) -> Option<usize> {
        let p = &self.platform;
        let (index, descriptor, slot) = self.bankable(address)?;
        let entry = p.rows().entry(p.row_hint()?, slot);
        let granules = descriptor.granules.load(Ordering::Relaxed);
        if !entry.is_none() {
            let other = |top| Some(self.banked(top)?.granules.load(Ordering::Relaxed) != granules);
            if entry.top() == entry.end()
                && self.sheaves.top_object(entry).and_then(other) == Some(true)
                && let Some(other) = p.pop(slot)
            {
                self.free_parked_run(other);
            }
            return self.bank_run(address);
        }
        if !self.begin_banked(index, descriptor) {
            return None;
        }
        if self.put_list(slot, capacity_for(granules), address) {
            return Some(granules as usize * GRANULE);
        }
        descriptor.set(Kind::Run, 0, 0);
        None
    }

    /// Of a run that left a bank, or is to: it is no live run any more. Its granules.
    pub(super) fn end_banked(&self, descriptor: &Descriptor) -> usize {
        let granules = descriptor.granules.load(Ordering::Relaxed) as usize;
        self.buddy.nr_runs.fetch_sub(1, Ordering::Relaxed);
        self.buddy.run_granules.fetch_sub(granules, Ordering::Relaxed);
        granules
    }

    /// In the child of a fork, before [`PageHeap::rebuild`]: a run that a stopped bank holds is
    /// free.
    pub(crate) fn forget_banked(&self, address: usize) {
        if let Some(descriptor) = self.banked(address) {
            descriptor.set(Kind::None, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::platform::machine::{Config, Machine};
    use crate::yard::{Settings, Yard};
    use std::boxed::Box;

    fn yard() -> Box<Yard<Machine>> {
        let yard: Box<Yard<Machine>> = Box::new(Yard::new(Machine::new(Config::default())));
        assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
        yard
    }

    /// Each slow path adds to it.
    fn slow_paths(yard: &Yard<Machine>) -> u32 {
        yard.platform().depth().load(Ordering::Relaxed)
    }

    fn alloc(yard: &Yard<Machine>, bytes: usize) -> usize {
        yard.alloc(bytes, 16).expect("memory")
    }

    #[test]
    fn each_size_has_a_bank_with_room_for_two_at_least() {
        let bank = |granules| bank_of(granules).map(|it| it.0);
        let banks: std::vec::Vec<_> = (0..200).map(bank).collect();
        let first = row::FIRST_BANK as u16;
        let ends = [9, 13, 17, 25, 33, 49, 65, 97, 129];
        for (nth, pair) in ends.windows(2).enumerate() {
            assert!(banks[pair[0]..pair[1]].iter().all(|bank| *bank == Some(first + nth as u16)));
            for granules in pair[0]..pair[1] {
                let room = capacity_for(granules as u32) as usize;
                assert!((2..=row::MOST_BANKED).contains(&room), "{granules} granules");
                assert!(room * granules * GRANULE <= BANK_BYTES.max(2 * granules * GRANULE));
            }
        }
        assert!(banks[..9].iter().chain(&banks[129..]).all(Option::is_none));
    }

    #[test]
    fn a_freed_run_serves_the_next_request_of_its_size_without_a_slow_path() {
        let yard = yard();
        for bytes in [40_000, 100_000, 200_000, 500_000] {
            let run = alloc(&yard, bytes);
            assert_eq!(yard.free(run), Ok(()));
            let paths = slow_paths(&yard);
            for _ in 0..100 {
                assert_eq!(yard.alloc(bytes, 16), Some(run));
                assert_eq!(yard.free(run), Ok(()));
            }
            assert_eq!(slow_paths(&yard), paths);
            assert_eq!(yard.free(run), Err(Place::Free), "freed twice");
            assert_eq!(yard.verify().expect("no slow path").expect("sound").runs, 0);
            yard.trim();
        }
    }

    #[test]
    fn a_bank_holds_few_runs_and_a_trim_empties_it() {
        let yard = yard();
        let parked = || yard.quiesce(|quiesced| quiesced.parked_runs()).expect("no slow path");
        for (bytes, most) in [(500_000, 2), (200_000, 4), (40_000, row::MOST_BANKED)] {
            let runs = [(); 30].map(|()| alloc(&yard, bytes));
            runs.iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
            assert_eq!(parked().banked, most);
            let (runs, granules) = yard.heap.buddy.runs();
            assert_eq!((runs, granules), (most, parked().banked_granules));
            yard.trim();
            assert_eq!((parked().banked, yard.heap.buddy.runs()), (0, (0, 0)));
            assert_eq!(yard.heap.free_count().dirty, 0);
            yard.verify().expect("no slow path").expect("sound");
        }
    }

    /// The ticker runs as long as a bank has runs, however long they were in use.
    #[test]
    fn what_an_idle_bank_has_goes_back_to_the_system() {
        let yard = yard();
        let p = yard.platform();
        let runs = [40_000, 200_000].map(|bytes| alloc(&yard, bytes));
        runs.iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
        let object = yard.alloc_fast(64, 16).expect("memory");
        let mut object = Some(object);
        for ms in 0..4000 {
            p.advance(1);
            if ms < 2000 {
                let run = alloc(&yard, 40_000);
                assert_eq!(yard.free_fast(run), Ok(()));
            }
            for _ in 0..20 {
                assert_eq!(object.take().map(|object| yard.free_fast(object)), Some(Ok(())));
                object = yard.alloc_fast(64, 16);
            }
            assert!(ms >= 2000 || yard.is_ticking());
        }
        let parked = yard.quiesce(|quiesced| quiesced.parked_runs()).expect("no slow path");
        assert_eq!((parked.banked, yard.heap.free_count().dirty / 64), (0, 0));
        assert!(!yard.is_ticking(), "nothing is left to do");
    }

    /// A request that the system refuses gets what banks have.
    #[test]
    fn a_refused_request_takes_what_banks_have() {
        let yard: Box<Yard<Machine>> = Box::new(Yard::new(Machine::new(Config::default())));
        assert!(yard.init(Settings { reserve_bytes: 16 << 20, decay_ms: 250 }));
        let mut runs: std::vec::Vec<_> =
            core::iter::from_fn(|| yard.heap.alloc_run(64 << 10, 16)).collect();
        runs.sort_unstable();
        runs[..8].iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
        assert!(yard.heap.alloc_run(100_000, 16).is_none());
        let run = yard.alloc(100_000, 16).expect("what the bank had");
        assert!((runs[0]..runs[8]).contains(&run));
    }

    /// Of another size, or aligned otherwise, it stays where it is; all of it may hold other than
    /// zeros.
    #[test]
    fn a_banked_run_serves_no_other_request_and_is_dirty() {
        let yard = yard();
        let run = alloc(&yard, 100_000);
        assert_eq!(yard.free(run), Ok(()));
        for (bytes, align) in [(110_000, 16), (80_000, 16), (100_000, 1 << 20)] {
            let other = yard.alloc(bytes, align).expect("memory");
            assert!(other != run && other.is_multiple_of(align));
        }
        assert_eq!(yard.alloc(100_000, 16), Some(run));
        let mut dirty = 0;
        yard.each_dirty_part(run, 100_000, |_, bytes| dirty += bytes);
        assert_eq!(dirty, 100_000);
    }

    #[test]
    fn a_bank_that_is_full_of_other_sizes_takes_a_new_one() {
        let yard = yard();
        let sizes = [36_864, 49_152];
        for bytes in sizes {
            let runs = [(); 30].map(|()| alloc(&yard, bytes));
            runs.iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
        }
        let run = alloc(&yard, sizes[1]);
        assert_eq!(yard.free(run), Ok(()));
        assert_eq!(yard.alloc(sizes[1], 16), Some(run));
        let paths = slow_paths(&yard);
        assert_eq!(yard.free(run), Ok(()));
        assert_eq!(yard.alloc(sizes[1], 16), Some(run));
        assert_eq!(slow_paths(&yard), paths);
        yard.verify().expect("no slow path").expect("sound");
    }

    #[test]
    fn a_run_that_is_in_a_bank_twice_is_found() {
        let yard = yard();
        let runs = [(); 2].map(|()| alloc(&yard, 100_000));
        runs.iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
        let slot = bank_of(25).expect("a bank");
        assert!(yard.platform().push(slot, runs[0]));
        let found = yard.verify().expect("no slow path");
        assert_eq!(found.expect_err("a fault").what, "runs in banks");
    }
}
