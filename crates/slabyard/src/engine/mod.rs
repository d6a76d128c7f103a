//! Floor 4: policy. Engines move objects between containers; they own no
//! `unsafe` code.
//!
//! An [`Engine`] is the slow paths of one cache. The fast paths never reach it: a pop and a
//! push work on a stack, and what an engine keeps in that stack (a sheaf, an array of
//! objects, the free objects of one slab) is its own affair. An engine without stacks leaves
//! the entries of its caches zeros, so every call takes the slow path.
//!
//! An engine stands on the slabs of its cache ([`slabs`]): those of the page heap
//! ([`PageSlabs`]), or the lab's, which are numbers. Policy takes objects out of them
//! ([`partial`]) and returns them ([`flush`]), whichever they are. What each cache has,
//! whatever its engine, is its [`header`].
//!
//! # Lock order ([`crate::sync::Rank`], asserted in debug builds)
//!
//! 1. `Drain`: one thread at a time stops other CPUs' stacks.
//! 2. `Barn`: the two lists of sheaves of one cache, and how many full ones it keeps.
//! 3. `List`: the partial list of one cache; `listed` of each slab; who may take
//!    bits of a listed slab; that a slab ends.
//! 4. `Pool`: the free sheaves, in no entry and no barn.
//! 5. `Grow`: the committed end of the region, until what is new is on the buddy's lists.
//! 6. `Pages`: the buddy's lists.
//!
//! No system call is made, and no other lock taken, under `Barn`, `List` or `Pages`.
#![forbid(unsafe_code)]

pub mod any;
#[cfg(any(test, feature = "cpu-slab"))]
pub mod counted;
pub mod counters;
pub mod cpu_slabs;
pub mod flush;
pub mod header;
mod page_slabs;
pub mod partial;
pub mod plain;
pub mod sheaves;
mod shown;
pub mod slabs;

pub use any::Any;
pub use counters::Counter;
pub use header::{Header, SPARE, Shape};
pub use page_slabs::PageSlabs;
pub use plain::Plain;
pub use sheaves::Sheaves;
pub use shown::Moving;

use crate::pages::Sheaf;
use crate::platform::{Platform, Slot};
use slabyard_abi::engines::EngineName;

/// What a reclaim pass has still to do in a cache.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Parked objects to return to their slabs.
    pub unused: u32,
    /// No slow path ran since the last pass.
    pub idle: bool,
}

/// A tunable of a cache that was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its value before.
    pub old: u32,
    /// The cache's stacks have the old value until they are drained.
    pub drains: bool,
}

/// The slow paths of one cache.
pub trait Engine: Sized + Send + Sync {
    /// The state of a cache that is not in use.
    const NEW: Self;
    /// True if stacks have tags, for which pushes ask.
    const TAGGED: bool = false;

    /// The state of a cache that is not in use, of the engine that another cache has.
    fn like(_other: &Self) -> Self {
        Self::NEW
    }

    /// Which engine it is.
    fn name(&self) -> EngineName;

    /// Begins the state of a cache whose header has its shape.
    fn begin(&self, cache: &Header);

    /// Allocates an object and returns its address; `None` if there is no memory.
    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize>;

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
        let _moving = on.cache.moving_aside();
        let objects = Sheaf::len(&stack);
        flush::return_to_slabs(on, on.heap.sheaves.objects(&stack), u32::MAX);
        on.heap.sheaves.shorten(&mut stack, objects);
        stack
    }

    /// Flushes one of this CPU's own stacks without stopping another: what a platform that
    /// cannot stop stacks does for the row of the calling thread.
    fn flush_own<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot);

    /// Makes a piece of a reclaim pass, by about `most` slab operations. At the pass's first
    /// call `found` is `None`; it is `None` again once there is nothing more to do. Returns
    /// true if it returned objects or ended slabs.
    fn reclaim<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        found: &mut Option<Found>,
        most: u32,
    ) -> bool;

    /// Returns all that is parked on the node to the slabs, and ends the empty ones.
    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>);

    /// Changes a tunable of `abi::region::TUNABLES`; `None` if the engine has none of this
    /// name.
    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed>;

    /// Calls `f` with each object that is parked on the node.
    fn each_parked<P: Platform>(&self, on: PageSlabs<'_, P>, f: impl FnMut(usize));

    /// True if the elements of spare stacks are objects, as those of main stacks are.
    #[inline]
    fn has_objects_in_spare(&self) -> bool {
        true
    }

    /// Calls `f` with each slab that a stack's CPU has: it may have free objects, and is on no
    /// list of the node (for `verify`).
    fn each_slab<P: Platform>(
        &self,
        _on: PageSlabs<'_, P>,
        _slot: Slot,
        _stack: &Sheaf,
        _f: &mut dyn FnMut(u32),
    ) {
    }

    /// True if the words that readers see agree with the engine's containers (for `verify`).
    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool;
}
