//! Discarded slabs whose pages wait for readers: those of caches with
//! [`CacheFlags::TYPESAFE_BY_RCU`](crate::cache::CacheFlags). Their pages are freed after a grace
//! period that began after the slab's last object was freed.
//!
//! Each slab records the epoch that it waits for. (The kernel has one RCU callback per slab.)
//!
//! Neighbours: the engine puts discarded slabs here; [`crate::waiting`] takes out those whose grace
//! period is over.

use super::descriptor::{GranuleKind, NIL};
use super::heap::PageHeap;
use super::region::Region;
use crate::platform::{Platform, Slot};
use crate::rcu::Epoch;
use crate::sync::Ordering;

/// A slab that waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) slab: u32,
    pub(crate) slot: Slot,
}

/// Holds a discarded slab until readers have left. Under no lock of a rank above `Waiting`.
pub(crate) fn hold<P: Platform>(heap: &PageHeap<P>, slab: u32, order: u32, slot: u16) {
    let descriptor = heap.region.descriptor(slab);
    descriptor.next.store(NIL, Ordering::Relaxed);
    let mut held = heap.held.lock(&heap.platform);
    // Under the lock, so that they do not fall.
    descriptor.bits[0].store(heap.rcu.wanted().number(), Ordering::Relaxed);
    descriptor.set(GranuleKind::Held, order, slot);
    if held.head == NIL {
        held.head = slab;
    } else {
        heap.region.descriptor(held.tail).next.store(slab, Ordering::Relaxed);
    }
    held.tail = slab;
    heap.nr_held.fetch_add(1, Ordering::Relaxed);
    heap.buddy.run_granules.fetch_add(1 << order, Ordering::Relaxed);
}

/// In the child of a fork: counts the slabs of the list, the last of which another thread may
/// have been about to put there.
pub(crate) fn count_anew<P: Platform>(heap: &PageHeap<P>) {
    let mut held = heap.held.lock(&heap.platform);
    let (mut at, mut nr) = (held.head, 0);
    while at != NIL {
        nr += 1;
        held.tail = at;
        at = heap.region.descriptor(at).next.load(Ordering::Relaxed);
    }
    heap.nr_held.store(nr, Ordering::Relaxed);
}

/// How many wait.
#[inline(always)]
pub(crate) fn nr<P>(heap: &PageHeap<P>) -> usize {
    heap.nr_held.load(Ordering::Relaxed)
}

/// The epoch that the first of the slabs waits for.
pub(crate) fn first<P: Platform>(heap: &PageHeap<P>) -> Option<Epoch> {
    if nr(heap) == 0 {
        return None;
    }
    let held = heap.held.lock(&heap.platform);
    (held.head != NIL).then(|| epoch_of(&heap.region, held.head))
}

fn epoch_of(region: &Region, slab: u32) -> Epoch {
    Epoch::of(region.descriptor(slab).bits[0].load(Ordering::Relaxed))
}

/// Takes the first slab whose time has come off the list; its descriptor is of kind
/// [`GranuleKind::None`] then.
pub(crate) fn take_waited<P: Platform>(heap: &PageHeap<P>) -> Option<Waited> {
    let mut held = heap.held.lock(&heap.platform);
    let slab = held.head;
    if slab == NIL || !heap.rcu.is_over(epoch_of(&heap.region, slab)) {
        return None;
    }
    let descriptor = heap.region.descriptor(slab);
    held.head = descriptor.next.load(Ordering::Relaxed);
    let (order, slot) = (descriptor.order(), Slot(descriptor.slot()));
    descriptor.set(GranuleKind::None, 0, 0);
    heap.nr_held.fetch_sub(1, Ordering::Relaxed);
    heap.buddy.run_granules.fetch_sub(1 << order, Ordering::Relaxed);
    Some(Waited { slab, slot })
}

/// Calls `f` with the slot of each slab that waits.
pub(crate) fn each<P: Platform>(heap: &PageHeap<P>, mut f: impl FnMut(Slot)) {
    let held = heap.held.lock(&heap.platform);
    let mut at = held.head;
    while at != NIL {
        let descriptor = heap.region.descriptor(at);
        f(Slot(descriptor.slot()));
        at = descriptor.next.load(Ordering::Relaxed);
    }
}
