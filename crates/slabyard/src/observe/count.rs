//! The counters of a yard that other processes read: how many objects and bytes are live, parked,
//! free in slabs, in runs, in mappings.
//!
//! No call counts live objects; their number is computed: live = objects - free bits - parked.

use super::Quiesced;
use crate::engine::Engine;
use crate::pages::{PageHeap, runs};
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;
use crate::yard::Yard;
use slabyard_abi::counters::{CacheCounters, YardCounters};

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Counts one cache of a quiesced yard.
    #[inline(never)]
    pub fn count_cache(quiesced: &Quiesced<'_, P, E>, class: usize) -> CacheCounters {
        let yard = quiesced.yard();
        let cache = yard.cache(class);
        let shape = cache.shape();
        let geometry = &shape.geometry;
        let (mut partial, mut empty, mut free) = (0, 0, 0u64);
        let on = cache.on(&yard.heap);
        cache.engine.each_partial(on, |_, n| {
            partial += 1;
            empty += u64::from(n == geometry.objects);
            free += u64::from(n);
        });
        let mut parked_node = 0;
        cache.engine.each_parked(on, |_| parked_node += 1);
        let slabs = u64::from(cache.nr_slabs());
        let total = slabs * u64::from(geometry.objects);
        let below = cache.engine.nr_parked_below(on);
        parked_node -= below;
        let parked_cpu = quiesced.parked_cpu(class) as u64 + below;
        let page_order = (yard.platform().page_bytes() / GRANULE).ilog2();
        CacheCounters {
            object_size: u64::from(geometry.object),
            slab_size: u64::from(geometry.size),
            order: u64::from(geometry.order - page_order),
            objs_per_slab: u64::from(geometry.objects),
            sheaf_capacity: u64::from(cache.sheaf_capacity()),
            slabs,
            partial,
            empty,
            total_objects: total,
            live: total.saturating_sub(parked_cpu + parked_node + free),
            parked_cpu,
            parked_node,
            free_partial: free,
            bytes: slabs * geometry.slab_bytes() as u64,
            min_partial: u64::from(cache.min_partial()),
        }
    }

    /// Counts a quiesced yard, and calls `each` with number and counters of every cache. The counters
    /// that only the platform knows (resident bytes, mode) stay 0.
    pub fn count(
        quiesced: &Quiesced<'_, P, E>,
        mut each: impl FnMut(usize, &CacheCounters),
    ) -> YardCounters {
        let yard = quiesced.yard();
        let g = &yard.heap;
        let mut sum = YardCounters::default();
        for class in yard.caches.numbers() {
            let c = Self::count_cache(quiesced, class);
            each(class, &c);
            sum.live += c.live * c.slab_size;
            sum.parked_cpu += c.parked_cpu * c.slab_size;
            sum.parked_node += c.parked_node * c.slab_size;
            sum.free_partial += c.free_partial * c.slab_size;
            sum.padding += c.slabs * yard.cache(class).shape().geometry.padding() as u64;
        }
        let granules = |n: usize| (n * GRANULE) as u64;
        let (nr_runs, run_granules) = g.buddy.runs();
        let (nr_mapped, mapped) = g.mappings.live();
        let free = runs::free_count(g);
        let parked = quiesced.parked_runs();
        sum.runs = granules(run_granules.saturating_sub(parked.banked_granules));
        sum.nr_runs = nr_runs.saturating_sub(parked.banked) as u64;
        sum.mapped = mapped as u64;
        sum.nr_mapped = nr_mapped as u64;
        sum.parked_pages = granules(parked.granules + parked.banked_granules);
        sum.free_runs = granules(free.dirty);
        sum.returned = granules(free.free - free.dirty);
        let of_caches = yard.caches.metadata_bytes() + yard.idle_stacks.committed_bytes();
        sum.metadata = (g.metadata_bytes() + of_caches) as u64;
        // Measured by itself, not as the sum of the parts: the committed part of
        // the region without its first, unused page and without what went back; mappings; tables.
        let unused = g.platform.page_bytes() / GRANULE;
        let in_region = granules(g.region.top() - unused) - sum.returned;
        sum.committed = in_region + sum.mapped + sum.metadata;
        sum.engine = yard.engine().number();
        sum.nr_cpus = quiesced.rows_in_use() as u64;
        sum
    }
}

/// Objects set aside because they were found corrupt.
pub fn set_aside<P: Platform>(heap: &PageHeap<P>) -> u64 {
    heap.reports.set_aside.load(Ordering::Relaxed)
}
