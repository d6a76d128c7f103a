//! A yard with page lists of each kind against the oracle of the conformance tests.

use super::{BIG_ZONE, SMALL_ZONE, Says, books, yard_of};
use crate::conformance::actor::{Actor, Company, Way, any_request};
use crate::conformance::oracle::Oracle;
use slabyard::calls::trim;
use slabyard::engine::cpu_slabs::OnCpus;
use slabyard::engine::{ArrayCaches, Engine, Sheaves, Slob, Tiny};
use slabyard::observe::count;
use slabyard::platform::Park;
use slabyard_kernels::PageLists;
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Body, Config};
use std::sync::Mutex;

/// Runs a body for each kind and machine.
fn each(seeds: u64, f: impl Fn(Config, PageLists, u64)) {
    for kind in PageLists::ALL {
        for (nth, (page_bytes, cpus)) in
            [(4 << 10, 2), (4 << 10, 8), (16 << 10, 1), (64 << 10, 2)].into_iter().enumerate()
        {
            for can_stop in [true, false] {
                for seed in 0..seeds {
                    let zone = [SMALL_ZONE, BIG_ZONE][(nth + seed as usize) % 2];
                    let config = Config { page_bytes, cpus, can_stop, seed, ..Config::default() };
                    let _says = Says(format!("{kind:?}, a zone of {zone} bytes, {config:?}"));
                    f(config, kind, zone);
                }
            }
        }
    }
}

fn alone<E: Engine>() {
    each(1, |config, kind, zone| {
        let seed = config.seed;
        let yard = yard_of::<E>(config, kind, zone);
        let oracle = Mutex::new(Oracle::default());
        let mut actor = Actor::new(&yard, &oracle, seed, Company::Alone);
        for _ in 0..10 {
            (0..5).for_each(|_| actor.step());
            actor.check();
        }
        actor.finish();
        assert_eq!((count::set_aside(&yard.heap), actor.refused), (0, 0));
    });
}

/// Threads that are preempted between any two steps, while one drains, checks and counts.
fn with_threads<E: Engine>() {
    each(2, |config, kind, zone| {
        let (seed, can_stop) = (config.seed, config.can_stop);
        let yard = yard_of::<E>(config, kind, zone);
        let oracle = Mutex::new(Oracle::default());
        let worker = |n: u64| -> Body<'_> {
            let (yard, oracle) = (&yard, &oracle);
            Box::new(move |_| {
                let mut actor = Actor::new(yard, oracle, seed << 8 ^ n, Company::Others);
                (0..40).for_each(|_| actor.step());
            })
        };
        let mut bodies: Vec<Body<'_>> = (0..3).map(worker).collect();
        bodies.push(Box::new(|machine| {
            for round in 0..6 {
                match round % 3 {
                    0 => drop(books::verify(&yard).unwrap()),
                    1 => drop(yard.trim()),
                    _ => drop(books::counters(&yard).unwrap()),
                }
                machine.advance(30);
            }
        }));
        yard.platform().run(bodies);
        trim::drain_thread(&yard);
        if !can_stop {
            trim::adopt_rows(&yard, 1..=4);
        }
        let sums = oracle.lock().unwrap().sums();
        books::audit(&yard, &sums).unwrap();
        Actor::new(&yard, &oracle, seed, Company::Alone).finish();
        assert_eq!(count::set_aside(&yard.heap), 0);
    });
}

/// Threads that allocate and free while another forks: the gate is closed and opened.
fn with_forks<E: Engine>() {
    each(1, |config, kind, zone| {
        let can_stop = config.can_stop;
        let yard = yard_of::<E>(config, kind, zone);
        let worker = |bytes: usize| -> Body<'_> {
            let yard = &yard;
            Box::new(move |_| {
                for _ in 0..4 {
                    let take = |_| yard.alloc(bytes, 16).expect("memory");
                    let live: Vec<usize> = (0..30).map(take).collect();
                    live.iter().for_each(|address| yard.free(*address).expect("live"));
                }
            })
        };
        let mut bodies: Vec<Body<'_>> = vec![worker(256), worker(2000), worker(256)];
        bodies.push(Box::new(|machine| {
            for _ in 0..10 {
                yard.quiesce(|_| machine.step());
            }
        }));
        yard.platform().run(bodies);
        trim::drain_thread(&yard);
        if !can_stop {
            trim::adopt_rows(&yard, 1..=4);
        }
        yard.trim();
        books::empty(&yard).unwrap();
    });
}

/// Each request for memory refused in turn, among them each page of a refill.
fn with_refusals<E: Engine>() {
    for (kind, zone) in
        PageLists::ALL.iter().flat_map(|kind| [(kind, SMALL_ZONE), (kind, BIG_ZONE)])
    {
        for n in 0.. {
            let _says = Says(format!("{kind:?}, a zone of {zone} bytes, request {n} refused"));
            let yard = yard_of::<E>(Config::default(), *kind, zone);
            let machine = yard.platform();
            let script = || {
                let oracle = Mutex::new(Oracle::default());
                let mut actor = Actor::new(&yard, &oracle, 5, Company::Alone);
                let mut requests = Random::new(!5);
                for nth in 0..40 {
                    let request = any_request(&mut requests);
                    if actor.random.chance(70) {
                        actor.alloc(request, Way::Slow);
                    } else {
                        actor.free(Way::Slow);
                    }
                    if nth % 8 == 7 {
                        actor.check();
                    }
                }
                actor.finish();
                actor.refused
            };
            let before = machine.requests();
            machine.refuse(Some(n));
            script();
            let made = machine.requests() - before;
            machine.refuse(None);
            assert_eq!(script(), 0, "it does not work afterwards");
            if n >= made {
                assert!(n > 2, "a script of {n} requests");
                break;
            }
        }
    }
}

macro_rules! below {
    ($($name:ident $engine:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn a_yard_stays_whole() {
                alone::<$engine>();
            }

            #[test]
            fn a_yard_stays_whole_with_threads() {
                with_threads::<$engine>();
            }

            #[test]
            fn a_yard_stays_whole_with_forks() {
                with_forks::<$engine>();
            }

            #[test]
            fn each_refused_request_leaves_the_yard_whole() {
                with_refusals::<$engine>();
            }
        }
    )*};
}

below! {
    slub Sheaves;
    cpu_slabs OnCpus;
    tiny Tiny;
    slab ArrayCaches;
    slob Slob;
}
