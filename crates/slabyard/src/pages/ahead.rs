//! Memory that slabs take for the first time is faulted in ahead: a heap that grows takes the next
//! pages soon, and a fault for several pages by one call costs a fifth to a half less than one for
//! each, because the system enters and leaves once.
//!
//! Where little is dirty, so that a slab would get memory that was never touched, this CPU takes a
//! larger run in its place, has it faulted in by one call, and parks what is left for the next slabs.
//! What may be left over is small beside the heap: a run has a [`PART`]th of it, and [`MOST`] granules
//! at most. And only a heap that grew by as much since the last such run takes one: what is left
//! over of a heap that does not grow goes back when it is idle, and is not taken anew.
//!
//! Beside a build without it, 27 loads take 0.979 to 0.988 of the wall time and 0.975 to 0.984 of
//! the CPU time, at 1.006 of the peak. With larger objects too the peak was 1.012, of one load
//! 1.046: a program may never write to the whole of such an object.
//!
//! Neighbours: [`super::percpu`] asks, and has what is left.

use super::PageHeap;
use super::huge::HUGE;
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

/// The largest run that is faulted in by one call: 64 KiB, beyond which a page hardly costs less.
const MOST: usize = (64 << 10) / GRANULE;

/// The largest objects, in bytes: of larger ones a program may never write to some pages.
const LARGEST: u32 = 2048;

/// And so small a part of the heap, so that a small process has no page that it does not use.
const PART: usize = 128;

impl<P: Platform> PageHeap<P> {
    /// Takes a run of 2^order granules, for objects of so many bytes, out of a larger one that was
    /// never touched, which is faulted in; what is left is parked. `None` where free pages are to be
    /// used again, and where the heap is small.
    pub(super) fn take_ahead(&self, order: u32, object: u32) -> Option<u32> {
        let part = (self.region.top() / PART).min(MOST);
        let granules = 1 << part.checked_ilog2()?;
        let wanted = 1 << order;
        if object > LARGEST || granules <= wanted || self.buddy.dirty_hint() >= granules {
            return None;
        }
        // Hints, which threads overwrite: a wrong one makes a run too many or too few.
        let used = self.region.top().saturating_sub(self.buddy.free_hint());
        let grown_to = self.buddy.grown_to.load(Ordering::Relaxed);
        if used < grown_to {
            self.buddy.grown_to.store(grown_to.min(used + granules), Ordering::Relaxed);
            return None;
        }
        let first = self.take_run(granules, granules)?;
        self.buddy.grown_to.store(used + granules, Ordering::Relaxed);
        if self.region.dirty_in(first as usize, granules) == 0 && self.has_small_pages(first) {
            self.platform.touch_ahead(self.region.address(first), granules * GRANULE);
        }
        for rest in (wanted..granules).step_by(wanted) {
            self.free_block(first + rest as u32, order);
        }
        Some(first)
    }

    /// True if a granule is faulted in alone.
    fn has_small_pages(&self, index: u32) -> bool {
        !self.platform.has_huge_pages() || self.region.has_small_pages(index as usize / HUGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::machine::{Config, Machine};
    use crate::yard::{Settings, Yard};
    use std::boxed::Box;
    use std::vec::Vec;

    const OBJECT: usize = 2048;

    fn yard(config: Config) -> Box<Yard<Machine>> {
        let yard: Box<Yard<Machine>> = Box::new(Yard::new(Machine::new(config)));
        assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
        yard
    }

    fn fill(yard: &Yard<Machine>, bytes: usize) -> Vec<usize> {
        (0..bytes / OBJECT).map(|_| yard.alloc_fast(OBJECT, 16).expect("memory")).collect()
    }

    /// Bytes of the yard that were faulted in by calls for several pages.
    fn ahead(yard: &Yard<Machine>) -> usize {
        yard.platform().tally().touched_bytes as usize
    }

    #[test]
    fn a_heap_that_grows_is_faulted_in_by_calls_for_many_pages() {
        let yard = yard(Config::default());
        fill(&yard, 8 << 20);
        let (before, calls) = (ahead(&yard), yard.platform().tally().touches);
        fill(&yard, 16 << 20);
        let calls = (yard.platform().tally().touches - calls) as usize;
        let bytes = ahead(&yard) - before;
        assert!((15 << 20..18 << 20).contains(&bytes), "{bytes} bytes of 16 MiB");
        assert!(bytes / calls >= MOST * GRANULE * 9 / 10, "{bytes} bytes in {calls} calls");
        yard.verify().expect("no slow path").expect("sound");
    }

    #[test]
    fn what_is_faulted_in_and_not_used_is_small_beside_the_heap_and_goes_back() {
        let yard = yard(Config::default());
        let mut objects = Vec::new();
        for mib in 1..24 {
            objects.extend(fill(&yard, 1 << 20));
            let dirty = yard.heap.free_count().dirty;
            assert!(dirty * GRANULE <= mib << 15, "{dirty} granules of {mib} MiB");
        }
        objects.into_iter().for_each(|object| assert_eq!(yard.free_fast(object), Ok(())));
        yard.trim();
        assert_eq!(yard.heap.free_count().dirty, 0);
        fill(&yard, 1 << 20);
        let parked = yard.quiesce(|it| it.parked_runs().granules).expect("no slow path");
        assert!(parked <= MOST, "{parked} granules are parked");
    }

    /// What is dirty serves first.
    #[test]
    fn memory_that_was_used_is_not_faulted_in_again() {
        let yard = yard(Config::default());
        let objects = fill(&yard, 16 << 20);
        let before = ahead(&yard);
        for object in objects {
            assert_eq!(yard.free_fast(object), Ok(()));
        }
        fill(&yard, 12 << 20);
        let again = ahead(&yard) - before;
        assert!(again <= 1 << 20, "{again} bytes");
        yard.verify().expect("no slow path").expect("sound");
    }

    /// What is left over goes back once.
    #[test]
    fn a_heap_that_does_not_grow_takes_no_run_again_and_again() {
        let yard = yard(Config { cpus: 1, can_stop: false, ..Config::default() });
        fill(&yard, 16 << 20);
        let before = ahead(&yard);
        for _ in 0..100 {
            let objects = fill(&yard, 16 << 10);
            objects.into_iter().for_each(|object| assert_eq!(yard.free_fast(object), Ok(())));
            yard.trim();
        }
        let again = ahead(&yard) - before;
        assert!(again <= 1 << 20, "{again} bytes");
    }

    #[test]
    fn a_small_heap_is_faulted_in_page_by_page() {
        let yard = yard(Config::default());
        fill(&yard, 256 << 10);
        assert!(ahead(&yard) <= 64 << 10, "descriptors alone");
    }
}
