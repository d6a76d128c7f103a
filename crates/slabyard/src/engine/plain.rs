//! The plain engine: slabs and their partial list, and nothing else.
//!
//! It has no part for each CPU: it leaves the entries of its caches zeros, so every call takes
//! the slow path. An allocation takes one object from the head of the partial list, or from a
//! new slab; a free puts one object into its slab ([`super::partial`], [`super::flush`]). It
//! is the base of SLUB_TINY.
//!
//! # Locks
//!
//! An allocation holds the list lock once where the list has a slab. A free holds it only
//! where its slab was full, or is empty now.
//!
//! # Equation (asserted by `verify`)
//!
//! For each slab: free + live = objects, because nothing is parked.

use super::slabs::Slabs;
use super::{Changed, Engine, Found, Header, PageSlabs, partial};
use crate::platform::{Platform, Slot};
use slabyard_abi::engines::EngineName;

/// The plain engine: a cache has nothing beside its header.
pub struct Plain;

impl Engine for Plain {
    const NEW: Self = Plain;

    fn name(&self) -> EngineName {
        EngineName::Plain
    }

    fn begin(&self, _cache: &Header) {}

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        let _moving = on.cache.moving();
        on.alloc_below()
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        let _moving = on.cache.moving();
        on.free_direct(address);
    }

    fn flush_own<P: Platform>(&self, _on: PageSlabs<'_, P>, _slot: Slot) {}

    fn reclaim<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        _found: &mut Option<Found>,
        _most: u32,
    ) -> bool {
        on.cache.is_idle() && partial::discard_some_empty(on) > 0
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        partial::discard_all_empty(on);
    }

    fn set<P: Platform>(&self, on: PageSlabs<'_, P>, name: &str, value: u32) -> Option<Changed> {
        let old = (name == "min_partial").then(|| on.cache.set_min_partial(value))?;
        Some(Changed { old, drains: false })
    }

    fn each_parked<P: Platform>(&self, _on: PageSlabs<'_, P>, _f: impl FnMut(usize)) {}

    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        on.cache.has_no_sheaves()
    }
}
