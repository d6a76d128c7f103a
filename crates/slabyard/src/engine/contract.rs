//! The slow paths of one cache, as all engines have them.
//!
//! Neighbours: [`crate::calls`] and [`crate::reclaim`] call them; each engine is a directory or a
//! file beside this one.

use super::debug::Debug;
use super::orphans;
use super::{flush, partial};
use crate::engine::Header;
use crate::engine::array_cache::ArrayCaches;
use crate::engine::page_slabs::PageSlabs;
use crate::pages::Sheaf;
use crate::platform::{Platform, Slot};
use crate::slab;
use crate::slab::Geometry;
use slabyard_abi::debug::DebugFlags;
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
pub trait Engine: Sized + Send + Sync + 'static {
    /// The state of a cache that is not in use.
    const NEW: Self;
    /// True if stacks have tags, for which pushes ask.
    const TAGGED: bool = false;

    /// The state of a cache that is not in use, of the engine that another cache has.
    fn like(_other: &Self) -> Self {
        Self::NEW
    }

    /// Of a cache that is not in use and has the state [`Engine::NEW`]: chooses the engine that its
    /// maker asked for, or else the one that another cache has. False if engines of this type are
    /// not that one. In place: an engine is large for the stack of a small thread.
    fn be_like(&mut self, other: &Self, wants: Option<EngineName>) -> bool {
        let is_that = wants.is_none_or(|name| name == other.name());
        if is_that {
            *self = Self::like(other);
        }
        is_that
    }

    /// By the row of reports and of the readable region.
    fn name(&self) -> EngineName;

    /// The order of slabs of objects of `size` bytes, where `order` is that of malloc's own table and
    /// `page_order` that of a page.
    #[inline]
    fn order(&self, _size: u32, order: u32, page_order: u32) -> u32 {
        order.max(page_order)
    }

    /// The geometry of a class of malloc's, of objects of so many bytes in slabs of this order or
    /// a page. Called before the class's cache begins.
    #[inline]
    fn geometry(&self, object: u32, order: u32, page_order: u32) -> Geometry {
        Geometry::new(object, self.order(object, order, page_order))
    }

    /// Begins the state of a cache whose header has its shape.
    fn begin(&self, cache: &Header);

    /// Allocates an object and returns its address; `None` if there is no memory.
    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize>;

    /// Frees an object. Called when the fast path found this CPU's stack full, stopped or
    /// asked to drain, or found the object on its top.
    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize);

    /// True if engines of this type may serve requests by their size. Then the
    /// functions that follow are asked; else nobody calls them.
    /// SLOB needs the exact size of a call. A library of one engine that has classes compiles
    /// nothing of it.
    const SIZED: bool = false;

    /// Of the engine of the first class: whether its cache serves a request, whatever the size.
    /// `None`: each class serves its own.
    fn serves(&self, _cache: &Header, _bytes: usize, _align: usize) -> Option<bool> {
        None
    }

    /// As [`Engine::alloc`], of an object of the cache with so many bytes, aligned to `align`.
    fn alloc_sized<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        _bytes: usize,
        _align: usize,
    ) -> Option<usize> {
        self.alloc(on)
    }

    /// Usable bytes of the object that begins at an address, if one does.
    fn size_at<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) -> Option<usize> {
        let geometry = &on.cache.shape().geometry;
        slab::begins_object(&on.heap.region, geometry, address).then_some(geometry.object as usize)
    }

    /// Checks a slab (for `verify`). Returns how many of its bits are set for neither free
    /// objects nor parked ones.
    ///
    /// # Errors
    /// The equation that does not hold.
    fn check_slab<P: Platform>(
        &self,
        _on: PageSlabs<'_, P>,
        _slab: u32,
    ) -> Result<u32, &'static str> {
        Ok(0)
    }

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

    /// Takes the empty slabs off what this CPU has, and leaves the others there.
    fn drain_own_empties<P: Platform>(&self, _on: PageSlabs<'_, P>) {}

    /// As [`Engine::drain_own_empties`], of a spare stack that is stopped; returns it.
    fn drain_empties<P: Platform>(&self, _on: PageSlabs<'_, P>, spare: Sheaf) -> Sheaf {
        spare
    }

    /// Makes a piece of a reclaim pass, by about `most` slab operations. At the pass's first
    /// call `found` is `None`; it is `None` again once there is nothing more to do. Returns
    /// true if it returned objects or ended slabs. An engine that parks nothing on the node ends
    /// empty slabs of an idle cache.
    fn reclaim<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        _found: &mut Option<Found>,
        _most: u32,
    ) -> bool {
        on.cache.is_idle() && partial::discard_some_empty(on) > 0
    }

    /// True if all that is parked lies in main and spare stacks and in full sheaves on the node.
    #[inline]
    fn parks_in_sheaves(&self) -> bool {
        false
    }

    /// Of an engine that parks in sheaves: flushes a sheaf on the node, by at most so many slab
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

    /// Changes a tunable of `abi::region::TUNABLES`; `None` if the engine has none of this
    /// name.
    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed>;

    /// Debugging, if the cache has it. Asked where engines may serve by size.
    #[inline]
    fn debug(&self) -> Option<&Debug> {
        None
    }

    /// Before a cache begins: it has this debugging. False if engines of this type have none.
    fn choose_debug(&self, _flags: DebugFlags) -> bool {
        false
    }

    /// True if engines of this type may be reaped by the clock of 2.4.
    const REAPS: bool = false;

    /// The array caches, if that is the engine.
    #[inline]
    fn arrays(&self) -> Option<&ArrayCaches> {
        None
    }

    /// As [`Engine::alloc`], of a memory node as long as that has memory. An engine of one node has
    /// no other.
    #[inline]
    fn alloc_at<P: Platform>(&self, on: PageSlabs<'_, P>, _node: usize) -> Option<usize> {
        self.alloc(on)
    }

    /// Address of the words of a cache's first memory node, and the bytes from one node's to the
    /// next one's (`abi::region::NodeWord`); `None` for an engine of one node.
    #[inline]
    fn node_words(&self) -> Option<(usize, usize)> {
        None
    }

    /// Address of the word that says what debugging the cache has (`abi::region::debugging`); `None`
    /// if engines of this type have none.
    #[inline]
    fn debugging_word(&self) -> Option<usize> {
        None
    }

    /// Calls `f` with each object that is parked on the node.
    fn each_parked<P: Platform>(&self, _on: PageSlabs<'_, P>, _f: impl FnMut(usize)) {}

    /// True if these are few enough to look at each when a process ends.
    #[inline]
    fn parks_few_on_node(&self) -> bool {
        false
    }

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

    /// Of the objects of [`Engine::each_parked`], those that are a CPU's.
    fn nr_parked_below<P: Platform>(&self, _on: PageSlabs<'_, P>) -> u64 {
        0
    }

    /// True if caches may have slabs for [`Engine::each_slab_below`].
    const HAS_SLABS_BELOW: bool = false;

    /// As [`Engine::each_slab`], of slabs that are a CPU's and in no stack.
    fn each_slab_below<P: Platform>(&self, _on: PageSlabs<'_, P>, _f: &mut dyn FnMut(u32)) {}

    /// The cache has no object and no slab any more, and nobody uses it.
    fn end<P: Platform>(&self, _on: PageSlabs<'_, P>) {}

    /// In the child of a fork whose parent's threads were at work on the cache ([`orphans`]): locks
    /// are free, lists of slabs empty, what is parked on the node is counted. Returns how many
    /// objects those are of which the yard counts the bytes.
    fn begin_child<P: Platform>(&self, on: PageSlabs<'_, P>) -> u64 {
        orphans::empty_list(on);
        0
    }

    /// After [`Engine::begin_child`]: counts the free objects of a slab of the cache anew, and lists
    /// it, unless a CPU has it. Takes no pages and gives none back. Returns how many they are.
    fn adopt<P: Platform>(&self, on: PageSlabs<'_, P>, slab: u32, of_cpu: bool) -> u32 {
        orphans::adopt(on, slab, of_cpu)
    }

    /// After all slabs were adopted.
    fn end_begin_child<P: Platform>(&self, _on: PageSlabs<'_, P>) {}

    /// Calls `f` with each slab on the nodes' lists, and with its free objects.
    fn each_partial<P: Platform>(&self, on: PageSlabs<'_, P>, f: impl FnMut(u32, u32)) {
        partial::each_partial(on, f);
    }

    /// Slabs on the nodes' lists, as counted.
    fn nr_partial<P: Platform>(&self, on: PageSlabs<'_, P>) -> u32 {
        partial::nr_partial(on)
    }

    /// True if the words that readers see of the lists are theirs (for `verify`).
    fn is_list_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        partial::is_list_published(on)
    }

    /// True if the words that readers see agree with the engine's containers (for `verify`).
    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool;
}
