//! Moves objects through quarantine: a free adds them; later they return to their slabs.
//!
//! Neighbour: [`super::quarantine`] is the ring.

use super::Debug;
use super::quarantine::{BYTES, LEAST, MOST};
use crate::engine::Moving;
use crate::engine::page_slabs::PageSlabs;
use crate::engine::partial;
use crate::platform::{Platform, Stack};
use crate::sync::{AtomicUsize, Ordering};

impl Debug {
    fn ring<'a, P: Platform>(&self, on: PageSlabs<'a, P>) -> &'a [AtomicUsize] {
        on.heap.sheaves.objects_of(self.quarantine.top.load(Ordering::Relaxed))
    }

    fn publish<P: Platform>(&self, on: PageSlabs<'_, P>) {
        on.cache.shown.barn_objects.store(self.quarantine.len().into(), Ordering::Relaxed);
    }

    /// A freed object waits; the oldest returns to its slab where there is no room for both.
    pub(super) fn quarantine<P: Platform>(&self, on: PageSlabs<'_, P>, object: usize) {
        if self.quarantine.top.load(Ordering::Relaxed) == 0 {
            self.begin_quarantine(on);
        }
        let list = partial::lock(&on);
        let oldest = self.quarantine.push(self.ring(on), object);
        self.publish(on);
        drop(list);
        if let Some(oldest) = oldest {
            self.return_to_slab(on, oldest);
        }
    }

    /// Takes an array for the ring.
    #[cold]
    fn begin_quarantine<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let (sheaves, p) = (&on.heap.sheaves, &on.heap.platform);
        let wanted = (BYTES / on.cache.shape().geometry.size).clamp(LEAST, MOST);
        let Some(mut array) = sheaves.take(p, wanted) else { return };
        (0..wanted).for_each(|_| sheaves.push(&mut array, 0));
        let list = partial::lock(&on);
        if self.quarantine.top.load(Ordering::Relaxed) == 0 {
            let Stack { top, .. } = sheaves.publish(array, wanted);
            self.quarantine.top.store(top, Ordering::Relaxed);
            return;
        }
        drop(list);
        sheaves.shorten(&mut array, wanted);
        sheaves.give(p, array);
    }

    /// Returns all to their slabs.
    pub(super) fn empty_quarantine<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let _moving = Moving::aside(on);
        loop {
            let list = partial::lock(&on);
            let oldest = self.quarantine.pop(self.ring(on));
            self.publish(on);
            drop(list);
            let Some(oldest) = oldest else { return };
            self.return_to_slab(on, oldest);
        }
    }

    /// In the child of a fork: nothing waits here. What did is free in its slab.
    pub(super) fn forget_quarantine<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.quarantine.len.store(0, Ordering::Relaxed);
        self.quarantine.first.store(0, Ordering::Relaxed);
        self.publish(on);
    }

    /// Gives the array back: the quarantine is empty, and nobody uses the cache any more.
    pub(super) fn end_quarantine<P: Platform>(&self, on: PageSlabs<'_, P>) {
        let (sheaves, top) = (&on.heap.sheaves, self.quarantine.top.swap(0, Ordering::Relaxed));
        if let Some(mut array) = sheaves.adopt(Stack { top, end: 0 }) {
            let len = array.len();
            sheaves.shorten(&mut array, len);
            sheaves.give(&on.heap.platform, array);
        }
    }

    /// Calls `f` with each object that waits.
    pub(super) fn each_in_quarantine<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        mut f: impl FnMut(usize),
    ) {
        let _list = partial::lock(&on);
        let ring = self.ring(on);
        let first = self.quarantine.first.load(Ordering::Relaxed) as usize;
        for nth in 0..self.quarantine.len() as usize {
            f(ring[(first + nth) % ring.len()].load(Ordering::Relaxed));
        }
    }

    /// True if readers see as many objects as wait (for `verify`).
    pub(super) fn is_quarantine_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let shown = on.cache.shown.barn_objects.load(Ordering::Relaxed);
        shown == u64::from(self.quarantine.len())
    }
}
