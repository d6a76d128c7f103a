//! Replays a population under given settings.
//!
//! Each CPU that uses a cache first allocates and frees one object, which gives it a CPU slab. Then
//! the objects that stay and those that will be freed are allocated in a random order; finally CPUs
//! chosen at random free the latter in another random order.

use super::{CacheLoad, PopulationLoad};
use crate::geometry::{self, SizeError};
use crate::rules::Settings;
use slabyard_model::cache::KernelCache;
use slabyard_model::cache::audit::Places;
use slabyard_small::random::Random;

/// What a population takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of all caches together, as `Slab:` of `/proc/meminfo` has it.
    pub slab_kb: u64,
    /// In the order of the load.
    pub caches: Vec<CacheOutcome>,
}

/// What a cache takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOutcome {
    /// Its name in sysfs.
    pub id: String,
    /// Its slabs have 2^order pages.
    pub order: u8,
    /// Its share of [`Outcome::slab_kb`].
    pub slab_kb: u64,
    /// Counts of its slabs by the list that they are on.
    pub places: Places,
}

impl PopulationLoad {
    /// Replays the load on the machine and by the rules of `settings`, which are
    /// [valid](Settings::validate).
    ///
    /// # Errors
    /// A cache whose size has no geometry there.
    pub fn run(&self, settings: &Settings) -> Result<Outcome, SizeError> {
        let machine = &settings.machine;
        let (cpus, nodes) = (machine.online_cpus.max(1) as usize, machine.nodes.max(1) as usize);
        let node_of: Vec<u16> = (0..cpus).map(|cpu| (cpu * nodes / cpus) as u16).collect();
        let mut caches = Vec::new();
        for (number, load) in self.caches.iter().enumerate() {
            let geometry = geometry::of_cache(&load.request, settings)?;
            let mut cache = KernelCache::new(geometry.rules(settings), &node_of);
            cache.follow_sheaves(settings.sheaves(load.request.size));
            let mut random = Random::new(self.seed ^ (number as u64) << 32);
            load.replay(&mut cache, cpus, &mut random);
            let places = cache.places();
            let slab_kb = u64::from(places.slabs) * (geometry.slab_bytes(machine.page_size) >> 10);
            caches.push(CacheOutcome {
                id: load.id.clone(),
                order: geometry.order,
                slab_kb,
                places,
            });
        }
        Ok(Outcome { slab_kb: caches.iter().map(|cache| cache.slab_kb).sum(), caches })
    }
}

/// Allocations in one go, by one CPU.
#[derive(Clone, Copy)]
struct Burst {
    allocated: u64,
    kept: u64,
}

impl CacheLoad {
    fn replay(&self, cache: &mut KernelCache, cpus: usize, random: &mut Random) {
        // A cache whose slabs no CPU holds was filled by one all the same.
        let cpus = (self.cpus as usize).clamp(1, cpus);
        for cpu in 0..self.cpus.min(cpus as u32) as usize {
            let slab = cache.alloc(cpu, None);
            cache.free(cpu, slab);
        }
        let mut bursts = self.bursts();
        random.shuffle(&mut bursts);
        let mut to_free = Vec::new();
        for burst in bursts {
            let cpu = random.below(cpus as u32) as usize;
            let mut slabs: Vec<u32> =
                (0..burst.allocated).map(|_| cache.alloc(cpu, None)).collect();
            random.shuffle(&mut slabs);
            to_free.extend_from_slice(&slabs[burst.kept as usize..]);
        }
        random.shuffle(&mut to_free);
        for slab in to_free {
            cache.free(random.below(cpus as u32) as usize, slab);
        }
    }

    fn bursts(&self) -> Vec<Burst> {
        let burst = |allocated: u32, kept: u32| Burst {
            allocated: allocated.into(),
            kept: kept.min(allocated).into(),
        };
        let runs = self.runs.iter().map(|run| burst(*run, *run));
        let left = self.left_behind.iter().map(|left| burst(left.allocated, left.kept));
        let singles = (0..self.singles).map(|_| burst(1, 1));
        runs.chain(left).chain(singles).collect()
    }
}
