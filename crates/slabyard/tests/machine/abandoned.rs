//! Abandoned caches on the modelled machine: the free of the last object destroys the cache,
//! wherever other threads are preempted, with a fast path that calls take until it is closed.

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::calls::trim;
use slabyard::created::abandoned;
use slabyard::platform::{FastPath, Park, PerCpu, Takes};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Body, Broken, Config, Machine};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

const SEEDS: u64 = if cfg!(debug_assertions) { 150 } else { 600 };

/// One cache, its words, and its live objects.
struct Scene {
    yard: Yard<Machine>,
    id: CacheId,
    words: FastPath,
    objects: Mutex<Vec<usize>>,
    reads: Reads,
}

/// Where a free reads the slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// In the sequence.
    Inside,
    /// In front of it, so that a fence does not make it read again.
    Before,
}

/// Pops are not inlined here.
static NO_POPS: AtomicU16 = AtomicU16::new(0);

impl Scene {
    fn new(config: Config, objects: usize) -> Self {
        let yard = Yard::new(Machine::new(config));
        assert!(yard.init(Settings { reserve_bytes: 64 << 20, decay_ms: 250 }));
        let id = yard.create_cache("abandoned", &CacheSettings::of(4000)).expect("a cache");
        let words = FastPath::new(yard.platform().rows(), id.slot(), &NO_POPS);
        let objects = (0..objects).map(|_| yard.alloc_from(id).expect("memory")).collect();
        Scene { yard, id, words, objects: Mutex::new(objects), reads: Reads::Inside }
    }

    /// Frees as a box does.
    fn free(&self, address: usize) {
        let p = self.yard.platform();
        let pushed = match self.reads {
            Reads::Inside => p.push_inlined(&self.words, address),
            Reads::Before => {
                let slot = self.words.slot();
                p.step();
                p.push(slot, address, Takes::Each)
            }
        };
        if !pushed {
            self.yard.free(address).expect("a live object");
            abandoned::end_if_abandoned(&self.yard, self.id);
        }
    }

    fn next(&self) -> Option<usize> {
        self.objects.lock().expect("no panic").pop()
    }

    /// Threads free all objects while another gives the cache up.
    fn run(&self, threads: usize) {
        let freed = AtomicU32::new(0);
        let mut bodies: Vec<Body<'_>> = Vec::new();
        for _ in 0..threads {
            bodies.push(Box::new(|_| {
                while let Some(address) = self.next() {
                    self.free(address);
                    freed.fetch_add(1, Ordering::Relaxed);
                }
                trim::drain_thread(&self.yard);
            }));
        }
        bodies.push(Box::new(|_| {
            // SAFETY: no call allocates from it, and the others free as they may.
            unsafe { self.yard.abandon_cache(self.id, &self.words, 0) };
            trim::drain_thread(&self.yard);
        }));
        self.yard.platform().run(bodies);
    }

    fn is_there(&self) -> bool {
        self.yard.find_cache(self.id).is_some()
    }

    fn verify(&self) {
        let sound = self.yard.verify().expect("outside of a slow path").expect("a sound yard");
        assert_eq!(sound.live, 0);
    }
}

fn config(seed: u64, can_stop: bool) -> Config {
    let cpus = 1 + seed as usize % 3;
    Config { seed, can_stop, cpus, preemption: 300, ..Config::default() }
}

#[test]
fn the_last_free_destroys_the_cache() {
    for seed in 0..SEEDS {
        let scene = Scene::new(config(seed, true), 1 + seed as usize % 40);
        scene.run(1 + seed as usize % 3);
        assert!(!scene.is_there(), "seed {seed}");
        scene.verify();
    }
}

/// Where CPUs cannot be stopped, a push may come after the last look.
#[test]
fn a_sweep_destroys_what_a_late_push_left() {
    let mut swept = 0;
    for seed in 0..SEEDS {
        let scene = Scene::new(config(seed, false), 1 + seed as usize % 40);
        scene.run(1 + seed as usize % 3);
        swept += u32::from(scene.is_there());
        abandoned::sweep_abandoned(&scene.yard);
        assert!(!scene.is_there(), "seed {seed}");
        scene.verify();
    }
    assert!(swept < SEEDS as u32 / 2, "{swept} caches were left");
}

#[test]
fn a_cache_without_objects_goes_at_once() {
    for can_stop in [true, false] {
        let scene = Scene::new(config(1, can_stop), 3);
        while let Some(address) = scene.next() {
            scene.free(address);
        }
        // SAFETY: no other thread runs.
        assert!(unsafe { scene.yard.abandon_cache(scene.id, &scene.words, 0) });
        assert!(!scene.is_there());
        scene.verify();
    }
}

#[test]
fn a_cache_in_use_stays_until_its_last_object_is_free() {
    for can_stop in [true, false] {
        let scene = Scene::new(config(1, can_stop), 300);
        // SAFETY: as above.
        assert!(!unsafe { scene.yard.abandon_cache(scene.id, &scene.words, 0) });
        while let Some(address) = scene.next() {
            assert!(scene.is_there());
            scene.free(address);
        }
        assert!(!scene.is_there());
        scene.verify();
    }
}

#[test]
fn a_refused_destruction_leaves_the_fast_path_as_it_was() {
    for can_stop in [true, false] {
        let scene = Scene::new(config(1, can_stop), 1);
        let slot = scene.words.slot();
        // SAFETY: as above.
        assert!(unsafe { abandoned::destroy_unused(&scene.yard, scene.id, &scene.words) }.is_err());
        assert_eq!(scene.words.slot(), slot);
        scene.free(scene.next().expect("an object"));
        // SAFETY: as above.
        let ended = unsafe { abandoned::destroy_unused(&scene.yard, scene.id, &scene.words) };
        assert_eq!(ended, Ok(()));
        assert!(!scene.is_there());
    }
}

/// A push that read the open words before the fence comes after the abandoner's look, and nobody
/// looks after it.
#[test]
fn a_slot_that_is_read_before_the_sequence_is_detected() {
    let detected = (0..20 * SEEDS).any(|seed| {
        let mut scene = Scene::new(config(seed, true), 1 + seed as usize % 40);
        scene.reads = Reads::Before;
        scene.run(1 + seed as usize % 3);
        scene.is_there()
    });
    assert!(detected);
}

#[test]
fn a_fence_that_does_nothing_is_detected() {
    let detected = (0..20 * SEEDS).any(|seed| {
        let config = Config { broken: Broken::FenceDoesNothing, cpus: 2, ..config(seed, true) };
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let scene = Scene::new(config, 1 + seed as usize % 4);
            scene.run(1);
            scene.verify();
            scene.is_there()
        }));
        !matches!(ended, Ok(false))
    });
    assert!(detected);
}
