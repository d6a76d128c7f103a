//! Huge pages: which parts of the region's begin may have them, where the system makes them
//! everywhere (`always`).
//!
//! A huge page is resident as a whole once a part of it is touched, and of a small heap a
//! good part may never be: large objects that are not written to their end, pages that were
//! given back, objects in sheaves that nobody wrote yet. What a region grows into can be
//! decided before it is touched only. So it is asked what became of the pages before: if all
//! but a tenth of them are resident, the next ones may be huge.
//!
//! Neighbours: [`super::region`] asks and decides while it grows, by one thread at a time.

use crate::platform::{GRANULE, Platform};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Granules of a huge page, and their order: the begin of the region is aligned to it.
/// What is taken, committed and given back in whole ones keeps its huge pages; a page
/// table that a part of one left behind stays, and with it pages of 4 KiB.
pub const HUGE: usize = (2 << 20) / GRANULE;
pub(super) const HUGE_ORDER: u32 = HUGE.ilog2();

/// Granules at the begin of the region that are decided, 64 MiB: beyond, all may be huge.
pub(super) const DECIDED: usize = 32 * HUGE;

/// Granules that have small pages whatever they hold, 16 MiB: the last huge page of a heap is
/// half empty in the mean, which is much of a smaller one.
pub(super) const ALWAYS_SMALL: usize = 8 * HUGE;

/// Granules before the end that are looked at.
const LOOKED_AT: usize = 2 * HUGE;

const _: () = assert!(LOOKED_AT <= ALWAYS_SMALL);

/// One part of so many need not be in memory.
const PART: usize = 10;

/// What was decided.
pub(super) struct PageSizes {
    /// Granules, from the begin, of which it is told what pages they have.
    decided: AtomicUsize,
    /// A bit for each place of a huge page at the begin, which has small ones for good.
    small: AtomicU32,
}

const _: () = assert!(DECIDED / HUGE <= u32::BITS as usize);

impl PageSizes {
    pub(super) const fn new() -> Self {
        PageSizes { decided: AtomicUsize::new(0), small: AtomicU32::new(0) }
    }

    /// Decides for what lies below `end`, and below `most`, if it is to be decided still.
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
            p.keep_small_pages(base + first * GRANULE, (end - first) * GRANULE);
            for nth in first / HUGE..end / HUGE {
                self.small.fetch_or(1 << nth, Ordering::Relaxed);
            }
        }
        self.decided.store(end, Ordering::Relaxed);
    }

    /// True if it was decided that this place of a huge page has small ones.
    pub(super) fn are_small(&self, nth: usize) -> bool {
        nth < u32::BITS as usize && self.small.load(Ordering::Relaxed) >> nth & 1 == 1
    }
}

/// True if what follows `end`, an address of which all before is committed, may have huge
/// pages: what lies before it is in memory. Of a huge page all is, so that a heap that was
/// dense once stays so.
pub(super) fn is_dense<P: Platform>(p: &P, end: usize) -> bool {
    are_resident(p, end - LOOKED_AT * GRANULE, LOOKED_AT * GRANULE)
}

/// True if a huge page at this address would make more resident than there is, by more than
/// the part that is left to chance.
pub(super) fn is_sparse<P: Platform>(p: &P, address: usize) -> bool {
    !are_resident(p, address, HUGE * GRANULE)
}

fn are_resident<P: Platform>(p: &P, address: usize, bytes: usize) -> bool {
    bytes - p.resident(address, bytes) <= bytes / PART
}
