//! The platform contract: one body of checks, run on the modelled machine (page
//! sizes × CPUs × kinds of rows × seeds) and on Linux in each of its modes.
//!
//! A program of its own: `ci/unit` runs it without assertions, too, and it limits the process's memory.
//! A process has one mode, so each mode of Linux is a child of this program that
//! runs the same test with [`MODE`] set. `checks` holds the contract, `storm`
//! the part with several threads.

#[path = "platform_contract/checks.rs"]
mod checks;
#[path = "platform_contract/storm.rs"]
mod storm;

use slabyard_testkit::machine::{Body, Broken, Config, Machine};
use std::panic::{AssertUnwindSafe, catch_unwind};
use storm::Storm;

/// Seeds for each machine: few where every load is interpreted.
const SEEDS: u64 = if cfg!(miri) { 1 } else { 12 };

/// Kinds of rows: may be stopped from the start, from a slow path on, never.
const KINDS: [(bool, bool); 3] = [(true, false), (true, true), (false, true)];

fn machines() -> impl Iterator<Item = Config> {
    let pages = if cfg!(miri) { vec![4096] } else { vec![4096, 16384, 65536] };
    let cpus = if cfg!(miri) { vec![2] } else { vec![1, 2, 3, 5] };
    pages.into_iter().flat_map(move |page_bytes| {
        cpus.clone().into_iter().flat_map(move |cpus| {
            KINDS.into_iter().map(move |(can_stop, late_rows)| Config {
                cpus,
                page_bytes,
                can_stop,
                late_rows,
                ..Config::default()
            })
        })
    })
}

#[test]
fn machine_keeps_the_contract() {
    for config in machines() {
        let machine = Machine::new(config.clone());
        checks::contract(
            &machine,
            &checks::Surroundings {
                late_rows: config.late_rows,
                in_a_fresh_thread: &|check| machine.run(vec![Box::new(|_: &Machine| check())]),
                while_refused: Some(&|check| {
                    machine.refuse(Some(0));
                    check();
                    machine.refuse(None);
                }),
                pass_time: &|| machine.advance(5),
            },
        );
    }
}

/// One storm on a machine: four workers, one stopper.
fn storm_on(config: Config) {
    storm_with_fences(config, None);
}

/// As [`storm_on`]; so many fences of each stop succeed, and one fewer at the
/// next, down to none.
fn storm_with_fences(config: Config, most: Option<u64>) {
    let machine = Machine::new(config);
    let rounds = if cfg!(miri) { 30 } else { 150 };
    let storm = Storm::new(&machine, 4, machine.config().seed);
    let storm = &storm;
    let mut threads: Vec<Body<'_>> = Vec::new();
    for worker in 0..4 {
        threads.push(Box::new(move |m| storm.work(m, worker, &mut |n| n < rounds)));
    }
    threads.push(Box::new(move |m| {
        storm.stop(m, &mut |n| {
            m.grant_fences(most.map_or(u64::MAX, |most| most - n % (most + 1)));
            n < rounds / 4
        });
    }));
    machine.run(threads);
    storm.check(&machine);
}

#[test]
fn machine_loses_and_doubles_nothing() {
    for config in machines() {
        for seed in 0..SEEDS {
            for preemption in [30, 300] {
                storm_on(Config { seed, preemption, ..config.clone() });
            }
        }
    }
}

#[test]
fn a_refused_stop_loses_and_doubles_nothing() {
    for config in machines().filter(|config| config.can_stop) {
        for seed in 0..SEEDS {
            let config = Config { seed, preemption: 300, ..config.clone() };
            storm_with_fences(config, Some(1 + seed % 2));
        }
    }
}

/// A planted bug must be found by the storm, within some seeds.
fn storm_finds(broken: Broken) {
    let found = (0..200).find(|seed| {
        let config = Config { cpus: 2, preemption: 300, seed: *seed, broken, ..Config::default() };
        catch_unwind(AssertUnwindSafe(|| storm_on(config))).is_err()
    });
    assert!(found.is_some(), "{broken:?} was not found");
}

#[test]
fn storm_finds_a_commit_without_check() {
    storm_finds(Broken::CommitWithoutCheck);
}

#[test]
fn storm_finds_a_fence_that_does_nothing() {
    storm_finds(Broken::FenceDoesNothing);
}

#[cfg(all(target_os = "linux", not(miri)))]
#[path = "platform_contract/on_linux.rs"]
mod on_linux;
