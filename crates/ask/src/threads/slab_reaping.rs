//! "Re: [patch 3/4] slab reclaim balancing" (September 2002): what SLAB does with a slab whose last
//! object is freed, and what the semaphore of all caches cost.
//!
//! Their machines: an AMD Duron with one CPU for the loop, a 4-way for the semaphore, a NUMAQ with
//! 16 or 32 CPUs for the compile. Ours: a model of one CPU and of several, and a loop on this
//! machine's CPUs through the preload library.

use super::basis::{Basis, RowError};
use super::recordings::{FOUR_OBJECTS, HACKBENCH_4K, ONE_OBJECT, Recording};
use super::replayed::Variant;
use super::row::{Near, Row, Table, Thread};
use super::runs::Runs;
use slabyard_lab::counters::Counter;
use slabyard_lab::replay::contend::COSTS;

const FOUR: Basis = Basis::Replay("four_objects.toml");
const ONE: Basis = Basis::Replay("one_object.toml");
const REAL: Basis = Basis::RealRun("a loop on SLAB");
const HACKBENCH: Basis = Basis::Replay("guest_4");
const BEFORE: &[&str] = &["reclaim=2.4", "arrays=0"];
const PATCHED: &[&str] = &["reclaim=2.5.39", "arrays=0"];
const LATER: &[&str] = &["reclaim=2.5.45", "arrays=0"];
const PATCHED_SMP: &[&str] = &["reclaim=2.5.39", "arrays=1"];

/// Slabs made in a turn of the loop that allocates and frees so many objects.
fn made(
    runs: &Runs,
    recording: &Recording,
    objects: f64,
    set: &'static [&'static str],
) -> Result<f64, RowError> {
    let done = runs.replay(recording, &Variant::of("6.1").set(set).by_slab())?;
    let calls: f64 = [Counter::AllocFastpath, Counter::AllocSlowpath, Counter::AllocCpuSheaf]
        .map(|counter| done.counter(counter))
        .iter()
        .sum();
    Ok(done.counter(Counter::AllocSlab) * objects / calls)
}

/// The model's time of a turn: two slow paths an object, and pages twice a slab.
fn model_ns(
    runs: &Runs,
    recording: &Recording,
    objects: f64,
    set: &'static [&'static str],
) -> Result<f64, RowError> {
    let made = made(runs, recording, objects, set)?;
    Ok(2.0 * objects * f64::from(COSTS.slow) + 2.0 * made * f64::from(COSTS.pages))
}

fn real_ratio(runs: &Runs, slabs: u32, touched: bool) -> Result<f64, RowError> {
    Ok(runs.real("2.5.39", slabs, touched)? / runs.real("2.4", slabs, touched)?)
}

/// Of hackbench's slabs by SLAB with these page lists: acquisitions of the buddy's lock, and new
/// slabs whose pages came from a list.
fn page_lists(runs: &Runs, set: &'static [&'static str]) -> Result<(f64, f64), RowError> {
    let done = runs.replay(&HACKBENCH_4K, &Variant::of("6.1").set(set).by_slab())?;
    let hits = done.counter(Counter::PageHit) / done.counter(Counter::AllocSlab);
    Ok((done.counter(Counter::PageLock), hits))
}

const NONE: &[&str] = &["page_lists=none", "reclaim=2.5.39"];
const HOT: &[&str] = &["page_lists=hot-cold", "reclaim=2.5.39"];

/// Caches that a reap looks at, and pages of which it frees half (REAP_SCANLEN, REAP_PERFECT of
/// `mm/slab.c`, 2.4).
const REAPED: [f64; 2] = [10.0, 10.0];
/// Pages that a pass of reclaim frees (SWAP_CLUSTER_MAX of `include/linux/swap.h`).
const RECLAIMED: f64 = 32.0;

/// The part of a CPU's time in reclaim that it holds the semaphore, where nobody waits.
fn inside_share() -> f64 {
    let length = |ns: u32| f64::from(ns);
    let [caches, pages] = REAPED;
    let inside = caches * length(COSTS.lock_moved + COSTS.link) + pages / 2.0 * length(COSTS.pages);
    inside / (inside + RECLAIMED * length(COSTS.pages))
}

/// The part of acquisitions that find one of the other CPUs inside.
fn waits(share: f64, cpus: f64) -> f64 {
    1.0 - (1.0 - share).powf(cpus - 1.0)
}

/// The part of the time that each of so many CPUs holds a lock, if so large a part of acquisitions
/// waits: every other CPU is as likely to hold it (a closed queue, one server).
fn held_share(waits: f64, cpus: f64) -> f64 {
    1.0 - (1.0 - waits).powf(1.0 / (cpus - 1.0))
}

pub(super) const THREAD: Thread = Thread {
    name: "reap",
    title: "Re: [patch 3/4] slab reclaim balancing (linux-kernel, 26 September 2002)",
    inconsistencies: &[
        "the loop's text has both 2733 and 2735 cycles for the patch with four objects: 72 and 24 of \
         100 runs",
        "grow and shrink are said to take around 500 cycles each; from 662 to 2733 cycles for three \
         slabs it is 690 for both",
        "the compile is answered to a question on slab.c, but shows the page allocator's lists on \
         another machine",
    ],
    tables: &[
        Table {
            name: "loop",
            title: "one turn: objects of 4 KiB are allocated and freed, without arrays (one CPU)",
            rows: &[
                Row::claim("1 object, 2.4: slabs made", "145 cycles, none made", "a turn", ONE, |runs| made(runs, &ONE_OBJECT, 1.0, BEFORE))
                    .near(Near::AtMost(0.01, "the free slab stays")),
                Row::claim("1 object, patched: slabs made", "133 cycles, one slab is kept", "a turn", ONE, |runs| made(runs, &ONE_OBJECT, 1.0, PATCHED))
                    .near(Near::AtMost(0.01, "one free slab stays")),
                Row::claim("4 objects, 2.4: slabs made", "662 cycles, none made", "a turn", FOUR, |runs| made(runs, &FOUR_OBJECTS, 4.0, BEFORE))
                    .near(Near::AtMost(0.01, "free slabs stay")),
                Row::new("4 objects, patched: slabs made", 3.0, "a turn", FOUR, |runs| made(runs, &FOUR_OBJECTS, 4.0, PATCHED))
                    .near(Near::Within(0.05, "turns overlap now and then"))
                    .note("theirs: all but the one that is kept"),
                Row::claim("4 objects, 2.5.45: slabs made", "the limit of one is undone a month later", "a turn", FOUR, |runs| made(runs, &FOUR_OBJECTS, 4.0, LATER)),
                Row::new("4 objects: patched to 2.4", 2733.0 / 662.0, "of the time", FOUR, |runs| {
                    Ok(model_ns(runs, &FOUR_OBJECTS, 4.0, PATCHED)? / model_ns(runs, &FOUR_OBJECTS, 4.0, BEFORE)?)
                })
                .near(Near::Times(2.0, "the model's lengths are of a CPU of today, where pages cost three slow paths"))
                .note("the model's cost; cycles of a Duron are not to be had"),
                Row::new("1 object: patched to 2.4", 133.0 / 145.0, "of the time", ONE, |runs| {
                    Ok(model_ns(runs, &ONE_OBJECT, 1.0, PATCHED)? / model_ns(runs, &ONE_OBJECT, 1.0, BEFORE)?)
                })
                .near(Near::Within(0.15, "the model has no length for a second list"))
                .note("the model's cost"),
            ],
        },
        Table {
            name: "real",
            title: "the loop on this machine's CPUs: objects of 4 KiB by the preload library's SLAB",
            rows: &[
                Row::new("1 slab, 2.4", 145.0, "cycles; ours ns", REAL, |runs| runs.real("2.4", 1, false)),
                Row::new("1 slab: patched to 2.4", 133.0 / 145.0, "of the time", REAL, |runs| real_ratio(runs, 1, false))
                    .note("slabs of eight objects here: a turn allocates and frees all objects of so many slabs"),
                Row::new("4 slabs, 2.4", 662.0, "cycles; ours ns", REAL, |runs| runs.real("2.4", 4, false)),
                Row::new("4 slabs: patched to 2.4", 2733.0 / 662.0, "of the time", REAL, |runs| real_ratio(runs, 4, false))
                    .note("a yard keeps its pages: a slab that is made again costs no buddy"),
                Row::claim("4 slabs, touched: patched to 2.4", "was the memory touched?", "of the time", REAL, |runs| real_ratio(runs, 4, true)),
            ],
        },
        Table {
            name: "several",
            title: "several CPUs: arrays in front of the slabs absorb the loop",
            rows: &[
                Row::claim("4 objects, patched, with arrays: slabs made", "the arrays should absorb bursts", "a turn", FOUR,
                    |runs| made(runs, &FOUR_OBJECTS, 4.0, PATCHED_SMP))
                    .near(Near::AtMost(0.01, "none, after the first turn")),
            ],
        },
        Table {
            name: "semaphore",
            title: "the semaphore that each CPU passes before it reclaims pages",
            rows: &[
                Row::new("acquisitions that wait, 4 CPUs", 25.0, "%", Basis::Formula("closed queue"), |runs| {
                    runs.formula("closed queue", || 100.0 * waits(inside_share(), 4.0))
                })
                .near(Near::Times(3.0, "lengths of a CPU of today, and a guess of what each pass does"))
                .note("reclaim of pages is not modelled: each CPU in turn reaps (10 caches, 10 pages) under the \
                       semaphore and frees 32 pages outside, with the lengths of slabyard replay --contention"),
                Row::claim("a CPU's time inside, if 25 % wait", "a turnstile: each CPU passes through reap", "%", Basis::Formula("closed queue"),
                    |runs| runs.formula("closed queue", || 100.0 * held_share(0.25, 4.0)))
                    .note("of each of 4 CPUs, by a closed queue with one server"),
            ],
        },
        Table {
            name: "compile",
            title: "a kernel compile with lists of hot pages in front of the buddy",
            rows: &[
                Row::new("system time, after to before", 43.322 / 48.292, "of the time", HACKBENCH, |runs| {
                    let ((none, _), (hot, _)) = (page_lists(runs, NONE)?, page_lists(runs, HOT)?);
                    Ok(hot / none)
                })
                .near(Near::AtMost(1.0, "fewer acquisitions of the buddy's lock"))
                .note("a compile's time is not to be had from a trace (theirs: elapsed 20.18 to 19.798 s, user 192.914 to 191.61 s, CPU 1195.6 to 1186.4 %): ours is how often hackbench's slabs take the buddy's lock"),
                Row::claim("new slabs of hot pages", "recycling known-to-be-hot pages", "%", HACKBENCH, |runs| Ok(100.0 * page_lists(runs, HOT)?.1))
                    .near(Near::AtLeast(25.0, "lists of single pages; slabs of SLAB are of order 0 and 1")),
            ],
        },
    ],
};
