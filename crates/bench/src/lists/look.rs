//! Compares the free objects that a process's CPU partial lists claim with those in their slabs.
//!
//! Neighbours: `observe::process` reads the process; `measure` keeps the process stopped meanwhile.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use slabyard_observe::process::{self, RequestKind};
use slabyard_observe::snapshot::{Cache, SlabPlace, Snapshot};
use slabyard_observe::source::ReadScope;

/// The process makes a call every 10 ms; a look during a call gives ranges.
const ATTEMPTS: usize = 50;
const PATIENCE: Duration = Duration::from_secs(5);

/// A CPU's partial list of one cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct List {
    pub cpu: u32,
    pub slabs: u64,
    /// Free objects that the list's count has; none where it counts slabs.
    pub claimed: Option<u64>,
    /// Free objects in these slabs.
    pub free: u64,
    /// Slabs in which nothing is in use.
    pub empty: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfCache {
    pub name: String,
    pub slab_bytes: u64,
    /// Bytes of all its slabs.
    pub bytes: u64,
    /// Lists with a slab on them, by CPU.
    pub lists: Vec<List>,
}

/// All caches that have slabs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListsSample {
    pub caches: Vec<OfCache>,
}

/// Sums over lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    pub lists: u64,
    pub slabs: u64,
    /// None if a list counts no objects.
    pub claimed: Option<u64>,
    pub free: u64,
    pub empty: u64,
    pub empty_bytes: u64,
}

impl OfCache {
    /// Of all its lists.
    pub fn sum(&self) -> Sum {
        let mut sum = Sum { claimed: Some(0), ..Sum::default() };
        for list in &self.lists {
            sum.add(Sum {
                lists: 1,
                slabs: list.slabs,
                claimed: list.claimed,
                free: list.free,
                empty: list.empty,
                empty_bytes: list.empty * self.slab_bytes,
            });
        }
        sum
    }
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.lists += other.lists;
        self.slabs += other.slabs;
        self.claimed = self.claimed.zip(other.claimed).map(|(a, b)| a + b);
        self.free += other.free;
        self.empty += other.empty;
        self.empty_bytes += other.empty_bytes;
    }
}

impl ListsSample {
    /// Of all caches' lists.
    pub fn sum(&self) -> Sum {
        let mut sum = Sum { claimed: Some(0), ..Sum::default() };
        self.caches.iter().for_each(|cache| sum.add(cache.sum()));
        sum
    }

    /// Bytes of all slabs: what a kernel's line `Slab` has.
    pub fn slab_bytes(&self) -> u64 {
        self.caches.iter().map(|cache| cache.bytes).sum()
    }
}

/// Looks until nothing moved meanwhile.
pub fn at(pid: u32) -> Result<ListsSample> {
    for _ in 0..ATTEMPTS {
        let want = ReadScope { all: true, slabs: true };
        let snapshot = process::sample(pid, want).context("a look at the load")?;
        if let Some(look) = read(&snapshot) {
            return Ok(look);
        }
        thread::sleep(Duration::from_millis(3));
    }
    anyhow::bail!("the load's slabs moved during each of {ATTEMPTS} looks")
}

/// Has the process shrink all its caches.
pub fn shrink(pid: u32) -> Result<()> {
    process::ask(pid, &RequestKind::Shrink { cache: None }, PATIENCE).context("shrink the load")?;
    Ok(())
}

/// None where a number is a range.
pub fn read(snapshot: &Snapshot) -> Option<ListsSample> {
    let page = snapshot.machine.page_bytes?;
    let caches = snapshot.caches.iter().map(|cache| of_cache(cache, page));
    let caches = caches.collect::<Option<Vec<OfCache>>>()?;
    Some(ListsSample { caches: caches.into_iter().filter(|cache| cache.bytes > 0).collect() })
}

fn of_cache(cache: &Cache, page: u64) -> Option<OfCache> {
    let bytes = cache.exact("bytes")?;
    let slab_bytes = page << cache.exact("order")?;
    let mut lists: BTreeMap<u32, List> = BTreeMap::new();
    for slab in cache.slabs.iter().flatten() {
        let SlabPlace::Cpu(cpu) = slab.place else { continue };
        let list = lists.entry(cpu).or_insert(List { cpu, ..List::default() });
        list.slabs += 1;
        // The newest slab's is the list's; it is the greatest.
        list.claimed = list.claimed.max(slab.partial_objects.map(u64::from));
        list.free += u64::from(slab.objects.saturating_sub(slab.inuse));
        list.empty += u64::from(slab.inuse == 0);
    }
    let lists = lists.into_values().collect();
    Some(OfCache { name: cache.name.clone(), slab_bytes, bytes, lists })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use slabyard_observe::snapshot::{Slab, Source, SourceKind};

    /// A cache of slabs of 16 KiB, with lists `(cpu, claimed, in use of 51 each)`.
    pub fn snapshot(bytes: u64, lists: &[(u32, Option<u32>, &[u32])]) -> Snapshot {
        let mut cache = Cache::new("malloc-80");
        cache.set("bytes", bytes);
        cache.set("order", 2);
        let slab = |cpu, claimed, inuse: &u32| Slab {
            order: 2,
            objects: 51,
            inuse: *inuse,
            place: SlabPlace::Cpu(cpu),
            partial_objects: claimed,
            ..Slab::default()
        };
        let mut slabs: Vec<Slab> = lists
            .iter()
            .flat_map(|(cpu, claimed, inuse)| inuse.iter().map(|n| slab(*cpu, *claimed, n)))
            .collect();
        slabs.push(Slab { place: SlabPlace::Node(0), objects: 51, inuse: 0, ..Slab::default() });
        cache.slabs = Some(slabs);
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Process));
        snapshot.machine.page_bytes = Some(4096);
        snapshot.caches.push(cache);
        snapshot
    }

    #[test]
    fn lists_are_told_apart_by_their_cpus() {
        let lists: &[(u32, Option<u32>, &[u32])] = &[(0, Some(2), &[0, 0]), (1, Some(3), &[0, 7])];
        let look = read(&snapshot(10 << 14, lists)).unwrap();
        let [cache] = look.caches.as_slice() else { panic!("{look:?}") };
        let first = List { cpu: 0, slabs: 2, claimed: Some(2), free: 102, empty: 2 };
        let second = List { cpu: 1, slabs: 2, claimed: Some(3), free: 95, empty: 1 };
        assert_eq!(cache.lists, [first, second]);
        let sum = look.sum();
        assert_eq!((sum.lists, sum.slabs, sum.claimed, sum.free), (2, 4, Some(5), 197));
        assert_eq!((sum.empty, sum.empty_bytes), (3, 3 << 14));
        assert_eq!(look.slab_bytes(), 10 << 14);
    }

    #[test]
    fn lists_that_count_slabs_claim_no_objects() {
        let look = read(&snapshot(1 << 14, &[(0, None, &[0])])).unwrap();
        assert_eq!(look.sum().claimed, None);
        let none = read(&snapshot(1 << 14, &[])).unwrap().sum();
        assert_eq!((none.lists, none.claimed), (0, Some(0)), "no list claims nothing");
    }

    #[test]
    fn a_range_is_no_look() {
        let mut moved = snapshot(1 << 14, &[]);
        moved.caches[0].readings.remove("bytes");
        assert!(read(&moved).is_none());
    }
}
