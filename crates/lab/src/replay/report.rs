//! What is where, at one moment of a replay.

use slabyard::engine::slub::cpu_slab::KernelCache;
use slabyard::engine::slub::cpu_slab::audit::Places;

/// The state of all caches at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When, in nanoseconds since the trace began.
    pub time_ns: u64,
    /// Slabs of each cache.
    pub slabs: Vec<u32>,
    /// Live objects of each cache.
    pub live: Vec<u64>,
}

impl Sample {
    pub(super) fn of(time_ns: u64, caches: &[KernelCache], live: &[u64]) -> Sample {
        let slabs = caches.iter().map(KernelCache::nr_slabs).collect();
        Sample { time_ns, slabs, live: live.to_vec() }
    }
}

/// Where the free objects of a cache are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// In CPU slabs.
    pub cpu_slab: u64,
    /// In slabs on CPU partial lists.
    pub cpu_partial: u64,
    /// In CPUs' sheaves.
    pub sheaves: u64,
    /// In barns.
    pub barns: u64,
    /// In slabs on nodes' lists.
    pub node_partial: u64,
}

impl Free {
    /// Of one cache.
    #[must_use]
    pub fn of(cache: &KernelCache, places: &Places) -> Free {
        let (sheaves, barns) = cache.in_sheaves();
        Free {
            cpu_slab: places.free_cpu_slab,
            cpu_partial: places.free_cpu_partial,
            sheaves: sheaves as u64,
            barns: barns as u64,
            node_partial: places.free_node,
        }
    }

    /// All that no list of a node shows: parked.
    #[must_use]
    pub fn parked(&self) -> u64 {
        self.cpu_slab + self.cpu_partial + self.sheaves + self.barns
    }
}
