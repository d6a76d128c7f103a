//! The state of all caches at one moment of a replay.

use slabyard_model::cache::KernelCache;
use slabyard_model::cache::audit::Places;

/// All caches at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When, in nanoseconds since the trace began.
    pub time_ns: u64,
    /// The caches, in the order of the trace's.
    pub caches: Vec<CacheUse>,
}

impl Sample {
    pub(super) fn of(time_ns: u64, caches: &[KernelCache]) -> Sample {
        Sample { time_ns, caches: caches.iter().map(CacheUse::of).collect() }
    }
}

/// One cache at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// Its slabs, and where they are.
    pub places: Places,
    /// Its free objects, and where they are.
    pub free: Free,
}

impl CacheUse {
    fn of(cache: &KernelCache) -> CacheUse {
        let places = cache.places();
        CacheUse { places, free: Free::of(cache, &places) }
    }

    /// Objects that are handed out, and in no sheaf: those too that no event of the
    /// trace shows.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.places.taken.saturating_sub(self.free.sheaves + self.free.barns)
    }
}

/// Where the free objects of a cache are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// Those of the slabs that CPUs allocate from.
    pub cpu_slab: u64,
    /// In slabs on CPU partial lists.
    pub cpu_partial: u64,
    /// In CPUs' sheaves.
    pub sheaves: u64,
    /// In full sheaves of all nodes.
    pub barns: u64,
    /// In slabs on nodes' lists.
    pub node_partial: u64,
}

impl Free {
    fn of(cache: &KernelCache, places: &Places) -> Free {
        let (sheaves, barns) = cache.in_sheaves();
        Free {
            cpu_slab: places.free_cpu_slab,
            cpu_partial: places.free_cpu_partial,
            sheaves: sheaves as u64,
            barns: barns as u64,
            node_partial: places.free_node,
        }
    }

    /// Free objects that CPUs hold.
    #[must_use]
    pub fn parked_cpu(&self) -> u64 {
        self.cpu_slab + self.cpu_partial + self.sheaves
    }

    /// Free objects on no list of a node: parked.
    #[must_use]
    pub fn parked(&self) -> u64 {
        self.parked_cpu() + self.barns
    }
}
