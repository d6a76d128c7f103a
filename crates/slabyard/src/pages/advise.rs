//! Advises the kernel against huge pages after a purge, or for them again once an extent is free.
//!
//! Neighbour: [`super::advice`] records which advice the kernel has.

use super::advice::{LARGE, SMALL};
use crate::pages::PageHeap;
use crate::pages::blocks::is_free;
use crate::pages::huge::{ALWAYS_SMALL, HUGE, HUGE_ORDER, is_sparse};
use crate::platform::{Advice, GRANULE, Platform};
use crate::sync::Ordering;

/// True if the heap may have huge pages, for which nobody asked.
pub(super) fn has_huge_pages<P: Platform>(heap: &PageHeap<P>) -> bool {
    heap.region.top() > ALWAYS_SMALL && heap.platform.has_huge_pages()
}

/// Advises against huge pages for the extent in which this granule is, if it is sparse:
/// a part of it was given back, and the rest is not free.
pub(super) fn keep_sparse<P: Platform>(heap: &PageHeap<P>, granule: usize) {
    let (p, region) = (&heap.platform, &heap.region);
    let nth = granule / HUGE;
    if region.has_small_pages(nth) || !has_huge_pages(heap) {
        return;
    }
    let address = region.address((nth * HUGE) as u32);
    let mut given = heap.advice.given.lock(p);
    if given.get(nth) != SMALL
        && is_sparse(p, address)
        && given.ensure(p, nth + 1, region.granules() / HUGE)
        && given.set(nth, SMALL)
    {
        p.advise(address, HUGE * GRANULE, Advice::SmallPages);
        heap.advice.any.store(true, Ordering::Relaxed);
    }
}

/// Called when what is between these granules is clean and free: extents that are free
/// as a whole may have huge pages again.
pub(super) fn allow_whole<P: Platform>(heap: &PageHeap<P>, first: usize, end: usize) {
    if !heap.advice.any.load(Ordering::Relaxed) {
        return;
    }
    let (p, region) = (&heap.platform, &heap.region);
    for start in (first / HUGE * HUGE..end).step_by(HUGE) {
        let mut given = heap.advice.given.lock(p);
        // Advice alone: it does no harm if another thread takes a part of the extent now.
        let is_whole = given.get(start / HUGE) == SMALL && {
            let _lists = heap.buddy.lock(p);
            is_free(region, start, HUGE_ORDER)
        };
        if is_whole && given.set(start / HUGE, LARGE) {
            p.advise(region.address(start as u32), HUGE * GRANULE, Advice::HugePages);
        }
    }
}
