//! What is parked and not used goes home: sheaves of CPUs that rest, full
//! sheaves that nobody takes out of the barn, empty slabs of idle caches.
//!
//! Draining another CPU's stack stops it first ([`Platform::stop`]); one fence
//! serves many stacks. The caller holds the drain lock.

use super::node::ENDED_AT_ONCE;
use super::{Cache, Moving};
use crate::pages::PageHeap;
use crate::platform::{Platform, Slot};
use crate::sync::Ordering;

/// What a round found of a cache when it came to it.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Objects of the barn that are to go home.
    pub unused: u32,
    /// No slow path since the last round.
    pub idle: bool,
}

impl Cache {
    /// What there is to do of this cache in a round.
    pub fn found<P: Platform>(&self, g: &PageHeap<P>) -> Found {
        let begun = self.shown.begun();
        let idle = self.seen.swap(begun, Ordering::Relaxed) == begun;
        Found { unused: self.barn_unused(g) * self.sheaf_capacity(), idle }
    }

    /// As [`Cache::moving`], for what a round does: it does not make the cache busy.
    fn moving_aside(&self) -> Moving<'_> {
        self.seen.fetch_add(1, Ordering::Relaxed);
        self.moving()
    }

    /// Everything parked on the node goes home, empty slabs end.
    pub fn shrink_node<P: Platform>(&self, g: &PageHeap<P>) {
        while self.flush_piece_aside(g, u32::MAX) > 0 {}
        self.barn_forget_empty(g);
        while self.discard_empty(g, u32::MAX) == ENDED_AT_ONCE {}
    }

    /// Ends a few of the empty slabs, [`ENDED_AT_ONCE`] at most: those that were kept
    /// for the next allocations. Returns how many.
    pub fn discard_some<P: Platform>(&self, g: &PageHeap<P>) -> u32 {
        // A slab is kept while `min_partial` others are on the list at most, and joins
        // at the tail: those behind were not empty when they came.
        self.discard_empty(g, self.min_partial().saturating_add(ENDED_AT_ONCE))
    }

    /// Full sheaves of the barn go home, down to so many.
    pub fn flush_barn_above<P: Platform>(&self, g: &PageHeap<P>, sheaves: u32) {
        while self.nr_full(g) > sheaves && self.flush_piece_aside(g, u32::MAX) > 0 {}
    }

    /// As [`Cache::flush_piece`], for a round.
    pub fn flush_piece_aside<P: Platform>(&self, g: &PageHeap<P>, most: u32) -> u32 {
        let _moving = self.moving_aside();
        self.flush_piece(g, most)
    }

    /// A full sheaf of the barn goes home, or as much of it as so many slab operations
    /// bring; returns how many objects.
    pub(super) fn flush_piece<P: Platform>(&self, g: &PageHeap<P>, most: u32) -> u32 {
        let Some(mut sheaf) = self.barn_take_full(g) else {
            return 0;
        };
        let gone = self.flush(g, &mut sheaf, most);
        if sheaf.is_empty() {
            self.barn_put_empty(g, sheaf);
        } else {
            self.barn_put_rest(g, sheaf);
        }
        gone
    }

    /// The objects of a stopped stack of this cache, whose top was `top`, go home.
    /// The caller takes the stack away.
    pub fn drain_stopped<P: Platform>(&self, g: &PageHeap<P>, top: u32) {
        let _moving = self.moving_aside();
        self.return_to_slabs(g, g.sheaves.objects_of(top), u32::MAX);
    }

    /// This CPU's own sheaves go home, without stopping anybody: what a platform
    /// that cannot stop does for the row of the calling thread.
    pub fn drain_own<P: Platform>(&self, g: &PageHeap<P>) {
        self.drain_own_slot(g, self.shape().main());
        self.drain_own_slot(g, self.shape().spare());
    }

    /// One of them goes home.
    pub fn drain_own_slot<P: Platform>(&self, g: &PageHeap<P>, slot: Slot) {
        let _moving = self.moving_aside();
        if let Ok(Some(mut sheaf)) = self.check_out(g, slot) {
            self.flush(g, &mut sheaf, u32::MAX);
            self.barn_put_empty(g, sheaf);
        }
    }
}
