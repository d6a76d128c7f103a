//! Compares the yards with modelled kernels: for the same load, both have the same number of slabs
//! at each moment. The yards' slabs are memory; the models' slabs are numbers.
#![cfg(target_os = "linux")]

use slabyard::engine::array_cache::Limits;
use slabyard_firmware::boot;
use slabyard_firmware::{MEMORY_BYTES, Machine, PAGES, Tables};
use slabyard_fixed::{CpuSlab, FixedEngine, Settings, Slab, Slob, Slub, Tiny, orders};
use slabyard_model::cache::{Accounting, Freezing, Front, KernelCache, Planted, Rules};
use slabyard_model::slob::Kernel;
use slabyard_small::boot::Boot;
use slabyard_small::{CACHES, Checkpoint, ObjectType, Request, SLOTS};
use std::alloc::{Layout, alloc};
use std::fmt;

/// Keeps what a load prints.
struct Paper(String);

impl fmt::Write for Paper {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(text)
    }
}

impl Machine for Paper {
    fn memory(&mut self) -> *mut u8 {
        // SAFETY: the size is not 0.
        unsafe { alloc(Layout::from_size_align(MEMORY_BYTES, 4096).unwrap()) }
    }

    fn tables(&mut self) -> &'static mut Tables {
        Box::leak(Box::new(Tables::new()))
    }

    fn instructions(&self) -> Option<u64> {
        None
    }
}

/// Slab pages at each moment, as a yard prints them.
fn of_yard<E: FixedEngine>(settings: Settings, seed: u64) -> Vec<u32> {
    let mut paper = Paper(String::new());
    boot::run::<E>(&mut paper, settings, "it", (seed, PAGES)).expect("sound");
    Checkpoint::ALL
        .iter()
        .map(|moment| {
            let name = format!(" {}: ", moment.name());
            let line = paper.0.lines().find(|line| line.contains(&name)).expect("each moment");
            let (_, behind) = line.split_once(" slab ").expect("its pages");
            behind.split(' ').next().unwrap().parse().unwrap()
        })
        .collect()
}

/// What an engine's caches are in a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Modelled {
    Tiny,
    Slab,
    CpuSlabs,
    Sheaves,
}

struct Caches {
    modelled: Modelled,
    max_order: u32,
    min_partial: Option<u32>,
    cpu_partial: u32,
    /// By the size of objects, and the cache's number.
    all: Vec<((u32, Option<u8>), KernelCache, u32)>,
}

impl Caches {
    fn make(&self, size: u32) -> (KernelCache, u32) {
        let order = match self.modelled {
            Modelled::Slab => orders::slab(size, 4096, self.max_order),
            _ => orders::slub(size, 4096, self.max_order, 1),
        }
        .expect("an order");
        let objects = (4096 << order) / size;
        let kept = self.min_partial.unwrap_or((size.ilog2() / 2).clamp(5, 10));
        let front = match self.modelled {
            Modelled::Tiny => Front::Nothing,
            Modelled::Slab => Front::ArrayCaches(Limits::of(size, 4096, 1)),
            Modelled::CpuSlabs => Front::CpuSlabs,
            Modelled::Sheaves => Front::Sheaves,
        };
        let rules = Rules {
            objects,
            min_partial: if self.modelled == Modelled::Tiny { 0 } else { kept },
            cpu_partial: self.cpu_partial,
            cpu_partial_slabs: (2 * self.cpu_partial).div_ceil(objects),
            cpu_partial_lists: self.cpu_partial > 0,
            freezing: Freezing::Eager,
            accounting: Accounting::Slabs,
            front,
            sheaf_capacity: Settings::DEFAULT.sheaf_objects,
            remote_ratio: 0,
            planted: Planted::None,
        };
        (KernelCache::new(rules, &[0]), order)
    }

    /// The number of the cache that serves a request.
    fn of(&mut self, what: ObjectType) -> Option<usize> {
        let key = match what {
            ObjectType::Cache(number) => {
                let cache = &CACHES[number as usize];
                (cache.bytes.next_multiple_of(cache.align.max(8)), Some(number))
            }
            ObjectType::Kmalloc(bytes) => {
                let classes = [8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192];
                (classes.into_iter().find(|class| *class >= bytes)?, None)
            }
        };
        let found = self.all.iter().position(|(of, ..)| *of == key);
        Some(found.unwrap_or_else(|| {
            let (cache, order) = self.make(key.0);
            self.all.push((key, cache, order));
            self.all.len() - 1
        }))
    }

    fn slab_pages(&self) -> u32 {
        self.all.iter().map(|(_, cache, order)| cache.nr_slabs() << order).sum()
    }

    fn run(mut self, seed: u64) -> Vec<u32> {
        let mut slots = vec![None; SLOTS];
        let mut moments = Vec::new();
        for request in Boot::new(seed) {
            match request {
                Request::Alloc { slot, what } => {
                    slots[slot as usize] =
                        self.of(what).map(|nth| (nth, self.all[nth].1.alloc(0, None)));
                }
                Request::Free { slot } => {
                    if let Some((nth, object)) = slots[slot as usize].take() {
                        self.all[nth].1.free(0, object);
                    }
                }
                Request::Reach(_) => moments.push(self.slab_pages()),
                Request::Pages { .. } | Request::FreePages { .. } => {}
            }
        }
        moments
    }
}

/// Pages of blocks of a modelled SLOB at each moment.
fn of_slob(seed: u64) -> Vec<u32> {
    let model = Kernel::new(4096, 8, 10_000);
    let mut slots = vec![None; SLOTS];
    let (mut moments, mut large) = (Vec::new(), 0);
    for request in Boot::new(seed) {
        match request {
            Request::Alloc { slot, what } => {
                let before = model.nr_pages();
                let (at, bytes) = match what {
                    ObjectType::Kmalloc(bytes) => (model.kmalloc(bytes), bytes + 8),
                    ObjectType::Cache(number) => {
                        let cache = &CACHES[number as usize];
                        let bytes = cache.bytes.next_multiple_of(cache.align);
                        (model.cache_alloc(bytes, cache.align), bytes)
                    }
                };
                let pages = if bytes >= 4096 { model.nr_pages() - before } else { 0 };
                large += pages;
                slots[slot as usize] = Some((what, at.expect("room"), bytes, pages));
            }
            Request::Free { slot } => {
                let (what, at, bytes, pages) = slots[slot as usize].take().expect("it is live");
                match what {
                    ObjectType::Kmalloc(_) => model.kfree(at),
                    ObjectType::Cache(_) => model.cache_free(at, bytes),
                }
                large -= pages;
            }
            Request::Reach(_) => moments.push(model.nr_pages() - large),
            Request::Pages { .. } | Request::FreePages { .. } => {}
        }
    }
    moments
}

#[test]
fn yards_have_the_slabs_of_modelled_kernels() {
    let same = |name: &str, yard: Vec<u32>, model: Vec<u32>| {
        assert_eq!(yard, model, "{name}: slab pages at each moment");
        assert!(yard.iter().all(|pages| *pages > 100), "{name}: a load of some size");
    };
    for seed in 1..=4 {
        same("slob", of_yard::<Slob>(Settings::DEFAULT, seed), of_slob(seed));
        for max_order in 0..=3 {
            let settings = Settings { max_order: Some(max_order), ..Settings::DEFAULT };
            let caches = |modelled, settings: Settings| Caches {
                modelled,
                max_order,
                min_partial: settings.min_partial,
                cpu_partial: settings.cpu_partial,
                all: Vec::new(),
            };
            let model = |modelled| caches(modelled, settings).run(seed);
            same("tiny", of_yard::<Tiny>(settings, seed), model(Modelled::Tiny));
            same("slab", of_yard::<Slab>(settings, seed), model(Modelled::Slab));
            same("cpu slabs", of_yard::<CpuSlab>(settings, seed), model(Modelled::CpuSlabs));
            same("sheaves", of_yard::<Slub>(settings, seed), model(Modelled::Sheaves));
            for settings in [
                Settings { min_partial: Some(0), ..settings },
                Settings { cpu_partial: 30, ..settings },
            ] {
                let model = caches(Modelled::CpuSlabs, settings).run(seed);
                same("cpu slabs", of_yard::<CpuSlab>(settings, seed), model);
            }
        }
    }
}

/// The comparison finds a model that keeps empty slabs where the yard does not.
#[test]
fn a_planted_difference_is_found() {
    let settings = Settings { max_order: Some(1), ..Settings::DEFAULT };
    let caches = Caches {
        modelled: Modelled::CpuSlabs,
        max_order: 1,
        min_partial: Some(0),
        cpu_partial: 0,
        all: Vec::new(),
    };
    assert_ne!(of_yard::<CpuSlab>(settings, 1), caches.run(1));
}
