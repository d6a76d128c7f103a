//! Slabs set aside: if a slab's memory is found corrupt, its objects are not allocated any more,
//! and frees to it have no effect.
//!
//! Its free objects leave the free set, so that lists and counters treat the slab as full; its live
//! objects stay with their owners. The descriptor's `granules` field holds the mark.

use crate::pages::{PageHeap, Region};
use crate::platform::Platform;
use crate::slab::freeset;
use crate::sync::Ordering;

/// In place of granules, which a slab does not have.
const ASIDE: u32 = u32::MAX;

/// True if a slab was set aside.
pub fn is_slab_aside(region: &Region, slab: u32) -> bool {
    region.descriptor(slab).granules.load(Ordering::Relaxed) == ASIDE
}

/// Sets a slab aside; returns how many free objects it had. Its cache's list lock is held, and
/// the caller takes it off the list.
pub fn set_slab_aside<P: Platform>(heap: &PageHeap<P>, slab: u32) -> u32 {
    let lost = freeset::take(heap, slab, u32::MAX, false, |_, _| {}).0;
    heap.region.descriptor(slab).granules.store(ASIDE, Ordering::Relaxed);
    heap.reports.set_aside.fetch_add(lost.into(), Ordering::Relaxed);
    lost
}
