//! Reads a population from snapshots.
//!
//! The kernel's `cpu_slabs` counts the slabs on a CPU's partial list only if the CPU has a CPU slab.
//! If each of C CPUs is equally likely to have one, `cpu_slabs / (1 + listed / C)` CPUs have CPU
//! slabs. A slab on a node's list may be empty: as many as the list has more slabs than objects are
//! assumed to be. Kernels whose caches have sheaves count what is in them as in use: a cache with
//! fewer objects than sheaves of all CPUs hold is assumed to be used by the CPUs that they suffice
//! for. For a cache that was not used again after a shrink, all objects are counted exactly.

use super::layout::{LIVE_ON_LISTS, Places, in_cpu_slab};
use super::{CachePopulation, Error, Population, cpus};
use crate::rules::{Front, Settings};
use crate::snapshot::{Cache, KernelSnapshot};

/// 2^32 objects of a cache: 32 GiB of the smallest.
const MOST_OBJECTS: u64 = 1 << 32;

impl Population {
    /// The population of one dump, of a kernel with these rules. Without another dump after a
    /// shrink it does not tell what CPU slabs hold.
    ///
    /// # Errors
    /// What the snapshot does not tell.
    pub fn from_snapshot(snapshot: &KernelSnapshot, own: &Settings) -> Result<Population, Error> {
        Population::read(snapshot, None, own)
    }

    /// The population of a dump, with what another dump of the same boot, taken just after a
    /// shrink, says about its live objects.
    ///
    /// # Errors
    /// What the snapshots do not tell, or a shrunk one of another boot.
    pub fn from_snapshots(
        snapshot: &KernelSnapshot,
        shrunk: &KernelSnapshot,
        own: &Settings,
    ) -> Result<Population, Error> {
        let shape = |cache: &Cache| (cache.slab_size, cache.order);
        for cache in &snapshot.caches {
            // Caches may end between the two.
            let other = shrunk.cache(&cache.id).map_or(shape(cache), shape);
            if other != shape(cache) || snapshot.page_size != shrunk.page_size {
                return Err(Error::OtherBoot(cache.id.clone()));
            }
        }
        Population::read(snapshot, Some(shrunk), own)
    }

    fn read(
        snapshot: &KernelSnapshot,
        shrunk: Option<&KernelSnapshot>,
        own: &Settings,
    ) -> Result<Population, Error> {
        let machine = snapshot.machine().filter(|machine| machine.online_cpus > 0);
        let cpus = machine.map(|machine| u64::from(machine.online_cpus)).ok_or(Error::NoCpus)?;
        let for_cpus = cpus::of_caches(snapshot);
        let caches = snapshot.caches.iter().zip(for_cpus).map(|(cache, (present, possible))| {
            let exact = shrunk.and_then(|shrunk| live(shrunk.cache(&cache.id)?));
            let has_sheaves = own.front() == Front::Sheaves;
            Ok(CachePopulation {
                id: cache.id.clone(),
                request: cache.request(),
                order: cache.order,
                cpu_partial: cache.cpu_partial,
                min_partial: cache.min_partial,
                places: places(cache, cpus, has_sheaves, exact)?,
                for_present: present,
                for_possible: possible,
            })
        });
        Ok(Population { own: own.clone(), caches: caches.collect::<Result<_, Error>>()? })
    }
}

/// Live objects, where a dump that was taken after a shrink counts them exactly.
fn live(cache: &Cache) -> Option<u64> {
    let listed = cache.slabs_cpu_partial.as_ref().map_or(0, |lists| lists.slabs);
    let parked = cache.cpu_slabs? > 0 || listed > 0;
    cache.objects.filter(|_| !parked && cache.sheaf_capacity.unwrap_or(0) == 0)
}

/// Where a cache's slabs are; `live` objects in all, if that is known. A kernel that has sheaves has
/// no CPU slabs, and may not count them.
fn places(cache: &Cache, cpus: u64, has_sheaves: bool, live: Option<u64>) -> Result<Places, Error> {
    let counted = cache.cpu_slabs.or(has_sheaves.then_some(0));
    let (Some(slabs), Some(counted)) = (cache.slabs, counted) else {
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
    let on_node = cache.partial.unwrap_or(0).min(slabs - cpu_list - cpu);
    let node_objects = cache.objects_partial.unwrap_or(0).min(on_node * objects);
    let node_list = on_node.min(node_objects);
    let full = slabs - cpu_list - cpu - on_node;
    let mut places = Places {
        objects: cache.objs_per_slab,
        full: full as f64,
        cpu: cpu as f64,
        cpu_objects: cpu as f64 * in_cpu_slab(cache.objs_per_slab),
        cpu_list: cpu_list as f64,
        listed_objects: (cpu_list * objects) as f64 * LIVE_ON_LISTS,
        node_list: node_list as f64,
        node_objects: node_objects as f64,
        empty: (on_node - node_list) as f64,
        sheaf_users: 0.0,
    };
    let capacity = cache.sheaf_capacity.filter(|_| has_sheaves).unwrap_or(0);
    if capacity > 0 {
        let in_use = full * objects + node_objects;
        places.sheaf_users = in_use.div_ceil(u64::from(capacity)).min(cpus) as f64;
    }
    if let Some(live) = live {
        let held = live.saturating_sub(full * objects + node_objects);
        let held = held.min((cpu + cpu_list) * objects) as f64;
        let assumed = places.cpu_objects + places.listed_objects;
        if assumed > 0.0 {
            let on_cpus = (held * places.cpu_objects / assumed).min((cpu * objects) as f64);
            (places.cpu_objects, places.listed_objects) = (on_cpus, held - on_cpus);
        }
    }
    Ok(places)
}
