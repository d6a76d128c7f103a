//! Repairs a cache in the child of a fork if the parent's threads were working on it. Locks may
//! belong to threads that do not exist, and lists and counts may be half changed.
//!
//! The slabs' bitmaps are right, as are the objects in stacks and barns. So the repair empties the
//! lists ([`empty_list`]), recounts and lists each slab that it finds ([`adopt`]), and counts the
//! chains of sheaves, which one store changes. Objects that a thread was moving stay live for ever:
//! at most one sheaf of them.
//!
//! Neighbours: [`crate::child`] walks over caches and slabs; an engine with more state than a list
//! repairs the rest ([`Repair`]). Invariant: no other thread is in a slow path.

use super::kind::EngineKind;
use super::page_slabs::Ruled;
use super::partial::{self};
use super::slabs::{Links, NodeList, Slabs};
use super::{Header, PageSlabs};
use crate::engine::partial_list::{End, Partial};
use crate::pages::descriptor::NIL;
use crate::platform::Platform;
use crate::slab::freeset;
use crate::sync::Ordering;

/// What the child of a fork repairs of a cache that its parent's threads were at work on.
#[doc(hidden)] // Part of `Engine`.
pub trait Repair: EngineKind {
    /// Locks are free, lists of slabs empty, what is parked on the node is counted. Returns how
    /// many objects those are of which the yard counts the bytes.
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        empty_list(on);
        0
    }

    /// After [`Repair::begin_child`]: counts the free objects of a slab of the cache anew, and lists
    /// it, unless a CPU has it. Takes no pages and gives none back. Returns how many they are.
    fn adopt<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32, of_cpu: bool) -> u32 {
        adopt(on, slab, of_cpu)
    }

    /// After all slabs were adopted.
    fn end_begin_child<P: Platform>(&self, _on: PageSlabs<'_, P>) {}
}

/// Empties a list of slabs, whoever holds its lock.
pub(super) fn empty_list<S: Slabs>(on: S) {
    on.list().abandon();
    let mut list = partial::lock(&on);
    *list = Partial::new();
    on.publish(&list);
}

/// Lists a slab that is on no list, if it has free objects.
pub fn list<S: Slabs>(on: S, slab: u32, free: u32) {
    if free > 0 {
        let mut list = partial::lock(&on);
        list.add(on, slab, End::Tail);
        on.publish(&list);
    }
}

/// Counts the free objects of a slab anew and lists it, unless a CPU has it (`of_cpu`). Returns how
/// many they are.
pub(super) fn adopt<P: Platform, R: Ruled>(
    on: PageSlabs<'_, P, R>,
    slab: u32,
    of_cpu: bool,
) -> u32 {
    let free = freeset::recount(on.heap, slab, &on.cache.shape().geometry, of_cpu);
    if of_cpu {
        return free;
    }
    // No CPU's list has it.
    if on.links(slab).prev() != NIL {
        on.links(slab).set_prev(NIL);
    }
    list(on, slab, free);
    free
}

impl Header {
    /// Counts a slab that was found, out of which this many objects are.
    pub fn count_found(&self, out: u64) {
        self.shown.nr_slabs.fetch_add(1, Ordering::Relaxed);
        self.shown.out.fetch_add(out, Ordering::Relaxed);
    }

    /// The counts of a cache with this many slabs, out of which this many objects are. As many slow
    /// paths have ended as began.
    pub(crate) fn count_anew(&self, slabs: u64, out: u64) {
        let shown = &self.shown;
        shown.nr_slabs.store(slabs, Ordering::Relaxed);
        shown.out.store(out, Ordering::Relaxed);
        shown.end_all();
    }
}
