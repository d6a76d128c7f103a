//! Queries of an engine, for checks and readers: walks over parked objects and listed slabs, and a
//! test of the words that it publishes.
//!
//! Neighbours: [`crate::verify`], [`crate::observe`] and [`crate::live`] call these; slow paths
//! never do.

use super::kind::EngineKind;
use super::partial;
use crate::engine::page_slabs::PageSlabs;
use crate::pages::Sheaf;
use crate::platform::{Platform, Slot};
use crate::slab;

/// What an engine shows of one cache.
#[doc(hidden)] // Part of `Engine`.
pub trait Inspect: EngineKind {
    /// True if caches may have slabs for [`Inspect::each_slab_below`].
    const HAS_SLABS_BELOW: bool = false;

    /// Usable bytes of the object that begins at an address, if one does.
    fn size_at<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) -> Option<usize> {
        let geometry = &on.cache.shape().geometry;
        slab::begins_object(&on.heap.region, geometry, address).then_some(geometry.object as usize)
    }

    /// Checks a slab. Returns how many of its bits are set for neither free objects nor parked
    /// ones.
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

    /// Address of the words of a cache's first memory node, and the bytes from one node's to the
    /// next one's (`abi::region::NodeWord`); `None` if there is one node.
    #[inline]
    fn node_words<P: Platform>(&self, _on: PageSlabs<'_, P>) -> Option<(usize, usize)> {
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

    /// Of the objects of [`Inspect::each_parked`], those that are a CPU's.
    fn nr_parked_below<P: Platform>(&self, _on: PageSlabs<'_, P>) -> u64 {
        0
    }

    /// Calls `f` with each slab that a stack's CPU has: it may have free objects, and is on no
    /// list of the node.
    fn each_slab<P: Platform>(
        &self,
        _on: PageSlabs<'_, P>,
        _slot: Slot,
        _stack: &Sheaf,
        _f: &mut dyn FnMut(u32),
    ) {
    }

    /// As [`Inspect::each_slab`], of slabs that are a CPU's and in no stack.
    fn each_slab_below<P: Platform>(&self, _on: PageSlabs<'_, P>, _f: &mut dyn FnMut(u32)) {}

    /// Calls `f` with each slab on the nodes' lists, and with its free objects.
    fn each_partial<P: Platform>(&self, on: PageSlabs<'_, P>, f: impl FnMut(u32, u32)) {
        partial::each_partial(on, f);
    }

    /// Slabs on the nodes' lists, as counted.
    fn nr_partial<P: Platform>(&self, on: PageSlabs<'_, P>) -> u32 {
        partial::nr_partial(on)
    }

    /// True if the words that readers see of the lists are theirs.
    fn is_list_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        partial::is_list_published(on)
    }

    /// True if the words that readers see agree with the engine's containers.
    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        on.cache.has_no_sheaves()
    }
}
