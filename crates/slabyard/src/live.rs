//! Live objects, one by one: finds an object's cache, and walks over a cache's live objects.
//!
//! The walk quiesces the yard, marks parked objects as free in the slabs' bitmaps, as
//! [`crate::verify`] does, and calls its function with each object whose bit is clear.
//!
//! Neighbours: [`crate::created`] has the other calls on caches; [`crate::place`] reads the page
//! map.

use crate::cache::CacheId;
use crate::engine::Engine;
use crate::observe::Quiesced;
use crate::platform::Platform;
use crate::slab;
use crate::slab::{Object, freeset};
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
        let reaches_all = quiesced.stopped || quiesced.is_alone();
        let (mut marked, mut twice) = (0u64, false);
        each_parked_of(yard, quiesced, id, &mut |slab, index| {
            // What is free already keeps its bit: no mark is made from there on.
            twice |= freeset::is_free(&yard.heap, slab, index);
            if !twice {
                freeset::mark(&yard.heap, slab, index, true);
                marked += 1;
            }
        });
        each_unmarked(yard, id, &mut f);
        each_parked_of(yard, quiesced, id, &mut |slab, index| {
            if marked > 0 {
                freeset::mark(&yard.heap, slab, index, false);
                marked -= 1;
            }
        });
        Some(if reaches_all && !twice { Walked::Exact } else { Walked::WithFree })
    })?
}

/// Calls `f` with slab and number of each parked object of a cache, each time in the same order.
fn each_parked_of<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    quiesced: &Quiesced<'_, P, E>,
    id: CacheId,
    f: &mut dyn FnMut(u32, u32),
) {
    let cache = yard.caches.get(id.number());
    let shape = cache.shape();
    let mut found = |address| {
        let object = slab::resolve(&yard.heap.region, &shape.geometry, shape.slot, address);
        if let Ok(Object { slab, index }) = object {
            f(slab, index);
        }
    };
    // Another thread may change its private slot while we look: twice the same is not promised.
    if quiesced.stopped || quiesced.is_alone() {
        quiesced.each_parked_of(id.number(), &mut found);
    }
    cache.engine.each_parked(cache.on(&yard.heap), found);
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
            if !E::SIZED || cache.engine.size_at(cache.on(heap), address).is_some() {
                f(address);
            }
        }
        at += geometry.granules();
    }
}
