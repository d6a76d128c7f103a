//! Memory that the system refuses: each single request in turn, and all from
//! some point on. Nothing may get lost, and what was refused works later.

use super::actor::{Actor, Company, Request, Way, any_request, nested};
use super::oracle::Oracle;
use super::{PAGES, Says, books, yard_of, yard_on};
use crate::each_engine::next_kind;
use slabyard::engine::Engine;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Config, Machine};
use std::sync::Mutex;

const STEPS: usize = 120;
/// Of a script that only shows that the yard works again.
const STEPS_AFTERWARDS: usize = 30;

/// Allocations, frees and resizes from a seed, checked after every call: how
/// many allocations were refused.
fn script<E: Engine>(yard: &Yard<Machine, E>, seed: u64, steps: usize) -> u32 {
    let oracle = Mutex::new(Oracle::default());
    let mut actor = Actor::new(yard, &oracle, seed, Company::Alone);
    let mut requests = Random::new(!seed);
    for _ in 0..steps {
        let request = any_request(&mut requests);
        if actor.random.chance(60) {
            actor.alloc(request, Way::Slow);
        } else if actor.random.chance(50) {
            actor.free(Way::Slow);
        } else {
            actor.step();
        }
        actor.check();
    }
    actor.finish();
    actor.refused
}

/// Runs the script with the `n`-th request refused, for every `n` there is from the `first` on,
/// so many apart.
fn refuse_each<E: Engine>(config: &Config, first: u64, apart: usize) {
    let mut nr_refused = 0;
    for n in (first..).step_by(apart) {
        let config = Config { refuse_commit: None, ..config.clone() };
        let _says = Says(format!("{config:?}, request {n} refused"));
        let seed = config.seed;
        let yard = yard_of::<E>(config);
        let machine = yard.platform();
        let before = machine.requests();
        machine.refuse(Some(n));
        // Calls outside of a handler try again after a drain; a handler's cannot.
        nr_refused += script(&yard, seed, STEPS);
        let made = machine.requests() - before;
        machine.refuse(None);
        assert_eq!(script(&yard, seed, STEPS_AFTERWARDS), 0, "it does not work afterwards");
        if n >= made {
            assert!(n > 4, "a script of {n} requests");
            break;
        }
    }
    assert!(nr_refused <= STEPS as u32, "{nr_refused} allocations refused for good");
}

each_engine_and_policy! {
    fn each_refused_request_leaves_the_yard_whole<E>() {
        // With assertions each page size is on one of both kinds of machine, and each request is
        // refused on one page size.
        let (seeds, apart) = if cfg!(debug_assertions) { (1, PAGES.len()) } else { (3, 1) };
        for (nth, page_bytes) in PAGES.into_iter().enumerate() {
            for can_stop in [true, false] {
                if cfg!(debug_assertions) && can_stop == (nth % 2 == 1) {
                    continue;
                }
                for seed in 0..seeds {
                    next_kind();
                    let config = Config { page_bytes, can_stop, seed, ..Config::default() };
                    refuse_each::<E>(&config, (nth % apart) as u64, apart);
                }
            }
        }
    }
}

each_engine_and_policy! {
    fn a_single_refusal_is_made_up_for_by_a_drain<E>() {
        for bytes in [16, 4096, 18_720, 18_721, 1 << 20, 3 << 20] {
            let first = (0..).find(|n| {
                let yard = yard_of::<E>(Config::default());
                let before = yard.platform().requests();
                yard.platform().refuse(Some(*n));
                assert!(yard.alloc(bytes, 16).is_some(), "{bytes} bytes, request {n} refused");
                yard.platform().requests() - before <= *n
            });
            assert!(first >= Some(1), "{bytes} bytes take no memory");
        }
    }
}

#[test]
fn a_handler_s_refused_mapping_is_told() {
    let yard = yard_on(Config::default());
    yard.platform().refuse(Some(0));
    assert_eq!(nested(yard.platform(), || yard.alloc(100, 16)), None);
    books::empty(&yard).unwrap();
    let address = nested(yard.platform(), || yard.alloc(100, 16)).expect("the next succeeds");
    assert_eq!(yard.free(address), Ok(()));
    books::empty(&yard).unwrap();
}

#[test]
fn a_refused_growth_leaves_the_mapping_as_it_was() {
    let yard = yard_on(Config::default());
    let address = yard.alloc(2 << 20, 16).expect("memory");
    yard.platform().refuse(Some(0));
    assert_eq!(yard.resize(address, 4 << 20), None);
    assert_eq!(yard.usable(address), Some(2 << 20));
    let grown = yard.resize(address, 4 << 20).expect("the next succeeds");
    assert_eq!((yard.usable(address), yard.usable(grown)), (None, Some(4 << 20)));
    assert_eq!(yard.free(grown), Ok(()));
    books::empty(&yard).unwrap();
}

#[test]
fn a_yard_says_that_it_cannot_begin() {
    for n in 0.. {
        let machine = Machine::new(Config { refuse_commit: Some(n), ..Config::default() });
        let yard = <Yard<_>>::new(machine);
        let begun = yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 0 });
        if yard.platform().requests() <= n {
            assert!(begun && n > 3, "none of {n} requests was refused");
            break;
        }
        // What is less than was wished for was granted, if it began nevertheless.
        assert!(!begun || yard.platform().requests() > n + 1, "begun without request {n}");
    }
}

each_engine_and_policy! {
    /// Machines so small that they are full at some point of every script.
    fn a_full_machine_refuses_and_recovers<E>() {
        let seeds = if cfg!(debug_assertions) { 2 } else { 24 };
        let mut nr_refused = 0;
        for page_bytes in PAGES {
            for (seed, spare) in (0..seeds).flat_map(|seed| [1 << 20, 4 << 20].map(|kib| (seed, kib))) {
                next_kind();
                let config = Config { page_bytes, seed, ..Config::default() };
                let begun = yard_of::<E>(config.clone()).platform().committed_bytes();
                let yard = yard_of::<E>(Config { memory_bytes: begun + spare, ..config.clone() });
                let _says = Says(format!("{config:?}, {spare} bytes spare"));
                for round in 0..3 {
                    nr_refused += script(&yard, seed + round, STEPS);
                }
            }
        }
        assert!(nr_refused > 0, "no machine was full");
    }
}

each_engine_and_policy! {
    /// Fills the machine with one size; all of it is usable again after the frees.
    fn what_filled_the_machine_once_fills_it_again<E>() {
        for (nth, page_bytes) in PAGES.into_iter().enumerate() {
            for (at, bytes) in [64, 1552, 18_720, 40_000, 1 << 20].into_iter().enumerate() {
                // With assertions each size is on one page size, and each page size has some.
                if cfg!(debug_assertions) && (nth + at) % PAGES.len() != 0 {
                    continue;
                }
                let config = Config { page_bytes, ..Config::default() };
                let begun = yard_of::<E>(config.clone()).platform().committed_bytes();
                let yard = yard_of::<E>(Config { memory_bytes: begun + (3 << 20), ..config });
                let oracle = Mutex::new(Oracle::default());
                let mut actor = Actor::new(&yard, &oracle, 0, Company::Alone);
                let counts = [(); 3].map(|()| {
                    let mut n = 0;
                    while actor.alloc(Request { bytes, align: 16 }, Way::Fast).is_some() {
                        n += 1;
                    }
                    actor.check();
                    actor.finish();
                    n
                });
                // Runs are aligned to whole blocks, which the region's growth is not.
                let again = counts[1] * 10 >= counts[0] * 9 && counts[2] == counts[1];
                assert!(counts[0] > 0 && again, "{bytes} bytes on pages of {page_bytes}: {counts:?}");
            }
        }
    }
}
