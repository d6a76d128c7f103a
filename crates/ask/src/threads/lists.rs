//! "SLUB: percpu partial object count is highly inaccurate" (January 2021): CPU partial lists that
//! hold as many slabs as they should hold free objects.
//!
//! Their machines: a virtual machine with many CPUs, a phone, a laptop, a workstation with 56 CPUs,
//! with kernels before 5.11. Ours: fork bombs of a load on 16 modelled CPUs by the rules of 5.9, a
//! recording of hackbench, and guests of 5.10 to 6.12 that were shrunk.

use super::basis::{Basis, RowError};
use super::recordings::{
    FORK_BOMB, Guest, HACKBENCH_4K, P64K_DEFAULT, Recording, X86_5_10, X86_6_12,
};
use super::replayed::Variant;
use super::row::{Near, Row, Table, Thread, UNNAMED};
use super::runs::Runs;
use slabyard_lab::counters::Counter;
use slabyard_lab::replay::Relief;
use slabyard_lab::replay::contend::COSTS;
use slabyard_lab::rules::Machine;

const BOMB: Basis = Basis::Replay("fork_bomb.toml");
const HACKBENCH: Basis = Basis::Replay("guest_4");
const FORMULA: Basis = Basis::Formula("5.9");
const DELAY_INFO: &str = "task_delay_info";
const OLD: Variant = Variant::of("5.9");
const EXACT: Variant = Variant::of("5.9").set(&["accounting=exact"]);

/// The CPU partial lists of a cache after the fork bombs.
struct Lists {
    /// Slabs of the longest one, free objects that it counts, and that it has.
    longest: [f64; 3],
    /// Slabs, free objects counted and there, and empty slabs, of all CPUs together.
    slabs: f64,
    claimed: f64,
    free: f64,
    empty: f64,
}

fn lists(runs: &Runs, variant: &Variant) -> Result<Lists, RowError> {
    let done = runs.replay(&FORK_BOMB, variant)?;
    let cache = &done.replayed.caches[done.cache(DELAY_INFO)?];
    let mut all = Lists { longest: [0.0; 3], slabs: 0.0, claimed: 0.0, free: 0.0, empty: 0.0 };
    for cpu in 0..cache.nr_cpus() {
        let mut list = [0.0; 3];
        for (slab, _) in cache.each_cpu_partial(cpu) {
            let free = cache.free_of(slab);
            list[0] += 1.0;
            list[1] += f64::from(cache.counted(slab));
            list[2] += f64::from(free);
            all.empty += f64::from(u8::from(free == cache.rules().objects));
        }
        (all.slabs, all.claimed, all.free) =
            (all.slabs + list[0], all.claimed + list[1], all.free + list[2]);
        if list[0] > all.longest[0] {
            all.longest = list;
        }
    }
    Ok(all)
}

fn geometry(runs: &Runs, size: u32) -> Result<slabyard_lab::geometry::Geometry, RowError> {
    runs.geometry(size, "5.9", Machine::new(4096, 16), &[])
}

/// KiB of slabs without an object in use on CPU partial lists.
fn empty_kb(runs: &Runs, variant: &Variant) -> Result<f64, RowError> {
    Ok(runs.replay(&FORK_BOMB, variant)?.empty_parked_bytes()? / 1024.0)
}

/// Nanoseconds of a drain of so many slabs, by the model's lengths: the lock comes from another CPU,
/// and each slab is exchanged and linked.
fn drain_ns(slabs: f64, exchanges: f64) -> f64 {
    let each = f64::from(COSTS.exchange_moved) * exchanges + f64::from(COSTS.link);
    f64::from(COSTS.lock_moved) + slabs * each
}

/// What a shrink of all caches gives back, in percent of all slabs.
fn shrunk(runs: &Runs, guest: &Guest, before: &str) -> Result<f64, RowError> {
    let before_kb = runs.slabs_kb(guest, before)?;
    Ok(100.0 * (1.0 - runs.slabs_kb(guest, &format!("{before}_shrunk"))? / before_kb))
}

fn shrunk_replay(runs: &Runs, release: &'static str) -> Result<f64, RowError> {
    let all = runs.replay(&HACKBENCH_4K, &Variant::of(release))?.end_bytes()?;
    let left = runs.replay(&HACKBENCH_4K, &Variant::of(release).shrunk())?.end_bytes()?;
    Ok(100.0 * (1.0 - left / all))
}

/// Memory of the machine on which the fork bomb's second half runs out of it.
const LITTLE: u64 = 76 << 20;

/// KiB of slabs without an object in use on CPUs' lists when a request finds no page; an error if
/// memory is enough.
fn oom_kb(runs: &Runs) -> Result<f64, RowError> {
    let done = runs.replay(&FORK_BOMB, &OLD.memory(LITTLE, Relief::None))?;
    let failed = done.replayed.memory.as_ref().and_then(|memory| memory.failed);
    match failed {
        Some(_) => Ok(done.empty_parked_bytes()? / 1024.0),
        None => Err(RowError::Broken("the load finds memory enough".into())),
    }
}

fn relieved_kb(runs: &Runs, relief: Relief) -> Result<f64, RowError> {
    let done = runs.replay(&FORK_BOMB, &OLD.memory(LITTLE, relief))?;
    let memory = done.replayed.memory.as_ref();
    let memory = memory.ok_or_else(|| RowError::Broken("no memory".into()))?;
    match memory.failed {
        Some(_) => Ok(0.0),
        None => Ok(memory.relieved_pages as f64 * 4.0),
    }
}

pub(super) const THREAD: Thread = Thread {
    name: "lists",
    title: "SLUB: percpu partial object count is highly inaccurate (linux-mm, 11 January 2021)",
    inconsistencies: &[
        "the lists are said to hold as many pages as intended objects, 30 at most: the formula holds one \
         more, 31, because a list is drained only when it counts more than its limit",
        "after the shrink of the workstation Slab is 9485364 kB at first and 9424864 to 9431764 kB later: \
         -13.0 to -13.6 %",
        "the dump shows 24, 22 and 27 pages on CPUs 10, 11 and 12, none of them 30",
    ],
    tables: &[
        Table {
            name: "dump",
            title: "task_delay_info after fork bombs: a CPU's partial list",
            rows: &[
                Row::new("objects of a page", 51.0, "objects", FORMULA, |runs| Ok(geometry(runs, 80)?.objects.into()))
                    .near(Near::Equal("a formula")).note("80 bytes, slabs of order 0"),
                Row::new("cpu_partial below 256 bytes", 30.0, "objects", FORMULA, |runs| Ok(geometry(runs, 80)?.cpu_partial.into()))
                    .near(Near::Equal("a formula")),
                Row::new("pages of the longest list", 27.0, "pages", BOMB, |runs| Ok(lists(runs, &OLD)?.longest[0]))
                    .near(Near::Within(0.2, "a list ends anywhere from 1 to 31")),
                Row::new("free objects that it counts", 27.0, "objects", BOMB, |runs| Ok(lists(runs, &OLD)?.longest[1]))
                    .near(Near::Within(0.2, "one for each of its pages")),
                Row::new("free objects that it has", 27.0 * 51.0, "objects", BOMB, |runs| Ok(lists(runs, &OLD)?.longest[2]))
                    .near(Near::Within(0.25, "nearly all its pages are empty")),
                Row::new("pages without an object in use", 100.0, "% of all lists'", BOMB, |runs| {
                    let all = lists(runs, &OLD)?;
                    Ok(100.0 * all.empty / all.slabs)
                })
                .near(Near::Points(5.0, "all tasks are gone")),
                Row::claim("by the rules of 5.16: pages of the longest list", "use limits that are more appropriate", "pages", BOMB,
                    |runs| Ok(lists(runs, &Variant::of("5.16"))?.longest[0]))
                    .near(Near::AtMost(10.0, "slabs are counted from 5.16 on: 5 of them here")),
                Row::claim("with an exact count: free objects on all lists", "a more accurate count", "objects", BOMB,
                    |runs| Ok(lists(runs, &EXACT)?.free))
                    .near(Near::AtMost(16.0 * 30.0, "30 on each of 16 CPUs")),
            ],
        },
        Table {
            name: "cases",
            title: "how pages come to CPU partial lists, and what is counted for them",
            rows: &[
                Row::claim("case 1: by a free, fork bombs", "pages can be added in two cases", "% of pages", BOMB, |runs| by_free(runs, &FORK_BOMB))
                    .near(Near::AtLeast(80.0, "case 2 does not appear to happen often")),
                Row::claim("case 1: by a free, hackbench", "pages can be added in two cases", "% of pages", HACKBENCH, |runs| by_free(runs, &HACKBENCH_4K))
                    .near(Near::AtLeast(50.0, "case 2 does not appear to happen often")),
                Row::new("objects counted for a page", 1.0, "objects", BOMB, |runs| {
                    let all = lists(runs, &OLD)?;
                    Ok(all.claimed / all.slabs)
                })
                .near(Near::Within(0.05, "almost always counted as having one free object")),
            ],
        },
        Table {
            name: "phone",
            title: "pages with zero objects in use stuck in lists",
            rows: &[
                Row::new("5.9", 1.5 * 1024.0, "KiB", BOMB, |runs| empty_kb(runs, &OLD))
                    .near(Near::Times(5.0, "four caches of a load on 16 CPUs, not all of a phone's on 8")),
                Row::claim("5.16", UNNAMED, "KiB", BOMB, |runs| empty_kb(runs, &Variant::of("5.16"))),
                Row::claim("6.8", UNNAMED, "KiB", BOMB, |runs| empty_kb(runs, &Variant::of("6.8"))),
                Row::claim("an exact count", UNNAMED, "KiB", BOMB, |runs| empty_kb(runs, &EXACT))
                    .near(Near::AtMost(0.0, "an empty page leaves its list at once")),
            ],
        },
        Table {
            name: "drain",
            title: "flushing about 30 pages at once with interrupts off, and what a dump costs",
            rows: &[
                Row::claim("most slabs that a free drains, 5.9", "~30 pages", "slabs", FORMULA, |runs| Ok(f64::from(geometry(runs, 80)?.cpu_partial) + 1.0))
                    .near(Near::AtLeast(30.0, "a formula")),
                Row::claim("frees that drain 17 slabs or more, 5.9", "tail latency spikes", "of a million", BOMB, |runs| {
                    let done = runs.replay(&FORK_BOMB, &OLD)?;
                    let long: u64 = done.replayed.caches.iter().map(|cache| cache.counters().drains()[5..].iter().sum::<u64>()).sum();
                    let frees = done.counter(Counter::FreeSlowpath) + done.counter(Counter::FreeFastpath);
                    Ok(1e6 * long as f64 / frees)
                })
                .near(Near::AtLeast(1.0, "spikes are there")),
                Row::claim("time with interrupts off of a drain of 31, 5.9", "tail latency spikes", "ns", Basis::Formula("lengths of contention"),
                    |runs| runs.formula("lengths of contention", || drain_ns(31.0, 1.0)))
                    .note("an exchange and a link a slab under the lock, by the lengths of slabyard replay --contention"),
                Row::claim("the same of 5 slabs, 6.8", UNNAMED, "ns", Basis::Formula("lengths of contention"),
                    |runs| runs.formula("lengths of contention", || drain_ns(5.0, 0.0)))
                    .note("5.16 counts slabs, 6.8 exchanges nothing in a drain"),
                Row::claim("interrupts to other CPUs for a dump", "an IPI storm when you read it", "IPIs", BOMB, |runs| {
                    let done = runs.replay(&FORK_BOMB, &OLD)?;
                    Ok(done.replayed.caches.iter().map(|cache| cache.nr_cpus()).sum::<usize>() as f64)
                })
                .note("one for each cache and CPU: of the load's four caches; a snapshot of a replay needs none"),
            ],
        },
        Table {
            name: "shrink",
            title: "what writing 1 to the shrink files of all caches gives back",
            rows: &[
                Row::new("laptop", 100.0 * (1.0 - 580_780.0 / 652_096.0), "%", Basis::Guest("x86_510_4k_smp4_hb"), |runs| shrunk(runs, &X86_5_10, "hb"))
                    .near(Near::Times(5.0, "an order of magnitude: a guest of 5.10 just after hackbench")),
                Row::new("workstation, 56 CPUs", 100.0 * (1.0 - 9_431_764.0 / 10_902_712.0), "%", Basis::Guest("x86_612_4k_smp4_hb_nehalem"), |runs| shrunk(runs, &X86_6_12, "hb"))
                    .near(Near::Times(5.0, "an order of magnitude: a guest of 6.12 with 4 CPUs just after hackbench")),
                Row::claim("16 CPUs, 64 KiB pages, 6.12", UNNAMED, "%", Basis::Guest("p64k_def_smp16_hb"), |runs| shrunk(runs, &P64K_DEFAULT, "hb")),
                Row::claim("a replay of hackbench by 5.9", UNNAMED, "%", HACKBENCH, |runs| shrunk_replay(runs, "5.9"))
                    .near(Near::AtLeast(1.0, "lists hold what a shrink gives back")),
                Row::claim("a replay of hackbench by 6.8", UNNAMED, "%", HACKBENCH, |runs| shrunk_replay(runs, "6.8"))
                    .note("a live kernel: slabyard shrink kernel, which changes it and is not done here"),
            ],
        },
        Table {
            name: "oom",
            title: "processes are killed while unused pages lie on lists: 76 MiB, fork bombs, then directory entries",
            rows: &[
                Row::claim("empty pages on lists when a request fails", "userland will OOM even if megabytes of unused pages lie around", "KiB", BOMB, oom_kb)
                    .near(Near::AtLeast(256.0, "they lie there")),
                Row::claim("given back by a drain of empty slabs, and the load ends", "reclaim should rip unused pages out", "KiB", BOMB,
                    |runs| relieved_kb(runs, Relief::Empties))
                    .near(Near::AtLeast(256.0, "the same load on as much memory is not killed"))
                    .note("0 if the load fails in spite of it"),
            ],
        },
    ],
};

/// Of the slabs that came to CPU partial lists, those that a free put there.
fn by_free(runs: &Runs, recording: &Recording) -> Result<f64, RowError> {
    let done = runs.replay(recording, &OLD)?;
    let (free, node) =
        (done.counter(Counter::CpuPartialFree), done.counter(Counter::CpuPartialNode));
    Ok(100.0 * free / (free + node))
}
