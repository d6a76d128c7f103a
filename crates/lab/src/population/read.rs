//! Builds a load from snapshots.
//!
//! A number that a snapshot lacks is assumed to equal the mean of those that it has, or all
//! possible values are assumed equally likely. No number here was fitted to a result:
//!
//! - A full slab was filled without a pause: the code that fills slabs at boot does so in a loop.
//! - The kernel's `cpu_slabs` counts the slabs on a CPU's partial list only if the CPU has a CPU
//!   slab. If each of C CPUs is equally likely to have one, `cpu_slabs / (1 + listed / C)` CPUs
//!   have CPU slabs.
//! - For a cache that was not used again after a shrink, all objects are counted exactly. The
//!   objects in the cache's non-full slabs were in CPU slabs before the shrink. The mean fullness
//!   of these CPU slabs is assumed for all others.
//! - A slab on a list was full once, as only a free into a full slab puts a slab on a list.

use super::{CacheLoad, Error, LeftBehind, PopulationLoad};
use crate::snapshot::{Cache, KernelSnapshot};

const SEED: u64 = 0x51ab_7a4d;

/// The assumed fullness of a CPU slab of which nothing is known: any part is as likely.
const UNKNOWN_FULLNESS: f64 = 0.5;

/// 2^32 objects of a cache: 32 GiB of the smallest.
const MOST_OBJECTS: u64 = 1 << 32;

/// A cache's slabs by where they are.
struct Slabs {
    objects: u64,
    full: u64,
    cpu: u64,
    cpu_list: u64,
    node_list: u64,
    /// Live ones on nodes' lists.
    node_objects: u64,
}

impl Slabs {
    fn of(cache: &Cache, cpus: u64) -> Result<Slabs, Error> {
        let (Some(slabs), Some(counted)) = (cache.slabs, cache.cpu_slabs) else {
            return Err(Error::NoPlaces(cache.id.clone()));
        };
        let objects = u64::from(cache.objs_per_slab);
        if slabs > MOST_OBJECTS / objects {
            let (id, objects) = (cache.id.clone(), cache.objs_per_slab);
            return Err(Error::TooMany { id, slabs, objects });
        }
        // Kernels without such lists do not tell of them.
        let cpu_list = cache.slabs_cpu_partial.as_ref().map_or(0, |lists| lists.slabs).min(slabs);
        let per_cpu = 1.0 + cpu_list as f64 / cpus as f64;
        let cpu = ((counted as f64 / per_cpu).round() as u64).min(cpus).min(slabs - cpu_list);
        let node_list = cache.partial.unwrap_or(0).min(slabs - cpu_list - cpu);
        let full = slabs - cpu_list - cpu - node_list;
        let node_objects = cache.objects_partial.unwrap_or(0).min(node_list * objects);
        Ok(Slabs { objects, full, cpu, cpu_list, node_list, node_objects })
    }

    /// Live objects that CPUs hold, if the cache has `live` in all.
    fn held_of(&self, live: u64) -> u64 {
        let elsewhere = self.full * self.objects + self.node_objects;
        live.saturating_sub(elsewhere).min(self.of_cpus() * self.objects)
    }

    fn of_cpus(&self) -> u64 {
        self.cpu + self.cpu_list
    }
}

/// Live objects, where a dump that was taken after a shrink counts them exactly.
fn live(cache: &Cache) -> Option<u64> {
    let listed = cache.slabs_cpu_partial.as_ref().map_or(0, |lists| lists.slabs);
    let parked = cache.cpu_slabs? > 0 || listed > 0;
    cache.objects.filter(|_| !parked && cache.sheaf_capacity.unwrap_or(0) == 0)
}

impl PopulationLoad {
    /// The population of one dump. Without another one after a shrink it does not
    /// tell what CPU slabs hold: half, then.
    ///
    /// # Errors
    /// What the snapshot does not tell.
    pub fn from_snapshot(snapshot: &KernelSnapshot) -> Result<PopulationLoad, Error> {
        PopulationLoad::read(snapshot, None)
    }

    /// The population of a dump, with what another dump of the same boot, taken just after a
    /// shrink, says about its live objects.
    ///
    /// # Errors
    /// What the snapshots do not tell, or a shrunk one of another boot.
    pub fn from_snapshots(
        snapshot: &KernelSnapshot,
        shrunk: &KernelSnapshot,
    ) -> Result<PopulationLoad, Error> {
        let shape = |cache: &Cache| (cache.slab_size, cache.order);
        for cache in &snapshot.caches {
            // Caches may end between the two.
            let other = shrunk.cache(&cache.id).map_or(shape(cache), shape);
            if other != shape(cache) || snapshot.page_size != shrunk.page_size {
                return Err(Error::OtherBoot(cache.id.clone()));
            }
        }
        PopulationLoad::read(snapshot, Some(shrunk))
    }

    fn read(
        snapshot: &KernelSnapshot,
        shrunk: Option<&KernelSnapshot>,
    ) -> Result<PopulationLoad, Error> {
        let machine = snapshot.machine().filter(|machine| machine.online_cpus > 0);
        let cpus = machine.map(|machine| u64::from(machine.online_cpus)).ok_or(Error::NoCpus)?;
        let (mut full, mut known, mut all) = (0.0, 0, 0);
        let mut counted = Vec::new();
        for cache in &snapshot.caches {
            let slabs = Slabs::of(cache, cpus)?;
            let live = shrunk.and_then(|shrunk| live(shrunk.cache(&cache.id)?));
            let held = live.map(|live| slabs.held_of(live));
            all += slabs.of_cpus();
            if let Some(held) = held {
                full += held as f64 / slabs.objects as f64;
                known += slabs.of_cpus();
            }
            counted.push((cache, slabs, held));
        }
        let fullness = if known > 0 { full / known as f64 } else { UNKNOWN_FULLNESS };
        let caches = counted.iter().map(|(cache, slabs, held)| {
            let room = (slabs.of_cpus() * slabs.objects) as f64;
            load(cache, slabs, held.unwrap_or((room * fullness).round() as u64))
        });
        let caches = caches.collect();
        Ok(PopulationLoad { caches, fullness, known_cpu_slabs: (known, all), seed: SEED })
    }
}

/// The load of a cache whose CPUs hold `held` live objects.
fn load(cache: &Cache, slabs: &Slabs, held: u64) -> CacheLoad {
    let on_lists = held * slabs.cpu_list / slabs.of_cpus().max(1);
    let mut left_behind = spread(slabs.cpu_list, on_lists, slabs.objects);
    left_behind.extend(spread(slabs.node_list, slabs.node_objects, slabs.objects));
    CacheLoad {
        id: cache.id.clone(),
        request: cache.request(),
        cpus: slabs.cpu as u32,
        runs: vec![slabs.objects as u32; slabs.full as usize],
        left_behind,
        singles: held - on_lists,
    }
}

/// `slabs` with `live` objects in all, as evenly as can be.
fn spread(slabs: u64, live: u64, objects: u64) -> Vec<LeftBehind> {
    let upto = |nth: u64| live * nth / slabs;
    (0..slabs)
        .map(|nth| LeftBehind {
            allocated: objects as u32,
            kept: (upto(nth + 1) - upto(nth)) as u32,
        })
        .collect()
}
