//! What kernel developers argued about sheaves in 2026 (6.18 to 7.3): capacity against parked bytes,
//! partial slabs after a load, a fork's locks, bios that are freed on other CPUs.
//!
//! Their machines are named by the rows. Ours: loads of that shape, a recording of hackbench on 4
//! CPUs of 6.1, and guests of 6.12, 6.18 and 7.3 after hackbench and files.

use super::basis::{Basis, RowError};
use super::recordings::{BIOS, FORKS, GUESTS_6_12, GUESTS_6_18, GUESTS_7_3, Guest, HACKBENCH_4K};
use super::replayed::{Variant, ns_a_call};
use super::row::{Near, Row, Table, Thread, UNNAMED};
use super::runs::Runs;
use slabyard_lab::counters::Counter;
use slabyard_lab::replay::contend::{COSTS, Contended, Costs};
use slabyard_lab::rules::Machine;
use std::rc::Rc;

const HACKBENCH: Basis = Basis::Replay("guest_4");
const FORMULA: Basis = Basis::Formula("7.3");
const FORK: Basis = Basis::Contention("forks.toml");
const BIO: Basis = Basis::Contention("bios.toml");
const NOW: Variant = Variant::of("7.3");
const BARNS_40: &[&str] = &["max_full_sheaves=40"];
const HALF: &[&str] = &["sheaf_capacity=0:30,256:14,1024:6,page:2"];
const DOUBLE: &[&str] = &["sheaf_capacity=0:120,256:52,1024:24,page:8"];
/// What a cache line takes between sockets.
const FAR: Costs = Costs { lock_moved: 100, exchange_moved: 100, ..COSTS };

fn capacity(runs: &Runs, size: u32) -> Result<f64, RowError> {
    Ok(runs.geometry(size, "7.3", Machine::new(4096, 16), &[])?.sheaf_capacity.into())
}

/// Objects refilled, relative to 7.3 as it is.
fn refills(runs: &Runs, set: &'static [&'static str]) -> Result<f64, RowError> {
    let of = |variant: &Variant| {
        Ok::<_, RowError>(runs.replay(&HACKBENCH_4K, variant)?.counter(Counter::SheafRefill))
    };
    Ok(of(&NOW.set(set))? / of(&NOW)?)
}

/// Bytes that CPUs and barns hold free at the end, relative to 7.3 as it is.
fn parked(runs: &Runs, set: &'static [&'static str]) -> Result<f64, RowError> {
    let of = |variant: &Variant| runs.replay(&HACKBENCH_4K, variant)?.parked_bytes();
    Ok(of(&NOW.set(set))? / of(&NOW)?)
}

fn partial_of(runs: &Runs, release: &'static str) -> Result<f64, RowError> {
    runs.replay(&HACKBENCH_4K, &Variant::of(release))?.node_partial()
}

/// Slabs on nodes' lists of a guest with 4 CPUs after hackbench and files, more than after boot.
fn partial_of_guest(runs: &Runs, guest: &Guest) -> Result<f64, RowError> {
    let of = |dump: &str| {
        let dump = runs.dump(guest, dump)?;
        Ok::<_, RowError>(dump.caches.iter().filter_map(|cache| cache.partial).sum::<u64>() as f64)
    };
    Ok(of("4.files")? - of("4.boot")?)
}

/// KiB of slabs of a guest with 4 CPUs after hackbench and files, relative to after boot.
fn grown(runs: &Runs, guest: &Guest) -> Result<f64, RowError> {
    Ok(runs.slabs_kb(guest, "4.files")? / runs.slabs_kb(guest, "4.boot")?)
}

fn fork(
    runs: &Runs,
    release: &'static str,
    set: &'static [&'static str],
) -> Result<Rc<Contended>, RowError> {
    runs.contend(&FORKS, &Variant::of(release).set(set))
}

/// Locks of lists and barns.
fn locks(done: &Contended) -> f64 {
    (done.counts.locks + done.counts.barn_locks) as f64
}

/// What CPUs and barns hold after the forks, in MiB.
fn fork_parked(
    runs: &Runs,
    release: &'static str,
    set: &'static [&'static str],
) -> Result<f64, RowError> {
    Ok(runs.replay(&FORKS, &Variant::of(release).set(set))?.parked_bytes()? / 1048576.0)
}

const CAPACITY_36: &[&str] = &["sheaf_capacity=8:36,page:4"];

/// Percent of the calls a second that are lost against 7.1.
fn lost(
    runs: &Runs,
    release: &'static str,
    set: &'static [&'static str],
    costs: Costs,
) -> Result<f64, RowError> {
    let speed = |variant: &Variant| {
        let done = runs.contend_at(&BIOS, variant, costs)?;
        Ok::<_, RowError>(done.counts.calls as f64 / done.span_ns as f64)
    };
    Ok(100.0 * (1.0 - speed(&Variant::of(release).set(set))? / speed(&Variant::of("7.1"))?))
}

const REFUSED: &[&str] = &["nowait_refills=0"];

pub(super) const THREAD: Thread = Thread {
    name: "sheaves",
    title: "sheaves for all caches, as discussed from January to May 2026 (linux-mm, linux-kernel)",
    inconsistencies: &[
        "fork and execve are 6 to 11 % slower in the report and vmalloc 2 to 10 %, for two causes: what a \
         CPU keeps is halved, and kvfree_rcu tests each address",
        "the loss of bios is reported as 36 to 13 million operations a second, -64 %, of a version \
         between 6.19 and 7.0-rc1 with two faults at once: refused refills, and nodes without barns",
    ],
    tables: &[
        Table {
            name: "capacity",
            title: "[PATCH RFC 0/8] mm/slab: enable runtime sheaves tuning: capacity against parked bytes (hackbench, 4 CPUs)",
            rows: &[
                Row::new("capacity below 256 bytes", 60.0, "objects", FORMULA, |runs| capacity(runs, 192)).near(Near::Equal("a formula")),
                Row::new("capacity from 256", 28.0, "objects", FORMULA, |runs| capacity(runs, 256)).near(Near::Equal("a formula")).note("26, rounded up to a size class"),
                Row::new("capacity from 1 KiB", 12.0, "objects", FORMULA, |runs| capacity(runs, 1024)).near(Near::Equal("a formula")),
                Row::new("capacity from a page", 4.0, "objects", FORMULA, |runs| capacity(runs, 4096)).near(Near::Equal("a formula")),
                Row::claim("refills with half the capacity", "measuring the impact is TBD", "of 7.3", HACKBENCH, |runs| refills(runs, HALF))
                    .near(Near::AtLeast(1.0, "smaller sheaves are refilled more often")),
                Row::claim("parked with half the capacity", "measuring the impact is TBD", "of 7.3", HACKBENCH, |runs| parked(runs, HALF))
                    .near(Near::AtMost(1.0, "smaller sheaves park less")),
                Row::claim("refills with twice the capacity", "measuring the impact is TBD", "of 7.3", HACKBENCH, |runs| refills(runs, DOUBLE))
                    .near(Near::AtMost(1.0, "larger sheaves are refilled more rarely")),
                Row::claim("parked with twice the capacity", "measuring the impact is TBD", "of 7.3", HACKBENCH, |runs| parked(runs, DOUBLE))
                    .near(Near::AtLeast(1.0, "larger sheaves park more")),
                Row::claim("refills with barns of 40", "measuring the impact is TBD", "of 7.3", HACKBENCH, |runs| refills(runs, BARNS_40))
                    .near(Near::AtMost(1.0, "larger barns save refills")),
                Row::claim("parked with barns of 40", "measuring the impact is TBD", "of 7.3", HACKBENCH, |runs| parked(runs, BARNS_40)),
            ],
        },
        Table {
            name: "partial",
            title: "\"fragmentation will increase\": slabs on nodes' lists after a load",
            rows: &[
                Row::claim("hackbench by 6.12", "argued, never measured", "slabs", HACKBENCH, |runs| partial_of(runs, "6.12")),
                Row::claim("hackbench by 6.18", "argued, never measured", "slabs", HACKBENCH, |runs| partial_of(runs, "6.18")),
                Row::claim("hackbench by 7.3", "argued, never measured", "slabs", HACKBENCH, |runs| partial_of(runs, "7.3")),
                Row::claim("hackbench, 7.3 to 6.12", "fragmentation will increase", "times", HACKBENCH, |runs| Ok(partial_of(runs, "7.3")? / partial_of(runs, "6.12")?))
                    .near(Near::AtLeast(1.0, "it increases")),
                Row::claim("guests of 6.12, hackbench and files", "argued, never measured", "slabs more", Basis::Guest("guests/6.12"), |runs| partial_of_guest(runs, &GUESTS_6_12)),
                Row::claim("guests of 6.18", "argued, never measured", "slabs more", Basis::Guest("guests/6.18"), |runs| partial_of_guest(runs, &GUESTS_6_18)),
                Row::claim("guests of 7.3", "fragmentation will increase", "slabs more", Basis::Guest("guests/7.3"), |runs| partial_of_guest(runs, &GUESTS_7_3)),
                Row::new("memory after the load to boot, 6.12", 16.9 / 14.7, "times", Basis::Guest("guests/6.12"), |runs| grown(runs, &GUESTS_6_12))
                    .near(Near::Within(0.35, "theirs: guests of 6.12 and 7.3.4 after hackbench alone")),
                Row::new("memory after the load to boot, 7.3", 24.2 / 15.9, "times", Basis::Guest("guests/7.3"), |runs| grown(runs, &GUESTS_7_3))
                    .near(Near::Within(0.35, "theirs: guests of 6.12 and 7.3.4 after hackbench alone")),
            ],
        },
        Table {
            name: "fork",
            title: "fork is 6 to 11 % slower from 6.19 to 7.0: locks of lists and barns, 16 CPUs, short processes",
            rows: &[
                Row::claim("6.18: sheaf and CPU slab", "double caching", "locks", FORK, |runs| Ok(locks(&*fork(runs, "6.18", &[])?))),
                Row::claim("7.1", "halves what a CPU keeps", "locks", FORK, |runs| Ok(locks(&*fork(runs, "7.1", &[])?))),
                Row::claim("7.1 with a capacity of 36", "determine capacity by heuristic, later", "locks", FORK, |runs| Ok(locks(&*fork(runs, "7.1", CAPACITY_36)?))),
                Row::claim("the same to 6.18", "as cheap as 6.18", "times", FORK, |runs| Ok(locks(&*fork(runs, "7.1", CAPACITY_36)?) / locks(&*fork(runs, "6.18", &[])?)))
                    .near(Near::AtMost(1.0, "found as the least capacity with no more locks")),
                Row::new("time of calls, 7.0 to 6.19", 1.085, "times", FORK, |runs| {
                    Ok(ns_a_call(&*fork(runs, "7.0", &[])?) / ns_a_call(&*fork(runs, "6.19", &[])?))
                })
                .note("theirs is of the whole benchmark, on Graviton3 and Sapphire Rapids; ours is of calls alone, \
                       of a load that does not show it: 7.0 takes a tenth of 6.18's locks there, and more in a recorded fork load (docs/replay.md)"),
                Row::claim("parked by 6.18", "what does it park?", "MiB", Basis::Replay("forks.toml"), |runs| fork_parked(runs, "6.18", &[])),
                Row::claim("parked by 7.1", "what does it park?", "MiB", Basis::Replay("forks.toml"), |runs| fork_parked(runs, "7.1", &[])),
                Row::claim("parked by 7.1 with a capacity of 36", "what does it park?", "MiB", Basis::Replay("forks.toml"), |runs| fork_parked(runs, "7.1", CAPACITY_36)),
            ],
        },
        Table {
            name: "bios",
            title: "bios of 16 queues, allocated on one CPU and freed on another: 8 nodes, 2 with memory",
            rows: &[
                Row::new("7.0-rc1: operations lost", 100.0 * (1.0 - 13.0 / 36.0), "%", BIO, |runs| lost(runs, "7.0", REFUSED, FAR))
                    .near(Near::Points(12.0, "a cache line takes 100 ns between sockets, which is a guess")),
                Row::claim("7.0: refills for callers that may not wait", "fixed in 7.0-rc3", "%", BIO, |runs| lost(runs, "7.0", &[], FAR))
                    .note("nodes without memory still have no barn"),
                Row::claim("6.18", "36 M IOPS", "%", BIO, |runs| lost(runs, "6.18", &[], FAR))
                    .near(Near::AtMost(5.0, "before the regression")),
                Row::claim("7.0-rc1 on one socket", UNNAMED, "%", BIO, |runs| lost(runs, "7.0", REFUSED, COSTS)),
            ],
        },
        Table {
            name: "refills",
            title: "mm/slub: detach and reattach partial slabs in batch: slabs that a refill takes at once",
            rows: &[
                // 1: 277 M, 2: 335 M, 3: 176 M, 4 or more: 89 M.
                Row::new("slabs for a list lock", (277.0 + 2.0 * 335.0 + 3.0 * 176.0 + 4.0 * 89.0) / (277.0 + 335.0 + 176.0 + 89.0), "slabs", HACKBENCH, |runs| {
                    let done = runs.replay(&HACKBENCH_4K, &NOW)?;
                    Ok(done.counter(Counter::ListLockSlabs) / done.counter(Counter::ListLock))
                })
                .near(Near::Times(2.5, "will-it-scale mmap there, hackbench here; ours counts all acquisitions, not refills alone"))
                .note("theirs with 4 for what is 4 or more"),
            ],
        },
        Table {
            name: "strides",
            title: "strides of 16 bits on 64 KiB pages, and vectors in the slabs that they describe",
            rows: &[
                Row::new("kmalloc classes with strides above 65535", 2.0, "classes", Basis::Formula("7.0"), |runs| {
                    let machine = Machine::new(65536, 16);
                    let mut above = 0.0;
                    for size in slabyard_lab::geometry::kmalloc_sizes(65536) {
                        above += f64::from(u8::from(runs.geometry(size, "7.0", machine, &[])?.size > 65535));
                    }
                    Ok(above)
                })
                .near(Near::Equal("kmalloc-64k and kmalloc-128k")),
            ],
        },
    ],
};
