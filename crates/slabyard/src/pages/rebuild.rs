//! Repairs the page heap in the child of a fork if the parent's threads were working on it: locks
//! may belong to threads that do not exist, and lists may be half changed.
//!
//! Page descriptors are always right: the kind and size of a run or slab are set before its owner
//! gets it, and the kind is cleared before another thread gets its memory. All granules between
//! runs are free, even if a thread was moving them at the fork. Their dirty bits are right too:
//! they are set before the kind is cleared. So one walk over the descriptors rebuilds the buddy's
//! lists ([`rebuild`]). It writes only to descriptors of free memory, so a child copies few pages.
//!
//! Neighbours: [`crate::child`] calls [`rebuild`] and examines each slab during the walk.
//! Invariant: no other thread is in a slow path.

use super::blocks::{HIGHEST_ORDER, Lists};
use super::descriptor::GranuleKind;
use super::heap::PageHeap;
use super::region::Region;
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

/// In place of granules: a parked run that a row's list holds.
const ON_LIST: u32 = u32::MAX;

/// Frees the locks that threads hold which are not there.
pub(crate) fn abandon_locks<P: Platform>(heap: &PageHeap<P>) {
    heap.sheaves.abandon(&heap.platform);
    heap.region.abandon(&heap.platform);
    heap.advice.abandon();
    heap.buddy.abandon();
    heap.rcu.abandon();
    heap.held.abandon();
}

/// Marks a run that a row's list holds: the others of kind [`GranuleKind::Parked`] are in the hands of
/// threads that are not there.
pub(crate) fn mark_on_list(region: &Region, address: usize) {
    let granule = region.granule_of(address);
    let descriptor = granule.map(|granule| region.descriptor(granule));
    if let Some(descriptor) =
        descriptor.filter(|it| it.kind() == GranuleKind::Parked && !it.is_banked())
    {
        descriptor.granules.store(ON_LIST, Ordering::Relaxed);
    }
}

/// Makes the buddy's lists anew, and counts live runs and mappings. Calls `slab` with each slab.
pub(crate) fn rebuild<P: Platform>(heap: &PageHeap<P>, mut slab: impl FnMut(u32)) {
    let region = &heap.region;
    let top = region.top();
    let most_order = heap.buddy.lock(&heap.platform).most_order();
    let mut lists = Lists::with_most_order(most_order);
    let (mut runs, mut run_granules) = (0, 0);
    let mut at = heap.platform.page_bytes() / GRANULE;
    // The first granule of the free range that ends here.
    let mut begin = at;
    while at < top {
        let descriptor = region.descriptor(at as u32);
        let kind = descriptor.kind();
        let granules = match kind {
            GranuleKind::None => 1,
            GranuleKind::Parked if descriptor.is_banked() => {
                descriptor.granules.load(Ordering::Relaxed) as usize
            }
            GranuleKind::Run | GranuleKind::Freed => {
                descriptor.granules.load(Ordering::Relaxed) as usize
            }
            _ => 1 << descriptor.order(),
        }
        .max(1);
        let is_live = match kind {
            GranuleKind::None | GranuleKind::Free | GranuleKind::Purging | GranuleKind::Freed => {
                false
            }
            // In a bank or in a hand, it counts among the live runs.
            GranuleKind::Parked if descriptor.is_banked() => {
                runs += 1;
                run_granules += granules;
                true
            }
            GranuleKind::Parked => descriptor.granules.swap(0, Ordering::Relaxed) == ON_LIST,
            GranuleKind::Run => {
                runs += 1;
                run_granules += granules;
                true
            }
            GranuleKind::Held => {
                run_granules += granules;
                true
            }
            GranuleKind::Slab => {
                slab(at as u32);
                true
            }
        };
        if is_live {
            insert_range(heap, &mut lists, begin, at);
            begin = at + granules;
        } else if kind != GranuleKind::None {
            descriptor.set(GranuleKind::None, 0, 0);
        }
        at += granules;
    }
    insert_range(heap, &mut lists, begin, top);
    *heap.buddy.lock(&heap.platform) = lists;
    heap.buddy.nr_runs.store(runs, Ordering::Relaxed);
    heap.buddy.run_granules.store(run_granules, Ordering::Relaxed);
    heap.mappings.count_anew();
}

/// Frees a range of which no descriptor has a kind.
fn insert_range<P: Platform>(heap: &PageHeap<P>, lists: &mut Lists, mut at: usize, end: usize) {
    let (region, now) = (&heap.region, heap.platform.now_ms() as u32);
    while at < end {
        let most = lists.most_order().min(HIGHEST_ORDER);
        let order = at.trailing_zeros().min((end - at).ilog2()).min(most);
        let dirty = region.dirty_in(at, 1 << order);
        lists.insert(region, at as u32, order, dirty > 0, now, true);
        lists.dirty_granules += dirty;
        at += 1 << order;
    }
}
