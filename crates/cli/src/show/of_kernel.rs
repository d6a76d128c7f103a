//! What the running kernel's memory tells of caches, slab by slab: CPU partial lists, and sheaves.
//!
//! Neighbours: [`crate::kernel_lists`] reads it, the views of `slabyard_observe` print it.

use crate::failure::Failure;
use crate::kernel_lists::{Moments, Reader};
use crate::stderr::say;
use anyhow::anyhow;
use slabyard_lab::lists::{CacheLists, Lists, Sheaf};
use slabyard_observe::snapshot::{Slab, SlabPlace};
use slabyard_observe::view::show::sheaves::{HeldSheaves, HeldSlab};
use slabyard_observe::{Cache, Snapshot};
use std::collections::{BTreeMap, HashSet};

/// Addresses are read without their upper 16 bits, which are the same in all of a kernel's.
const UPPER: u64 = 0xffff << 48;

/// Which lists are asked for.
#[derive(Clone, Copy)]
pub enum Wanted {
    CpuPartial,
    Sheaves,
}

/// Reads the lists of these caches.
pub fn read(snapshot: &Snapshot, caches: &[&Cache], wanted: Wanted) -> Result<Lists, Failure> {
    let refused = |lack| anyhow!("kernel: what lies on the caches' lists cannot be read: {lack}");
    let mut reader = Reader::new().map_err(refused)?;
    let (has_them, why_not) = match wanted {
        Wanted::CpuPartial => (
            reader.has_cpu_slabs(),
            "since 7.0 kernels have no CPU partial lists; --sheaves shows what CPUs hold",
        ),
        Wanted::Sheaves => (
            reader.has_sheaves(),
            "kernels before 6.18 have no sheaves; --cpu-partial shows what CPUs hold",
        ),
    };
    if !has_them {
        return Err(anyhow!("kernel: {why_not}").into());
    }
    let names: HashSet<&str> = caches.iter().flat_map(|cache| cache.names()).collect();
    let moments = Moments { begin: &|| {}, now: &|| 0 };
    let is_wanted = |name: &str| names.contains(name);
    let lists = reader.read(snapshot, &is_wanted, moments).map_err(refused)?;
    if lists.unread > 0 {
        say("some lists did not stand still; ask again");
    }
    Ok(lists)
}

/// The lists of a cache, by any of its names.
pub fn of<'a>(lists: &'a Lists, cache: &Cache) -> Option<&'a CacheLists> {
    lists.caches.iter().find(|lists| cache.names().any(|name| name == lists.name))
}

/// The slabs on CPUs' partial lists, in the form of a snapshot; one that did not stand still is
/// left out.
pub fn cpu_partial(lists: &CacheLists, order: u32) -> Vec<Slab> {
    let mut slabs = Vec::new();
    for of in &lists.cpus {
        for (nth, slab) in of.partial.iter().enumerate().filter(|(_, slab)| slab.free.is_some()) {
            slabs.push(Slab {
                page: slab.base | UPPER,
                order,
                objects: slab.objects,
                inuse: slab.objects - slab.nr_free(),
                place: SlabPlace::Cpu(of.cpu),
                partial_pages: u32::try_from(of.partial.len() - nth).ok(),
                partial_objects: None,
            });
        }
    }
    slabs
}

/// What each CPU and node has in sheaves; `None` if the snapshot lacks what that takes.
pub fn sheaves(snapshot: &Snapshot, cache: &Cache, lists: &CacheLists) -> Option<Vec<HeldSheaves>> {
    let page_bytes = snapshot.machine.page_bytes?;
    let order = u32::try_from(cache.exact("order")?).ok()?;
    let objects = u32::try_from(cache.exact("objs_per_slab")?).ok()?;
    let base = |object: &u64| (object & !((page_bytes << order) - 1)) | UPPER;
    // Free objects of each slab, whatever has them.
    let mut free: BTreeMap<u64, u32> = BTreeMap::new();
    for slab in lists.each() {
        *free.entry(slab.base | UPPER).or_default() += slab.nr_free();
    }
    lists.in_sheaves().for_each(|object| *free.entry(base(&object)).or_default() += 1);
    let held = |sheaves: &mut dyn Iterator<Item = &Sheaf>| {
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        sheaves.flatten().for_each(|object| *counts.entry(base(object)).or_default() += 1);
        let slab = |(base, held): (u64, u32)| HeldSlab {
            page: base / page_bytes,
            base,
            order,
            objects,
            held,
            live: objects.saturating_sub(free[&base]),
        };
        counts.into_iter().map(slab).collect()
    };
    let size = |sheaf: &Sheaf| sheaf.len() as u64;
    let of_cpus = lists.sheaves.iter().map(|of| HeldSheaves {
        place: SlabPlace::Cpu(of.cpu),
        main: Some(size(&of.main)),
        spare: of.spare.as_ref().map(size),
        rcu_free: of.rcu_free.as_ref().map(size),
        slabs: held(&mut of.each()),
        ..HeldSheaves::default()
    });
    let of_nodes = (0..).zip(&lists.barns).map(|(node, barn)| HeldSheaves {
        place: SlabPlace::Node(node),
        full: Some(barn.full.len() as u64),
        empty: Some(barn.empty.into()),
        slabs: held(&mut barn.full.iter()),
        ..HeldSheaves::default()
    });
    Some(of_cpus.chain(of_nodes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_lab::lists::{Barn, CpuSheaves, CpuSlabLists, Objects, SlabOnList};
    use slabyard_observe::snapshot::{Source, SourceKind};

    #[test]
    fn slabs_that_only_sheaves_keep_are_told_from_others() {
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Kernel));
        snapshot.machine.page_bytes = Some(4096);
        let mut cache = Cache::new("x");
        for (key, value) in [("order", 0), ("objs_per_slab", 4), ("slab_size", 1024)] {
            cache.set(key, value);
        }
        let listed = SlabOnList { base: 0x1000, objects: 4, free: Some(Objects(vec![0b1])) };
        let sheaves = vec![CpuSheaves {
            cpu: 1,
            main: vec![0x1400, 0x2000, 0x1800],
            spare: None,
            rcu_free: Some(vec![]),
        }];
        let barns = vec![Barn { full: vec![vec![0x1c00]], empty: 2 }];
        let nodes = vec![vec![listed]];
        let lists = CacheLists { sheaves, barns, nodes, ..CacheLists::default() };
        let held = super::sheaves(&snapshot, &cache, &lists).unwrap();
        assert_eq!((held[0].main, held[0].spare, held[0].rcu_free), (Some(3), None, Some(0)));
        let told = |of: &HeldSheaves| -> Vec<(u64, u32, u32)> {
            of.slabs.iter().map(|slab| (slab.base - UPPER, slab.held, slab.live)).collect()
        };
        assert_eq!(told(&held[0]), [(0x1000, 2, 0), (0x2000, 1, 3)]);
        assert_eq!(told(&held[1]), [(0x1000, 1, 0)]);
        let sums = held[0].sums(1024, 4096);
        assert_eq!((sums.objects, sums.nr_slabs, sums.empty_slabs), (3, 2, 1));
        assert_eq!((sums.bytes, sums.empty_bytes), (3072, 4096));
    }

    #[test]
    fn a_cpus_list_is_one_of_slabs() {
        let slab = |free: Option<u64>| SlabOnList {
            base: 0x5000,
            objects: 4,
            free: free.map(|free| Objects(vec![free])),
        };
        let partial = vec![slab(Some(0b1111)), slab(None), slab(Some(0b11))];
        let cpus = vec![CpuSlabLists { cpu: 3, slab: None, partial }];
        let slabs = cpu_partial(&CacheLists { cpus, ..CacheLists::default() }, 0);
        let told: Vec<_> = slabs.iter().map(|slab| (slab.inuse, slab.partial_pages)).collect();
        assert_eq!(told, [(0, Some(3)), (2, Some(1))]);
        assert!(slabs.iter().all(|slab| slab.place == SlabPlace::Cpu(3)));
    }
}
