//! Preempted threads on the modelled machine: each makes caches, allocates from them, hands the
//! objects to the others, which free them, and destroys its caches again and again until the
//! last object is free, while malloc's classes are in use and one thread verifies and trims.

use super::{begun, sound};
use slabyard::cache::{CacheId, CacheSettings};
use slabyard::calls::trim;
use slabyard::created::{NotCreated, NotDestroyed};
use slabyard::engine::{Any, Engine, Sheaves};
use slabyard::observe::count;
use slabyard::pages::finding::{FindingKind, Hooks};
use slabyard::platform::{ObjectMemory, Park};
use slabyard::yard::Yard;
use slabyard_abi::debug::DebugFlags;
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Body, Broken, Config, Machine};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// What is handed out, and to free by whoever takes it.
#[derive(Default)]
struct Shared {
    /// Begin and end of each live object.
    live: BTreeMap<usize, usize>,
    /// Objects that wait for the thread that frees them.
    handed: Vec<(CacheId, usize)>,
    /// Live objects of each cache of the scene.
    count: BTreeMap<usize, u64>,
    destroyed: u64,
    /// Times that a cache was not destroyed because an object was live.
    remained: u64,
}

impl Shared {
    fn hand_out(&mut self, id: CacheId, address: usize, bytes: usize) {
        let before = self.live.range(..address + bytes).next_back();
        assert!(before.is_none_or(|(_, end)| *end <= address), "{address:#x} is handed out twice");
        self.live.insert(address, address + bytes);
        self.handed.push((id, address));
        *self.count.entry(id.number()).or_default() += 1;
    }
}

/// A cache of a thread's own.
#[derive(Clone, Copy)]
struct OwnCache {
    id: CacheId,
    bytes: u32,
    closing: bool,
}

struct Scene<E> {
    yard: Yard<Machine, E>,
    shared: Mutex<Shared>,
    can_stop: bool,
    flags: Flags,
}

/// The debugging of the next cache.
type Flags = fn(&mut Random) -> DebugFlags;

fn plain(_: &mut Random) -> DebugFlags {
    DebugFlags::NONE
}

/// Any but those that print and that fail; a third of the caches has none.
fn any_flags(random: &mut Random) -> DebugFlags {
    match random.below(3) {
        0 => DebugFlags::NONE,
        1 => DebugFlags::DEFAULT,
        _ => DebugFlags::of(random.below(1 << 7) as u8)
            .without(DebugFlags::TRACE)
            .without(DebugFlags::FAIL),
    }
}

/// A finding fails the test, but of what remains in a cache that is to go.
const HOOKS: Hooks = Hooks {
    report: |finding| assert_eq!(finding.what, FindingKind::Remaining, "{finding:?}"),
    track: |track| track.frames[0] = 1,
    trace: |_, _, _| {},
    fails: || false,
};

impl<E: Engine> Scene<E> {
    fn new(config: Config, flags: Flags) -> Self {
        let can_stop = config.can_stop;
        let yard = begun(Yard::new(Machine::new(config)));
        yard.on_findings(HOOKS);
        Scene { yard, shared: Mutex::default(), can_stop, flags }
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Allocates in bulk, hands one object out, and frees the others in bulk.
    fn in_bulk(&self, id: CacheId, bytes: usize, count: usize) {
        let mut objects = vec![0; count];
        assert!(self.yard.alloc_bulk_from(id, &mut objects));
        for object in &objects[1..] {
            let mut shared = self.shared();
            shared.hand_out(id, *object, bytes);
            // It is ours to free.
            shared.handed.pop();
        }
        self.shared().hand_out(id, objects[0], bytes);
        for object in &objects[1..] {
            let mut shared = self.shared();
            shared.live.remove(object);
            *shared.count.get_mut(&id.number()).expect("counted") -= 1;
        }
        assert_eq!(self.yard.free_bulk_to(id, &objects[1..]), Ok(()));
    }

    /// Hands out some objects of a prefilled sheaf, and returns the others.
    fn hand_out_prefilled(&self, id: CacheId, bytes: usize, random: &mut Random) {
        // The thread that forks was preempted for long, if there is none.
        let Some(mut spare) = self.yard.prefill(id, 1 + random.below(40)) else { return };
        for _ in 0..random.below(spare.len() + 1) {
            let object = self.yard.alloc_prefilled(&mut spare).expect("never null");
            self.shared().hand_out(id, object, bytes);
        }
        self.yard.return_prefilled(spare);
    }

    fn work(&self, seed: u64, steps: usize) {
        let yard = &self.yard;
        let mut random = Random::new(seed);
        let mut own: Vec<OwnCache> = Vec::new();
        for _ in 0..steps {
            match random.below(12) {
                0 if own.len() < 6 => {
                    let bytes = [1, 24, 64, 100, 700, 5000][random.below(6)];
                    let debug = (self.flags)(&mut random);
                    let settings = CacheSettings { debug, ..CacheSettings::of(bytes) };
                    match yard.create_cache("own", &settings) {
                        Ok(id) => own.push(OwnCache { id, bytes, closing: false }),
                        // The thread that forks was preempted for long.
                        Err(why) => assert_eq!(why, NotCreated::Interrupted),
                    }
                }
                1 if !own.is_empty() => {
                    let OwnCache { id, bytes, closing } = own[random.below(own.len())];
                    if !closing {
                        self.in_bulk(id, bytes as usize, 2 + random.below(70));
                    }
                }
                2..=4 if !own.is_empty() => {
                    let OwnCache { id, bytes, closing } = own[random.below(own.len())];
                    if !closing {
                        let address = yard.alloc_from(id).expect("memory");
                        self.shared().hand_out(id, address, bytes as usize);
                    }
                }
                5..=7 => self.free(&mut random),
                8 if !own.is_empty() => {
                    let nth = random.below(own.len());
                    own[nth].closing = true;
                    if self.destroy(own[nth].id) {
                        own.swap_remove(nth);
                    }
                }
                9 if !own.is_empty() => {
                    let OwnCache { id, bytes, closing } = own[random.below(own.len())];
                    if !closing {
                        self.hand_out_prefilled(id, bytes as usize, &mut random);
                    }
                }
                10 if !own.is_empty() => _ = yard.shrink_cache(own[random.below(own.len())].id),
                _ => {
                    let bytes = random.below(3000);
                    let address = yard.alloc_fast(bytes, 16).expect("memory");
                    assert_eq!(yard.free_fast(address), Ok(()));
                }
            }
        }
        let mut tries = 0;
        while let Some(last) = own.last() {
            tries += 1;
            assert!(tries < 100_000, "an object is lost: the cache stays for ever");
            // Another thread may have taken the last object, and not freed it yet.
            yard.platform().step();
            self.free(&mut random);
            if self.destroy(last.id) {
                own.pop();
            }
        }
    }

    /// Frees an object that any thread handed over.
    fn free(&self, random: &mut Random) {
        let taken = {
            let mut shared = self.shared();
            let n = shared.handed.len();
            let taken = (n > 0).then(|| shared.handed.swap_remove(random.below(n)));
            taken.inspect(|(_, address)| {
                shared.live.remove(address);
            })
        };
        if let Some((id, address)) = taken {
            assert_eq!(self.yard.free_to(id, address), Ok(()));
            *self.shared().count.get_mut(&id.number()).expect("counted") -= 1;
        }
    }

    /// Tries to destroy a cache of which nothing more is allocated. Where other rows cannot be
    /// stopped, not before the last free has returned.
    fn destroy(&self, id: CacheId) -> bool {
        let live = self.shared().count.get(&id.number()).copied().unwrap_or(0);
        if live > 0 && !self.can_stop {
            return false;
        }
        // SAFETY: its owner alone allocates from it, and does so no more; frees may be under
        // way where stacks can be stopped.
        match unsafe { self.yard.destroy_cache(id) } {
            Ok(()) => {
                self.shared().destroyed += 1;
                true
            }
            // One that was freed while a thread forked may be in the hands of the slow path
            // that frees it in the end.
            Err(NotDestroyed::Live(_)) => {
                self.shared().remained += u64::from(live > 0);
                false
            }
            Err(NotDestroyed::Interrupted) => false,
            Err(NotDestroyed::InSection) => panic!("no reader"),
            Err(NotDestroyed::Unknown) => panic!("it is there"),
        }
    }

    fn oversee(&self, machine: &Machine, rounds: usize) {
        for round in 0..rounds {
            match round % 4 {
                3 => assert_eq!(self.yard.validate().unwrap_or(0), 0),
                0 => drop(self.yard.verify().expect("no slow path").expect("a sound yard")),
                1 => drop(self.yard.trim()),
                _ => {
                    self.yard.quiesce(|_| ());
                }
            }
            machine.advance(30);
        }
    }
}

fn run(config: Config, threads: usize, steps: usize) -> (u64, u64) {
    run_of::<Sheaves>(config, threads, steps, plain)
}

fn run_of<E: Engine>(config: Config, threads: usize, steps: usize, flags: Flags) -> (u64, u64) {
    let seed = config.seed;
    let scene = Scene::<E>::new(Config { max_threads: threads + 1, ..config }, flags);
    let worker = |n: usize| -> Body<'_> {
        let scene = &scene;
        Box::new(move |_| {
            scene.work(seed << 8 ^ n as u64, steps);
            trim::drain_thread(&scene.yard);
        })
    };
    let mut bodies: Vec<Body<'_>> = (0..threads).map(worker).collect();
    bodies.push(Box::new(|machine| scene.oversee(machine, steps / 20)));
    scene.yard.platform().run(bodies);
    trim::drain_thread(&scene.yard);
    if !scene.can_stop {
        trim::adopt_rows(&scene.yard, 1..=threads + 1);
    }
    // Objects that are still handed over are of no cache: all caches are gone.
    let sound = sound(&scene.yard);
    let shared = scene.shared();
    assert_eq!((sound.live, shared.handed.len()), (0, 0));
    assert!(scene.yard.caches().numbers().eq(0..slabyard::cache::classes::CLASSES));
    assert_eq!(count::set_aside(&scene.yard.heap), 0);
    (shared.destroyed, shared.remained)
}

fn seeds(n: u64) -> std::ops::Range<u64> {
    0..if cfg!(debug_assertions) { n.div_ceil(4) } else { n }
}

#[test]
fn caches_come_and_go_under_preempted_threads() {
    let (mut destroyed, mut remained) = (0, 0);
    for seed in seeds(16) {
        for can_stop in [true, false] {
            let preemption = [20, 100, 300][seed as usize % 3];
            let config = Config { cpus: 16, can_stop, seed, preemption, ..Config::default() };
            let counts = run(config, 16, 150);
            destroyed += counts.0;
            remained += counts.1;
        }
    }
    assert!(destroyed > 200 && remained > 20, "{destroyed} destroyed, {remained} remained");
}

#[test]
fn caches_with_debugging_and_without_come_and_go() {
    for seed in seeds(6) {
        for can_stop in [true, false] {
            let preemption = [20, 100, 300][seed as usize % 3];
            let config = Config { cpus: 3, can_stop, seed, preemption, ..Config::default() };
            run_of::<Any>(config, 5, 100, any_flags);
        }
    }
}

/// The planted bug: one of the threads writes a byte behind an object of its own.
#[test]
fn a_byte_behind_an_object_is_found_under_preempted_threads() {
    let found = catch_unwind(AssertUnwindSafe(|| {
        let config = Config { max_threads: 4, ..Config::default() };
        let scene = Scene::<Any>::new(config, |_| DebugFlags::RED_ZONE);
        let settings = CacheSettings { debug: DebugFlags::RED_ZONE, ..CacheSettings::of(40) };
        let id = scene.yard.create_cache("planted", &settings).expect("memory");
        let worker = |n: u64| -> Body<'_> {
            let scene = &scene;
            Box::new(move |machine| {
                scene.work(n, 60);
                let object = scene.yard.alloc_from(id).expect("memory");
                // SAFETY: the modelled machine has no memory that this could damage.
                unsafe { machine.fill(object + 40, (n == 1).into(), 0x12) };
                assert_eq!(scene.yard.free_to(id, object), Ok(()));
            })
        };
        scene.yard.platform().run((0..3).map(worker).collect());
    }));
    assert!(found.is_err(), "the planted bug was not found");
}

#[test]
fn caches_come_and_go_on_few_cpus() {
    for seed in seeds(24) {
        let config = Config { cpus: 2, seed, preemption: 200, ..Config::default() };
        run(config, 4, 200);
    }
}

/// The planted bug: a fence that does nothing, so that a free under way commits into a stack
/// that was stopped, and is lost with its cache.
#[test]
fn a_destroy_without_its_fence_is_found() {
    let found = (0..200).find(|seed| {
        let broken = Broken::FenceDoesNothing;
        let config = Config { cpus: 2, seed: *seed, preemption: 300, broken, ..Config::default() };
        catch_unwind(AssertUnwindSafe(|| run(config, 4, 200))).is_err()
    });
    assert!(found.is_some(), "the planted bug was not found");
}

/// The free ends between the look for empty slabs and that at the free.
#[test]
fn a_free_under_way_leaves_no_slab_of_a_cache_that_is_destroyed() {
    for seed in 0..if cfg!(miri) { 2 } else { 300 } {
        let config = Config { cpus: 3, seed, preemption: 300, max_threads: 3, ..Config::default() };
        let scene = Scene::<Sheaves>::new(config, plain);
        let id = scene.yard.create_cache("own", &CacheSettings::of(5000)).expect("memory");
        let objects: Vec<_> = (0..30).map(|_| scene.yard.alloc_from(id).expect("memory")).collect();
        let (one, other) = objects.split_at(15);
        let (scene, one, other) = (&scene, one.to_vec(), other.to_vec());
        let free = |objects: Vec<usize>| -> Body<'_> {
            Box::new(move |_| {
                for object in objects {
                    assert_eq!(scene.yard.free_to(id, object), Ok(()));
                }
            })
        };
        let destroy: Body<'_> = Box::new(|machine| {
            while !scene.destroy(id) {
                machine.step();
            }
        });
        scene.yard.platform().run(vec![free(one), free(other), destroy]);
        assert_eq!(sound(&scene.yard).slabs, 0, "seed {seed}");
    }
}
