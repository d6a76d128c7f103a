//! The slow paths of one cache, a trait of all engines.
//!
//! Neighbours: [`crate::calls`] and [`crate::reclaim`] call them; each engine is a directory or a
//! file beside this one. [`super::inspect`] has the queries of checks and readers,
//! [`super::orphans`] the repair in the child of a fork.

use super::kind::EngineKind;
use super::{flush, partial};
use crate::engine::Moving;
use crate::engine::page_slabs::PageSlabs;
use crate::pages::Sheaf;
use crate::platform::{Platform, Slot};

/// What a reclaim pass has still to do in a cache.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Parked objects to return to their slabs.
    pub unused: u32,
    /// No slow path ran since the last pass.
    pub idle: bool,
    /// The memory node at which the pass is.
    pub node: u8,
}

/// `None` at the first call of a pass, and once there is nothing more to do.
pub type PassState = Option<Found>;

/// A tunable of a cache that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its value before.
    pub old: u32,
    /// The cache's stacks have the old value until they are drained.
    pub drains: bool,
}

/// The slow paths of one cache.
#[doc(hidden)] // Part of `Engine`.
pub trait SlowPaths: EngineKind {
    /// Begins the state of a cache whose header has its shape.
    fn begin<P: Platform>(&self, on: PageSlabs<'_, P>);

    /// Allocates an object and returns its address; `None` if there is no memory.
    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize>;

    /// As [`SlowPaths::alloc`], of an object of the cache with this many bytes, aligned to `align`.
    /// Called where engines may serve by size.
    fn alloc_sized<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        _bytes: usize,
        _align: usize,
    ) -> Option<usize> {
        self.alloc(on)
    }

    /// As [`SlowPaths::alloc`], of a memory node as long as that has memory. An engine of one node
    /// has no other.
    #[inline]
    fn alloc_at<P: Platform>(&self, on: PageSlabs<'_, P>, _node: usize) -> Option<usize> {
        self.alloc(on)
    }

    /// Frees an object. Called when the fast path found this CPU's stack full, stopped or
    /// asked to drain, or found the object on its top.
    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize);

    /// Flushes a stack of any row, which is out of its entry or stopped there: returns its objects
    /// to their slabs, and returns the array.
    fn flush_stopped<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        _slot: Slot,
        mut stack: Sheaf,
    ) -> Sheaf {
        let _moving = Moving::aside(on);
        let objects = Sheaf::len(&stack);
        flush::return_to_slabs(on, on.heap.sheaves.objects(&stack), u32::MAX);
        on.heap.sheaves.shorten(&mut stack, objects);
        stack
    }

    /// Flushes one of this CPU's own stacks without stopping another: what a platform that
    /// cannot stop stacks does for the row of the calling thread.
    fn flush_own<P: Platform>(&self, _on: PageSlabs<'_, P>, _slot: Slot) {}

    /// Takes the empty slabs off a spare stack that is stopped, and returns it; without one, off
    /// what this CPU has. Leaves the other slabs there.
    fn drain_empties<P: Platform>(
        &self,
        _on: PageSlabs<'_, P>,
        spare: Option<Sheaf>,
    ) -> Option<Sheaf> {
        spare
    }

    /// Makes a piece of a reclaim pass, by about `most` slab operations. At the pass's first
    /// call `found` is `None`; it is `None` again once there is nothing more to do. Returns
    /// true if it returned objects or ended slabs. An engine that parks nothing on the node ends
    /// empty slabs of an idle cache.
    fn reclaim<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        _found: &mut PassState,
        _most: u32,
    ) -> bool {
        on.cache.is_idle() && partial::discard_some_empty(on) > 0
    }

    /// Of an engine that parks in sheaves: flushes a sheaf on the node, by at most this many slab
    /// operations, or ends some empty slabs. False if there is neither.
    fn flush_node<P: Platform>(&self, _on: PageSlabs<'_, P>, _most: u32) -> bool {
        false
    }

    /// Returns all that is parked on the node to the slabs, and ends the empty ones.
    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        self.discard_empty(on);
    }

    /// Ends the empty slabs.
    fn discard_empty<P: Platform>(&self, on: PageSlabs<'_, P>) {
        partial::discard_all_empty(on);
    }

    /// Changes a tunable of `abi::region::TUNABLES`; `None` if the engine has none of this name.
    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        let old = (name == "min_partial").then(|| on.cache.set_min_partial(value))?;
        Some(Changed { old, drains: false })
    }

    /// The cache has no object and no slab any more, and nobody uses it.
    fn end<P: Platform>(&self, _on: PageSlabs<'_, P>) {}
}
