//! Prefetches, on entry to a slow path, the cache lines that it will read and write. Slow paths are
//! rare, so few of these lines are still in the CPU's cache, and each locked instruction waits for
//! earlier misses. Prefetching overlaps the misses: the p99.9 of `malloc` fell from 1.70 to 1.55
//! µs, that of `free` from 1.09 to 1.00 µs (462e753).

use crate::cache::Cache;
use crate::engine::Engine;
use crate::platform::Platform;
use crate::slab;
use crate::sync::{fetch_lines_to_write, fetch_to_read};
use crate::yard::Yard;

/// For an allocation: the words of the yard and of its cache.
#[inline]
pub(crate) fn fetch_for_alloc<P: Platform, E: Engine>(yard: &Yard<P, E>, cache: Option<&Cache<E>>) {
    let buddy = &yard.heap.buddy;
    // One by one: the libraries are compiled for size, without unrolled loops.
    fetch_to_read(yard.interval.as_ptr() as usize);
    fetch_to_read(yard.open.as_ptr() as usize);
    fetch_to_read(yard.backlog.as_ptr() as usize);
    fetch_to_read(yard.last_tick.as_ptr() as usize);
    fetch_to_read(core::ptr::from_ref(&yard.rate) as usize);
    fetch_to_read(core::ptr::from_ref(&yard.gate) as usize);
    fetch_to_read(core::ptr::from_ref(buddy) as usize);
    fetch_to_read(buddy.freed_at());
    if let Some(cache) = cache {
        fetch_lines_to_write(core::ptr::from_ref(cache) as usize, Cache::<E>::LINES);
    }
}

/// For a free: these, and the descriptor where its slab or run begins, which it will write
/// if the object returns to its slab without passing through a sheaf.
#[inline]
pub(crate) fn fetch_for_free<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: Option<&Cache<E>>,
    address: usize,
) {
    fetch_for_alloc(yard, cache);
    let heap = &yard.heap;
    let descriptor = match cache.map(|cache| cache.shape()) {
        None => heap.region.granule_of(address),
        Some(shape) => {
            shape.may_bypass().then(|| slab::slab_at(&heap.region, &shape.geometry, address))
        }
    };
    if let Some(descriptor) = descriptor {
        heap.region.fetch_descriptor_ahead(descriptor);
    }
}
