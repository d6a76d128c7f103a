//! The quarantine: freed objects wait in the order of their frees before they return to their
//! slabs.
//!
//! It is a ring of addresses in one array of the pool of sheaves, with room for some [`BYTES`] of
//! objects. External readers count its objects as a barn's. Invariant: only the holder of the list
//! lock changes it. If there is no memory for the array, no object is quarantined.

use crate::engine::page_slabs::PageSlabs;
use crate::engine::partial;
use crate::platform::{Platform, Stack};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Bytes that wait in a cache.
const BYTES: u32 = 256 << 10;
/// Objects that wait, at least and at most.
const LEAST: u32 = 8;
const MOST: u32 = slabyard_abi::region::SHEAF_OBJECTS as u32;

/// The ring, under the list lock.
pub(super) struct Quarantine {
    /// The array's, while it is out of the pool: an element number behind its last; 0 without one.
    top: AtomicU32,
    /// The oldest.
    first: AtomicU32,
    len: AtomicU32,
}

impl Quarantine {
    pub(super) const fn new() -> Self {
        Quarantine { top: AtomicU32::new(0), first: AtomicU32::new(0), len: AtomicU32::new(0) }
    }

    fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    fn ring<'a, P: Platform>(&self, on: PageSlabs<'a, P>) -> &'a [AtomicUsize] {
        on.heap.sheaves.objects_of(self.top.load(Ordering::Relaxed))
    }

    fn publish<P: Platform>(&self, on: PageSlabs<'_, P>) {
        on.cache.shown.barn_objects.store(self.len().into(), Ordering::Relaxed);
    }

    /// A freed object waits. Returns the oldest if there is no room for both.
    pub(super) fn push<P: Platform>(&self, on: PageSlabs<'_, P>, object: usize) -> Option<usize> {
        if self.top.load(Ordering::Relaxed) == 0 {
            self.begin(on);
        }
        let _list = partial::lock(&on);
        let ring = self.ring(on);
        let (room, len) = (ring.len() as u32, self.len());
        if room == 0 {
            return Some(object);
        }
        let first = self.first.load(Ordering::Relaxed);
        if len == room {
            let oldest = ring[first as usize].swap(object, Ordering::Relaxed);
            self.first.store((first + 1) % room, Ordering::Relaxed);
            return Some(oldest);
        }
        ring[((first + len) % room) as usize].store(object, Ordering::Relaxed);
        self.len.store(len + 1, Ordering::Relaxed);
        self.publish(on);
        None
    }

    /// Takes an array for the ring.
    #[cold]
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let (sheaves, p) = (&on.heap.sheaves, &on.heap.platform);
        let wanted = (BYTES / on.cache.shape().geometry.size).clamp(LEAST, MOST);
        let Some(mut array) = sheaves.take(p, wanted) else { return };
        (0..wanted).for_each(|_| sheaves.push(&mut array, 0));
        let list = partial::lock(&on);
        if self.top.load(Ordering::Relaxed) == 0 {
            let Stack { top, .. } = sheaves.publish(array, wanted);
            self.top.store(top, Ordering::Relaxed);
            return;
        }
        drop(list);
        sheaves.shorten(&mut array, wanted);
        sheaves.give(p, array);
    }

    /// Takes the oldest.
    pub(super) fn pop<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let _list = partial::lock(&on);
        let ring = self.ring(on);
        let first = self.first.load(Ordering::Relaxed);
        self.len.store(self.len().checked_sub(1)?, Ordering::Relaxed);
        self.first.store((first + 1) % ring.len() as u32, Ordering::Relaxed);
        self.publish(on);
        Some(ring[first as usize].load(Ordering::Relaxed))
    }

    /// In the child of a fork: nothing waits here. What did is free in its slab.
    pub(super) fn forget<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.len.store(0, Ordering::Relaxed);
        self.first.store(0, Ordering::Relaxed);
        self.publish(on);
    }

    /// Gives the array back: it is empty, and nobody uses the cache any more.
    pub(super) fn end<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let (sheaves, top) = (&on.heap.sheaves, self.top.swap(0, Ordering::Relaxed));
        if let Some(mut array) = sheaves.adopt(Stack { top, end: 0 }) {
            let len = array.len();
            sheaves.shorten(&mut array, len);
            sheaves.give(&on.heap.platform, array);
        }
    }

    /// Calls `f` with each object that waits.
    pub(super) fn each<P: Platform>(&self, on: PageSlabs<'_, P>, mut f: impl FnMut(usize)) {
        let _list = partial::lock(&on);
        let ring = self.ring(on);
        let first = self.first.load(Ordering::Relaxed) as usize;
        for nth in 0..self.len() as usize {
            f(ring[(first + nth) % ring.len()].load(Ordering::Relaxed));
        }
    }

    /// True if readers see as many objects as wait (for `verify`).
    pub(super) fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        on.cache.shown.barn_objects.load(Ordering::Relaxed) == u64::from(self.len())
    }
}
