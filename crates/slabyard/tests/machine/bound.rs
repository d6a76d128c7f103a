//! The bound on one call (`slabbound`), checked at each call: on modelled machines,
//! threads from 1 to 64 allocate and free in bursts and in trickles, all classes, runs and
//! mappings, and hand objects to each other, while ticks fall due.
//!
//! The tests read a thread's counts of requests to the machine before and after each call. The
//! machine itself asserts that no system call is made under a list's lock.

use slabyard::bound;
use slabyard::cache::classes::{CLASSES, ROWS};
use slabyard::engine::cpu_slabs::OnCpus;
use slabyard::engine::{ArrayCaches, Engine, Sheaves, Tiny};
use slabyard::platform::{GRANULE, Planted};
use slabyard::reclaim::surplus;
use slabyard::yard::{LARGEST_RUN, Settings, Yard};
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Body, Config, Machine, Tally};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most that one call did.
#[derive(Default)]
struct Most {
    slab_operations: AtomicU64,
    fences: AtomicU64,
    give_backs: AtomicU64,
    give_back_bytes: AtomicU64,
}

impl Most {
    /// What was done between two counts of one thread.
    fn add(&self, before: &Tally, after: &Tally) {
        for (most, before, after) in [
            (&self.slab_operations, before.slab_operations, after.slab_operations),
            (&self.fences, before.fences, after.fences),
            (&self.give_backs, before.give_backs, after.give_backs),
            (&self.give_back_bytes, before.give_back_bytes, after.give_back_bytes),
        ] {
            most.fetch_max(after - before, Ordering::Relaxed);
        }
    }

    fn numbers(&self) -> [u64; 4] {
        [&self.slab_operations, &self.fences, &self.give_backs, &self.give_back_bytes]
            .map(|most| most.load(Ordering::Relaxed))
    }

    /// True if no call went beyond the bound.
    fn is_within(&self) -> bool {
        let bounds =
            [bound::SLAB_OPERATIONS, bound::FENCES, bound::GIVE_BACKS, bound::GIVE_BACK_BYTES];
        self.numbers().iter().zip(bounds).all(|(most, bound)| *most <= bound)
    }
}

/// A yard, and allocations that any thread may free.
struct Scene<E = Sheaves> {
    yard: Yard<Machine, E>,
    shared: Mutex<Vec<usize>>,
    most: Most,
    /// Classes that are asked for, and which.
    classes: usize,
    first: usize,
}

impl<E: Engine> Scene<E> {
    fn new(config: Config, classes: usize) -> Self {
        let first = config.seed as usize;
        let yard = Yard::new(Machine::new(config));
        assert!(yard.init(Settings { reserve_bytes: 8 << 30, decay_ms: 80 }));
        surplus::give_surplus(&yard, first.is_multiple_of(2));
        Scene { yard, shared: Mutex::default(), most: Most::default(), classes, first }
    }

    /// A call, counted.
    fn call<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.yard.platform().tally();
        let result = f();
        self.most.add(&before, &self.yard.platform().tally());
        result
    }

    fn alloc(&self, bytes: usize) -> usize {
        let alloc = || self.yard.alloc_fast(bytes, 16).expect("memory");
        if bytes <= LARGEST_RUN {
            return self.call(alloc);
        }
        self.call_about_large(bytes, alloc)
    }

    /// A call that may purge so many bytes beside its slice, in whole huge pages.
    fn call_about_large<R>(&self, bytes: usize, f: impl FnOnce() -> R) -> R {
        let before = self.yard.platform().tally();
        let result = f();
        let after = self.yard.platform().tally();
        let (calls, given) =
            (after.give_backs - before.give_backs, after.give_back_bytes - before.give_back_bytes);
        let most = bytes as u64 + bound::MORE_BYTES + bound::GIVE_BACK_BYTES;
        assert!(given <= most, "{given} bytes in {calls} calls for {bytes}");
        let Tally { give_backs, give_back_bytes, .. } = before;
        self.most.add(&before, &Tally { give_backs, give_back_bytes, ..after });
        result
    }

    fn free(&self, address: usize) {
        let free = || self.yard.free_fast(address);
        let freed = match self.yard.heap.run_bytes(address) {
            Some(bytes) if bytes > bound::SHEDDING => {
                self.call_about_large(bytes * bound::SHED as usize, free)
            }
            _ => self.call(free),
        };
        assert_eq!(freed, Ok(()));
    }

    fn random_bytes(&self, random: &mut Random) -> usize {
        match random.below(10) {
            0 if random.below(4) == 0 => LARGEST_RUN + 1 + random.below(3 * LARGEST_RUN),
            0 => 40_000 + random.below(LARGEST_RUN - 40_000),
            _ => ROWS[(random.below(self.classes) * 11 + self.first) % CLASSES].0 as usize,
        }
    }

    /// Allocates many of one size, and frees them in another order; or leaves them to
    /// others, and frees theirs.
    fn burst(&self, random: &mut Random, most: usize) {
        let bytes = self.random_bytes(random);
        let nr = 1 + random.below(most).min((8 << 20) / bytes);
        let mut mine: Vec<_> = (0..nr).map(|_| self.alloc(bytes)).collect();
        if random.below(3) == 0 {
            self.shared.lock().unwrap().append(&mut mine);
            let mut shared = self.shared.lock().unwrap();
            let left = shared.len().saturating_sub(nr).min(shared.len() / 2);
            mine = shared.split_off(left);
        }
        for at in (1..mine.len()).rev() {
            mine.swap(at, random.below(at + 1));
        }
        for address in mine {
            self.free(address);
        }
    }

    /// Pairs, a millisecond or a few between them.
    fn trickle(&self, random: &mut Random, nr: usize) {
        for _ in 0..nr {
            let address = self.alloc(self.random_bytes(random));
            self.yard.platform().advance(1 + random.below(3) as u64);
            self.free(address);
        }
    }

    fn work(&self, seed: u64, rounds: usize, most: usize) {
        let mut random = Random::new(seed);
        for _ in 0..rounds {
            match random.below(3) {
                0 => self.trickle(&mut random, most / 8),
                _ => self.burst(&mut random, most),
            }
        }
    }

    fn check(&self) {
        if let Some(found) = self.yard.verify() {
            found.expect("a sound yard");
        }
        assert!(self.most.is_within(), "one call did {:?}", self.most.numbers());
    }
}

fn run<E: Engine>(config: Config, threads: usize, rounds: usize, most: usize) -> [u64; 4] {
    let seed = config.seed;
    // The machine has some thousand sheaves.
    let classes = if threads > 2 { 5 } else { CLASSES };
    let scene = Scene::<E>::new(Config { max_threads: threads, ..config }, classes);
    let body = |n: usize| -> Body<'_> {
        let scene = &scene;
        Box::new(move |_| scene.work(seed << 8 ^ n as u64, rounds, most))
    };
    scene.yard.platform().run((0..threads).map(body).collect());
    scene.check();
    // One thread alone: the bound suffices for all the work that is left.
    scene.work(seed, 4, 2000);
    scene.shared.lock().unwrap().drain(..).for_each(|address| scene.free(address));
    scene.trickle(&mut Random::new(seed), 500);
    scene.check();
    scene.most.numbers()
}

#[test]
fn no_call_exceeds_its_bound() {
    no_call_of_an_engine_exceeds_its_bound::<Sheaves>();
}

#[test]
fn no_call_of_the_engine_tiny_exceeds_its_bound() {
    no_call_of_an_engine_exceeds_its_bound::<Tiny>();
    no_call_of_an_engine_exceeds_its_bound::<OnCpus>();
    no_call_of_an_engine_exceeds_its_bound::<ArrayCaches>();
}

fn no_call_of_an_engine_exceeds_its_bound<E: Engine>() {
    let mut most = [0; 4];
    for (seed, threads, rounds, objects) in
        [(0, 1, 60, 4000), (1, 2, 30, 3000), (2, 8, 12, 1500), (3, 64, 3, 500)]
    {
        for can_stop in [true, false] {
            if !can_stop && threads == 64 {
                // So many private rows do not fit into the machine.
                continue;
            }
            for (nth, page_bytes) in [4 << 10, 64 << 10].into_iter().enumerate() {
                // With assertions each page size is on one of both kinds of machine.
                if cfg!(debug_assertions) && can_stop != ((seed + nth as u64).is_multiple_of(2)) {
                    continue;
                }
                let config = Config {
                    seed,
                    cpus: 1 + threads.min(4),
                    can_stop,
                    page_bytes,
                    preemption: 20,
                    max_steps: u64::MAX,
                    ..Config::default()
                };
                let one = run::<E>(config, threads, rounds, objects);
                most = std::array::from_fn(|i| most[i].max(one[i]));
            }
        }
    }
    // These bounds were reached: it was work that is bounded.
    let [_, fences, give_backs, bytes] = most;
    assert_eq!((fences, give_backs, bytes), (1, 1, bound::GIVE_BACK_BYTES));
}

/// Threads on one CPU share a bank of runs of several sizes: one finds another's run there, which does
/// not fit, and the bank full as it puts it back.
#[test]
fn no_call_about_a_bank_of_others_runs_exceeds_its_bound() {
    for seed in 0..5 {
        let scene = <Scene>::new(
            Config { seed, cpus: 1, preemption: 300, max_steps: u64::MAX, ..Config::default() },
            CLASSES,
        );
        let body = |n: u64| -> Body<'_> {
            let scene = &scene;
            Box::new(move |machine| {
                let mut random = Random::new(seed << 8 ^ n);
                for _ in 0..20 {
                    let many: Vec<_> = (0..20).map(|_| scene.alloc(LARGEST_RUN)).collect();
                    many.into_iter().for_each(|run| scene.free(run));
                    machine.advance(10);
                    for _ in 0..100 {
                        let runs = [(); 3].map(|()| scene.alloc((65 + random.below(32)) * GRANULE));
                        runs.into_iter().for_each(|run| scene.free(run));
                    }
                }
            })
        };
        scene.yard.platform().run((0..3).map(body).collect());
        scene.check();
    }
}

#[test]
fn objects_of_a_thousand_slabs_are_flushed_within_the_bound() {
    let scene = <Scene>::new(Config { preemption: 0, ..Config::default() }, CLASSES);
    let mut random = Random::new(5);
    let mut mine: Vec<_> = (0..400_000).map(|_| scene.alloc(64)).collect();
    for at in (1..mine.len()).rev() {
        mine.swap(at, random.below(at + 1));
    }
    for (n, address) in mine.into_iter().enumerate() {
        if n % 100 == 0 {
            scene.yard.platform().advance(1);
        }
        scene.free(address);
    }
    scene.trickle(&mut random, 1000);
    scene.check();
    let most = scene.most.numbers()[0];
    assert!(most > bound::SLAB_OPERATIONS / 4, "{most} slab operations in one call");
}

#[test]
fn a_sheaf_is_flushed_and_refilled_by_pieces() {
    let scene = <Scene>::new(Config { preemption: 0, ..Config::default() }, CLASSES);
    let mut random = Random::new(9);
    // No time passes: no call makes a slice of a pass, and all counts are of its own work.
    let mut mine: Vec<_> = (0..100_000).map(|_| scene.alloc(64)).collect();
    for at in (1..mine.len()).rev() {
        mine.swap(at, random.below(at + 1));
    }
    let (gone, left) = mine.split_at(90_000);
    gone.iter().for_each(|address| scene.free(*address));
    assert_eq!(scene.most.numbers()[0], bound::OWN_SLAB_OPERATIONS, "by frees");
    // All slabs have free objects, most of them one under another that lives.
    let again: Vec<_> = (0..90_000).map(|_| scene.alloc(64)).collect();
    assert_eq!(scene.most.numbers()[0], bound::OWN_SLAB_OPERATIONS, "by allocations");
    again.iter().chain(left).for_each(|address| scene.free(*address));
    scene.check();
}

#[test]
fn a_call_that_makes_a_whole_pass_is_found() {
    let config = Config { preemption: 0, max_steps: u64::MAX, ..Config::default() };
    let scene = <Scene>::new(config, CLASSES);
    scene.yard.platform().plant(Planted::WholePasses);
    scene.work(1, 30, 3000);
    assert!(!scene.most.is_within(), "one call did {:?} and no more", scene.most.numbers());
}

#[test]
fn a_call_that_drains_everything_is_found() {
    let scene = <Scene>::new(Config::default(), CLASSES);
    scene.work(2, 10, 3000);
    assert!(scene.most.is_within());
    scene.call(|| scene.yard.trim());
    assert!(!scene.most.is_within(), "a trim did {:?} and no more", scene.most.numbers());
}
