//! Live objects, one by one: finds an object's cache, and walks over a cache's live objects.
//!
//! The walk quiesces the yard, marks parked objects as free in the slabs' bitmaps
//! ([`crate::verify`]), and calls the given function with each object whose bit is clear.
//!
//! Neighbours: [`crate::created`] has the other calls on caches; [`crate::place`] reads the page
//! map.

use crate::cache::CacheId;
use crate::engine::Engine;
use crate::platform::Platform;
use crate::reclaim::walk::Stacks;
use crate::slab;
use crate::slab::{Object, freeset};
use crate::verify::marks::Marks;
use crate::yard::Yard;

/// What a walk over live objects met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// The live objects and no others.
    Exact,
    /// Beside them, free ones: what other threads' private slots hold, which cannot be stopped, or
    /// what is parked behind an object that was freed twice.
    WithFree,
}

/// The cache in whose slab an address is: a created one, or a class of malloc's. `None` for
/// runs, mappings, and what is not of this yard.
pub fn cache_of<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> Option<CacheId> {
    yard.caches.id_of(yard.heap.class_at(address)?)
}

/// Calls `f` with the address of each live object of a cache: of those in prefilled sheaves,
/// too. Other threads' calls wait meanwhile, and `f` makes no call of this yard. `None` if there
/// is no such cache, in a signal handler that interrupted a slow path, and if another thread's
/// fork takes longer than a second.
pub fn each_live<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    id: CacheId,
    mut f: impl FnMut(usize),
) -> Option<Walked> {
    yard.quiesce(|quiesced| {
        yard.caches.find(id)?;
        let marks = Marks::set(quiesced, Stacks::Cache(id.number()));
        each_unmarked(yard, id, &mut f);
        let is_exact = quiesced.reaches_all() && marks.fault.is_none();
        marks.clear(quiesced);
        Some(if is_exact { Walked::Exact } else { Walked::WithFree })
    })?
}

/// Calls `f` with each object of a cache whose bit is clear.
fn each_unmarked<P: Platform, E: Engine>(yard: &Yard<P, E>, id: CacheId, f: &mut dyn FnMut(usize)) {
    let cache = yard.caches.get(id.number());
    let (heap, geometry) = (&yard.heap, cache.shape().geometry);
    let mut at = 0;
    while at < heap.region.top() as u32 {
        if heap.region.map_value(at) != id.slot().offset() as u16 {
            at += 1;
            continue;
        }
        for index in (0..geometry.objects).filter(|index| !freeset::is_free(heap, at, *index)) {
            let address = slab::address_of(&heap.region, &geometry, Object { slab: at, index });
            if cache.engine.size_at(cache.on(heap), address).is_some() {
                f(address);
            }
        }
        at += geometry.granules();
    }
}
