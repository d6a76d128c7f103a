//! "slub: Delay freezing of CPU partial slabs" (October 2023): exchanges and locks by path and by
//! patch, two benchmarks, and the leak of its first version.
//!
//! Their machine: 128 CPUs in two nodes. Ours: the model of CPU slabs, whose paths are held against
//! a yard's by the lab's tests; two loads of that shape and a recording of hackbench, multiplied to
//! 128 CPUs, with calls that overlap in time.

use super::basis::{Basis, RowError};
use super::recordings::{HACKBENCH_4K, MESSAGING, PACKETS, Recording};
use super::replayed::{Variant, ns_a_call};
use super::row::{Compute, Near, Row, Table, Thread, UNNAMED};
use super::runs::Runs;
use slabyard_lab::counters::Counter;
use slabyard_lab::paths::{self, KernelCache, Planted};
use slabyard_lab::replay::contend::Contended;
use slabyard_lab::rules::Freezing;
use std::rc::Rc;

const MESSAGES: Basis = Basis::Contention("messaging.toml");
const RAWPKT: Basis = Basis::Contention("packets.toml");
const HACKBENCH: Basis = Basis::Contention("guest_4");
const LEAK: &str = "an allocation with six slabs on the node's list, without CPU partial lists";

const NODE_SLAB: &str = "a slab of the node's list";
const NODE_SLABS: &str = "a slab of the node's list, and one more for the CPU partial list";
const CPU_SLAB: &str = "a slab of the CPU partial list";
const TO_CPU_SLAB: &str = "a free to the CPU slab";
const PUT_BACK: &str = "a CPU slab with free objects that is put back";
const DRAIN: &str = "a drain of three slabs of a CPU partial list";
const EMPTIES: &str = "a free that empties a slab of a CPU partial list";
const FILLED: &str = "a free to a full slab";

const EXCHANGES: usize = 0;
const UNDER_LOCK: usize = 1;
const LOCKS: usize = 2;

fn cost(runs: &Runs, path: &'static str, freezing: Freezing, of: usize) -> Result<f64, RowError> {
    Ok(runs.path(path, freezing)?[of] as f64)
}

fn frozen(
    runs: &Runs,
    of: &Recording,
    set: &'static [&'static str],
) -> Result<Rc<Contended>, RowError> {
    let variant = Variant::of("6.1").set(set);
    runs.contend(of, &if of.name == HACKBENCH_4K.name { variant.on(128, 2, 32) } else { variant })
}

const EAGER: &[&str] = &["freezing=eager"];
const PATCH_3: &[&str] = &["freezing=patch-3"];
const PATCH_5: &[&str] = &["freezing=patch-5"];
const DELAYED: &[&str] = &["freezing=delayed"];

/// Delayed freezing relative to eager.
fn ratio(runs: &Runs, of: &Recording, number: fn(&Contended) -> f64) -> Result<f64, RowError> {
    Ok(number(&*frozen(runs, of, DELAYED)?) / number(&*frozen(runs, of, EAGER)?))
}

/// Of what calls take, the part that they wait for list locks.
fn waiting(runs: &Runs, of: &Recording, set: &'static [&'static str]) -> Result<f64, RowError> {
    let counts = frozen(runs, of, set)?.counts;
    Ok(100.0 * counts.wait_ns as f64 / counts.call_ns as f64)
}

fn under_lock(done: &Contended) -> f64 {
    done.counters.get(Counter::CmpxchgUnderLock) as f64
}

/// Exchanges under the list lock after so many patches, relative to none.
fn by_patch(runs: &Runs, set: &'static [&'static str]) -> Result<f64, RowError> {
    Ok(under_lock(&*frozen(runs, &PACKETS, set)?) / under_lock(&*frozen(runs, &PACKETS, EAGER)?))
}

/// Slabs that no list has any more, after so many allocations that each find six slabs with free
/// objects on the node's list.
fn lost(runs: &Runs, planted: Planted, allocations: u32) -> Result<f64, RowError> {
    runs.driven(LEAK, || {
        let mut cache = paths::model(Freezing::UsedUnderLock, false, planted);
        let mut lost = 0;
        for _ in 0..allocations {
            (0..6).for_each(|_| _ = cache.install_node_partial(0, 1));
            let listed = |cache: &KernelCache| cache.each_node_partial(0).count();
            let before = listed(&cache);
            cache.alloc(1, None);
            // The slab that is used is not lost.
            lost += before - listed(&cache) - 1;
            cache.flush_cpu(1);
        }
        lost as f64
    })
}

pub(super) const THREAD: Thread = Thread {
    name: "freezing",
    title: "slub: Delay freezing of CPU partial slabs (linux-mm, 17 and 18 October 2023)",
    inconsistencies: &[
        "the cover letter claims about 10 % for rawpkt; its runs give 11.4 %",
        "the fix starts the #ifdef before remove_partial and calls itself quick; the version that was \
         merged breaks out of the loop before it",
    ],
    tables: &[
        Table {
            name: "benchmarks",
            title: "time after the series to before, on 128 CPUs in two nodes; ours: time of calls",
            rows: &[
                Row::new("messaging", (6.966 + 7.045 + 6.985) / (7.042 + 7.022 + 7.054), "of baseline", MESSAGES,
                    |runs| ratio(runs, &MESSAGING, ns_a_call))
                    .note("perf bench sched messaging spends a few percent in the allocator; ours is that part alone"),
                Row::new("rawpkt", (2.15 + 2.16 + 2.17) / (2.42 + 2.45 + 2.44), "of baseline", RAWPKT,
                    |runs| ratio(runs, &PACKETS, ns_a_call))
                    .near(Near::AtMost(1.0, "the time of calls alone: of the benchmark's time it is an unknown part")),
                Row::claim("rawpkt: calls wait for list locks, before", "contention is amplified", "% of calls' time", RAWPKT,
                    |runs| waiting(runs, &PACKETS, EAGER)),
                Row::claim("rawpkt: the same, after", "contention is amplified", "% of calls' time", RAWPKT,
                    |runs| waiting(runs, &PACKETS, DELAYED)),
                Row::claim("hackbench: calls wait for list locks, before", "contention is amplified", "% of calls' time", HACKBENCH,
                    |runs| waiting(runs, &HACKBENCH_4K, EAGER))
                    .note("a recording of 4 CPUs, its tasks multiplied by 32; all copies burst at once"),
                Row::claim("hackbench: the same, after to before", "it is less", "of before", HACKBENCH, |runs| {
                    Ok(waiting(runs, &HACKBENCH_4K, DELAYED)? / waiting(runs, &HACKBENCH_4K, EAGER)?)
                })
                .near(Near::AtMost(0.9, "the claim is that waits become shorter")),
            ],
        },
        Table {
            name: "paths",
            title: "exchanges of slabs' words, and list locks, by path: before and after",
            rows: &[
                path("a slab of the node's list, before", 1.0, Basis::Path(NODE_SLAB), |runs| cost(runs, NODE_SLAB, Freezing::Eager, UNDER_LOCK)),
                path("a slab of the node's list, after", 0.0, Basis::Path(NODE_SLAB), |runs| cost(runs, NODE_SLAB, Freezing::Delayed, UNDER_LOCK))
                    .note("under the list lock; the first version still freezes the slab to use there"),
                path("one more for the CPU's list, before", 2.0, Basis::Path(NODE_SLABS), |runs| cost(runs, NODE_SLABS, Freezing::Eager, EXCHANGES))
                    .note("\"twice cmpxchg_double\": this one, and one more as the slab is used"),
                path("one more for the CPU's list, after", 1.0, Basis::Path(NODE_SLABS), |runs| cost(runs, NODE_SLABS, Freezing::Delayed, EXCHANGES)),
                path("a slab of the CPU's list, before", 1.0, Basis::Path(CPU_SLAB), |runs| cost(runs, CPU_SLAB, Freezing::Eager, EXCHANGES)),
                path("a slab of the CPU's list, after", 1.0, Basis::Path(CPU_SLAB), |runs| cost(runs, CPU_SLAB, Freezing::Delayed, EXCHANGES)),
                path("a drain of three slabs, before", 3.0, Basis::Path(DRAIN), |runs| cost(runs, DRAIN, Freezing::Eager, UNDER_LOCK))
                    .note("\"redundant unfreeze\""),
                path("a drain of three slabs, after", 0.0, Basis::Path(DRAIN), |runs| cost(runs, DRAIN, Freezing::Delayed, EXCHANGES)),
                path("a free to a full slab, before", 1.0, Basis::Path(FILLED), |runs| cost(runs, FILLED, Freezing::Eager, EXCHANGES)),
                path("a free to a full slab, after", 1.0, Basis::Path(FILLED), |runs| cost(runs, FILLED, Freezing::Delayed, EXCHANGES)),
                path("locks of a free that empties a parked slab, before", 0.0, Basis::Path(EMPTIES), |runs| cost(runs, EMPTIES, Freezing::Eager, LOCKS)),
                path("locks of a free that empties a parked slab, after", 1.0, Basis::Path(EMPTIES), |runs| cost(runs, EMPTIES, Freezing::Delayed, LOCKS))
                    .note("a price that the letter does not name: the lock is taken, and the slab is found to be on no list"),
            ],
        },
        Table {
            name: "patches",
            title: "what each of the five patches changes",
            rows: &[
                Row::new("1 and 2: a free to the CPU slab", 0.0, "exchanges more", Basis::Path(TO_CPU_SLAB), |runs| {
                    let cost = |freezing| cost(runs, TO_CPU_SLAB, freezing, EXCHANGES);
                    Ok(cost(Freezing::ThawedEarly)? - cost(Freezing::Eager)?)
                })
                .near(Near::Equal("a path's count"))
                .note("they add a bit, and check it: no exchange changes"),
                Row::new("3: a CPU slab is put back", -1.0, "exchanges under the lock", Basis::Path(PUT_BACK), |runs| {
                    let cost = |freezing| cost(runs, PUT_BACK, freezing, UNDER_LOCK);
                    Ok(cost(Freezing::ThawedEarly)? - cost(Freezing::Eager)?)
                })
                .near(Near::Equal("a path's count")),
                Row::new("4: a slab that moves to the CPU's list", -1.0, "exchanges", Basis::Path(NODE_SLABS), |runs| {
                    let cost = |freezing| cost(runs, NODE_SLABS, freezing, EXCHANGES);
                    Ok(cost(Freezing::UsedUnderLock)? - cost(Freezing::ThawedEarly)?)
                })
                .near(Near::Equal("a path's count")),
                Row::new("4: a drain of three slabs", -3.0, "exchanges", Basis::Path(DRAIN), |runs| {
                    let cost = |freezing| cost(runs, DRAIN, freezing, EXCHANGES);
                    Ok(cost(Freezing::UsedUnderLock)? - cost(Freezing::ThawedEarly)?)
                })
                .near(Near::Equal("a path's count")),
                Row::new("5: a slab of the CPU's list", 0.0, "exchanges more", Basis::Path(CPU_SLAB), |runs| {
                    let cost = |freezing| cost(runs, CPU_SLAB, freezing, EXCHANGES);
                    Ok(cost(Freezing::UsedUnderLock)? - cost(Freezing::ThawedEarly)?)
                })
                .near(Near::Equal("a path's count"))
                .note("it freezes where the slab was frozen before, and needs one exchange as before"),
                Row::claim("rawpkt after patch 3", UNNAMED, "exchanges under the lock, of none", RAWPKT, |runs| by_patch(runs, PATCH_3)),
                Row::claim("rawpkt after patch 5", UNNAMED, "exchanges under the lock, of none", RAWPKT, |runs| by_patch(runs, PATCH_5)),
                Row::claim("rawpkt as merged", UNNAMED, "exchanges under the lock, of none", RAWPKT, |runs| by_patch(runs, DELAYED))
                    .near(Near::AtMost(0.75, "most of them leave the lock")),
                Row::claim("rawpkt as merged: list locks", UNNAMED, "of before", RAWPKT, |runs| ratio(runs, &PACKETS, |done| done.counts.locks as f64)),
            ],
        },
        Table {
            name: "leak",
            title: "the first version without CONFIG_SLUB_CPU_PARTIAL",
            rows: &[
                Row::claim("slabs lost by one allocation", "a huge amount of slab memory", "of 6 slabs", Basis::Path(LEAK), |runs| lost(runs, Planted::LoseExtraSlabs, 1))
                    .near(Near::AtLeast(1.0, "partial slabs are leaked")),
                Row::claim("slabs lost by 100 of them", "it grows unboundedly: OOM", "slabs", Basis::Path(LEAK), |runs| lost(runs, Planted::LoseExtraSlabs, 100))
                    .near(Near::AtLeast(100.0, "as many again by each allocation")),
                Row::new("with the quick fix", 0.0, "slabs", Basis::Path(LEAK), |runs| lost(runs, Planted::None, 100))
                    .near(Near::Equal("none is moved without the option")),
            ],
        },
    ],
};

const fn path(name: &'static str, theirs: f64, basis: Basis, ours: Compute) -> Row {
    Row::new(name, theirs, "a call", basis, ours).near(Near::Equal("a path's count"))
}
