//! Reclaim of a cache: flushes what is parked and unused (sheaves of idle CPUs, full
//! sheaves that stay in the barn), and ends the empty slabs of idle caches.
//!
//! Neighbours: a reclaim pass of the yard calls it; [`super::flush`] does the flushing.
//!
//! Draining another CPU's stack stops it first ([`Platform::stop`]); one fence
//! serves many stacks. The caller holds the drain lock.

use super::node::ENDED_AT_ONCE;
use super::{Cache, Moving};
use crate::pages::PageHeap;
use crate::platform::{Platform, Slot};
use crate::sync::Ordering;

/// What a reclaim pass finds at a cache.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Objects of the barn that are to be flushed.
    pub unused: u32,
    /// No slow path ran since the last pass.
    pub idle: bool,
}

impl Cache {
    /// Asks, once a pass, what there is to reclaim of this cache.
    pub fn found<P: Platform>(&self, g: &PageHeap<P>) -> Found {
        let begun = self.shown.begun();
        let idle = self.seen.swap(begun, Ordering::Relaxed) == begun;
        Found { unused: self.barn_unused(g) * self.sheaf_capacity(), idle }
    }

    /// As [`Cache::moving`], for reclaim, which must not make the cache look busy.
    fn moving_aside(&self) -> Moving<'_> {
        self.seen.fetch_add(1, Ordering::Relaxed);
        self.moving()
    }

    /// Flushes everything parked on the node, and ends the empty slabs.
    pub fn shrink_node<P: Platform>(&self, g: &PageHeap<P>) {
        while self.flush_piece_aside(g, u32::MAX) > 0 {}
        self.barn_forget_empty(g);
        while self.discard_empty(g, u32::MAX) == ENDED_AT_ONCE {}
    }

    /// Ends some of the empty slabs that the list kept for the next allocations, at most
    /// [`ENDED_AT_ONCE`]. Returns how many.
    pub fn discard_some<P: Platform>(&self, g: &PageHeap<P>) -> u32 {
        // An empty slab stays only while fewer than `min_partial` others are listed, and is
        // appended at the tail: the slabs behind these were not empty when they came.
        self.discard_empty(g, self.min_partial().saturating_add(ENDED_AT_ONCE))
    }

    /// Flushes full sheaves of the barn until so many are left.
    pub fn flush_barn_above<P: Platform>(&self, g: &PageHeap<P>, sheaves: u32) {
        while self.nr_full(g) > sheaves && self.flush_piece_aside(g, u32::MAX) > 0 {}
    }

    /// As [`Cache::flush_piece`], for reclaim.
    pub fn flush_piece_aside<P: Platform>(&self, g: &PageHeap<P>, most: u32) -> u32 {
        let _moving = self.moving_aside();
        self.flush_piece(g, most)
    }

    /// Flushes a full sheaf of the barn, or as much of it as so many slab operations return
    /// to slabs; returns how many objects.
    pub(super) fn flush_piece<P: Platform>(&self, g: &PageHeap<P>, most: u32) -> u32 {
        let Some(mut sheaf) = self.barn_take_full(g) else {
            return 0;
        };
        let flushed = self.flush(g, &mut sheaf, most);
        if sheaf.is_empty() {
            self.barn_put_empty(g, sheaf);
        } else {
            self.barn_put_rest(g, sheaf);
        }
        flushed
    }

    /// Returns the objects of a stopped stack of this cache, whose top was `top`, to their
    /// slabs. The caller takes the stack away.
    pub fn drain_stopped<P: Platform>(&self, g: &PageHeap<P>, top: u32) {
        let _moving = self.moving_aside();
        self.return_to_slabs(g, g.sheaves.objects_of(top), u32::MAX);
    }

    /// Flushes this CPU's own sheaves without stopping another: what a platform that cannot
    /// stop stacks does for the row of the calling thread.
    pub fn drain_own<P: Platform>(&self, g: &PageHeap<P>) {
        self.drain_own_slot(g, self.shape().main());
        self.drain_own_slot(g, self.shape().spare());
    }

    /// Flushes one of them.
    pub fn drain_own_slot<P: Platform>(&self, g: &PageHeap<P>, slot: Slot) {
        let _moving = self.moving_aside();
        if let Ok(Some(mut sheaf)) = self.check_out(g, slot) {
            self.flush(g, &mut sheaf, u32::MAX);
            self.barn_put_empty(g, sheaf);
        }
    }
}
