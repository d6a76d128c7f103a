//! Decides which parts of the region's start may have huge pages if THP is set to `always`.
//!
//! A huge page is resident as a whole once any part of it is touched, and a program may never touch
//! much of a small heap: the ends of large objects, pages that were given back, objects in sheaves
//! that were never used. The page size of new memory of the region can be chosen only before it is
//! touched. So the region examines the preceding pages: if at least nine tenths of them are
//! resident, the next ones may be huge.
//!
//! Neighbours: [`super::region`] calls this while it grows; one thread at a time grows it.

use crate::platform::{Advice, GRANULE, Platform};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Granules of a huge page, and their order: the start of the region is aligned to it.
/// Memory that is taken, committed and given back in whole ones keeps its huge pages; after
/// a part of one was given back its page table stays, and with it pages of 4 KiB.
pub const HUGE: usize = (2 << 20) / GRANULE;
pub(super) const HUGE_ORDER: u32 = HUGE.ilog2();

/// Granules at the start of the region for which this is decided, 64 MiB: beyond, all may
/// be huge.
/// With huge pages from 8 MiB on and no rule, 50 MB of objects took 67 MiB instead of 32
/// (1ea1a51); with small pages in all of the 64 MiB, a heap that is filled and emptied has 17,000
/// page faults instead of 5400.
pub(super) const DECIDED: usize = 32 * HUGE;

/// Granules that have small pages whatever they hold, 16 MiB: the last huge page of a heap is
/// half empty in the mean, which is much of a smaller one.
/// With 4 MiB the mean peak of the loads was above glibc's.
pub(super) const ALWAYS_SMALL: usize = 8 * HUGE;

/// Granules before the end that are looked at.
const LOOKED_AT: usize = 2 * HUGE;

const _: () = assert!(LOOKED_AT <= ALWAYS_SMALL);

/// One part in this many need not be resident.
const PART: usize = 10;

/// What was decided.
pub(super) struct PageSizes {
    /// Granules, from the start, whose page size is decided.
    decided: AtomicUsize,
    /// A bit for each extent of a huge page at the start: set if it has small pages for good.
    small: AtomicU32,
}

const _: () = assert!(DECIDED / HUGE <= u32::BITS as usize);

impl PageSizes {
    pub(super) const fn new() -> Self {
        PageSizes { decided: AtomicUsize::new(0), small: AtomicU32::new(0) }
    }

    /// Decides the page size of what is below `end`, and below `most`, if it is not decided yet.
    pub(super) fn decide<P: Platform>(
        &self,
        p: &P,
        base: usize,
        end: usize,
        most: usize,
        may_be_huge: bool,
    ) {
        let first = self.decided.load(Ordering::Relaxed);
        let end = end.max(ALWAYS_SMALL).next_multiple_of(HUGE).min(most);
        if end <= first {
            return;
        }
        if !may_be_huge {
            p.advise(base + first * GRANULE, (end - first) * GRANULE, Advice::SmallPages);
            for nth in first / HUGE..end / HUGE {
                self.small.fetch_or(1 << nth, Ordering::Relaxed);
            }
        }
        self.decided.store(end, Ordering::Relaxed);
    }

    /// True if this extent of a huge page was decided to have small ones.
    pub(super) fn are_small(&self, nth: usize) -> bool {
        nth < u32::BITS as usize && self.small.load(Ordering::Relaxed) >> nth & 1 == 1
    }
}

/// True if the memory behind `end` may have huge pages, because what is before it is
/// resident. All before `end` is committed. Of a huge page all is resident, so that a heap
/// that was dense once stays so.
pub(super) fn is_dense<P: Platform>(p: &P, end: usize) -> bool {
    are_resident(p, end - LOOKED_AT * GRANULE, LOOKED_AT * GRANULE)
}

/// True if a huge page at this address would make more memory resident than is now, by more
/// than one part in [`PART`].
pub(super) fn is_sparse<P: Platform>(p: &P, address: usize) -> bool {
    !are_resident(p, address, HUGE * GRANULE)
}

fn are_resident<P: Platform>(p: &P, address: usize, bytes: usize) -> bool {
    bytes - p.resident(address, bytes) <= bytes / PART
}
