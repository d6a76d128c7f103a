//! "Higher slub memory consumption on 64K page-size systems?" (October 2020, kernel 5.10-rc1).
//!
//! Their machine: a POWER guest with 16 CPUs, 64 possible ones and 16 GiB. Ours: guests of Debian
//! 6.12 on emulated POWER9 with 16 CPUs and 64 KiB pages, laid out by the rules of 5.9; a recording
//! of hackbench on one with 4 CPUs.

use super::basis::{Basis, RowError};
use super::recordings::{
    GUESTS_6_1, Guest, HACKBENCH_64K, P64K_DEFAULT, P64K_ORDER_0, P64K_ORDER_1, P64K_ORDER_2,
    X86_6_12, X86_6_18,
};
use super::replayed::{Variant, ns_a_call};
use super::row::{Compute, Near, Row, Table, Thread, UNNAMED};
use super::runs::Runs;
use slabyard_lab::counters::Counter;
use slabyard_lab::paths::KernelCache;
use slabyard_lab::rules::Machine;

const FORETOLD: Basis = Basis::Foretold("p64k_def_smp16_hb");
const GUEST: Basis = Basis::Guest("p64k_def_smp16_hb");
const FORMULA: Basis = Basis::Formula("5.9");
const REPLAY: Basis = Basis::Replay("tr64k_hb_smp4");
const OTHER_BOOT: &str =
    "another kernel with other drivers booted; two boots of one differ by 10 %";
const PATCH: &[&str] = &["cpu_partial=4096:2,8192:1"];

/// KiB of the guest's boot by the rules of 5.9, with 64 possible CPUs.
fn boot(runs: &Runs, set: &[&str]) -> Result<f64, RowError> {
    boot_of(runs, |machine| machine.possible_cpus = 64, set)
}

fn boot_of(runs: &Runs, machine: fn(&mut Machine), set: &[&str]) -> Result<f64, RowError> {
    runs.boot_kb(&P64K_DEFAULT, "5.9", machine, set)
}

/// Relative to the rules as they were.
fn of_boot(runs: &Runs, set: &[&str]) -> Result<f64, RowError> {
    Ok(boot(runs, set)? / boot(runs, &[])?)
}

fn of_possible(runs: &Runs, machine: fn(&mut Machine)) -> Result<f64, RowError> {
    Ok(boot_of(runs, machine, &[])? / boot(runs, &[])?)
}

/// Their guest: 64 possible CPUs.
fn theirs(possible: u32) -> Machine {
    Machine { possible_cpus: possible, ..Machine::new(65536, 16) }
}

/// The share of the caches of a running kernel with slabs of an order on their machine, by the
/// formula of 5.9.
fn share_of_order(runs: &Runs, max_order: &str, order: u8) -> Result<f64, RowError> {
    let dump = runs.dump(&X86_6_18, "")?;
    let of = |size| Ok(runs.geometry(size, "5.9", theirs(64), &[max_order])?.order == order);
    let all: Result<Vec<bool>, RowError> =
        dump.caches.iter().map(|cache| of(cache.slab_size)).collect();
    let all = all?;
    Ok(100.0 * all.iter().filter(|is| **is).count() as f64 / all.len() as f64)
}

fn task_struct(runs: &Runs, max_order: &str) -> Result<slabyard_lab::geometry::Geometry, RowError> {
    runs.geometry(9856, "5.9", theirs(64), &[max_order])
}

fn booted_kb(runs: &Runs, guest: &Guest) -> Result<f64, RowError> {
    let dump = runs.dump(guest, "boot")?;
    let told = dump.slab_kb_at.iter().find(|(moment, _)| moment == "boot0");
    told.map(|(_, kb)| *kb as f64).ok_or_else(|| RowError::Broken("no boot0".into()))
}

fn of_guests(runs: &Runs, guest: &Guest) -> Result<f64, RowError> {
    Ok(runs.slabs_kb(guest, "boot")? / runs.slabs_kb(&P64K_DEFAULT, "boot")?)
}

/// Slabs on lists of nodes and CPUs.
fn listed(cache: &KernelCache) -> impl Iterator<Item = u32> + '_ {
    let on_nodes = (0..cache.nr_nodes()).flat_map(|node| cache.each_node_partial(node as u16));
    let on_cpus = (0..cache.nr_cpus()).flat_map(|cpu| cache.each_cpu_partial(cpu));
    on_nodes.chain(on_cpus).map(|(slab, _)| slab)
}

/// Of slabs of 2 KiB objects, after the load by the rules of 5.9: all slabs on nodes' and CPUs'
/// lists, and those of them with one object in use.
fn partial_2k(runs: &Runs) -> Result<(f64, f64), RowError> {
    let done = runs.replay(&HACKBENCH_64K, &Variant::of("5.9"))?;
    let cache = &done.replayed.caches[done.cache("kmalloc-cg-2k")?];
    let slabs: Vec<u32> = listed(cache).collect();
    let one = slabs.iter().filter(|slab| cache.free_of(**slab) + 1 == cache.rules().objects);
    Ok((slabs.len() as f64, one.count() as f64))
}

fn hackbench_bytes(runs: &Runs, set: &'static [&'static str]) -> Result<f64, RowError> {
    runs.replay(&HACKBENCH_64K, &Variant::of("5.9").set(set))?.end_bytes()
}

fn of_hackbench(runs: &Runs, set: &'static [&'static str]) -> Result<f64, RowError> {
    Ok(hackbench_bytes(runs, set)? / hackbench_bytes(runs, &[])?)
}

/// Of the slabs on lists of nodes and CPUs after the load, those with one object in use.
fn of_one_object(runs: &Runs) -> Result<f64, RowError> {
    let done = runs.replay(&HACKBENCH_64K, &Variant::of("5.9"))?;
    let (mut all, mut one) = (0, 0);
    for cache in done.replayed.caches.iter().filter(|cache| cache.rules().objects > 1) {
        for slab in listed(cache) {
            let used = cache.rules().objects - cache.free_of(slab);
            all += u32::from(used > 0);
            one += u32::from(used == 1);
        }
    }
    Ok(100.0 * f64::from(one) / f64::from(all))
}

fn hackbench_ns(runs: &Runs, set: &'static [&'static str]) -> Result<f64, RowError> {
    Ok(ns_a_call(&*runs.contend(&HACKBENCH_64K, &Variant::of("5.9").set(set))?))
}

pub(super) const THREAD: Thread = Thread {
    name: "64k",
    title: "Higher slub memory consumption on 64K page-size systems? (linux-kernel, 28 October 2020)",
    inconsistencies: &[
        "the default boot is 209280 kB in the first table, 207488 in that of slub_max_order and \
         204864 in that of cpu_partial: three boots",
        "the row of slub_max_order=2 counts 296 caches, the others 307: the 11 caches of order 3 are \
         missing, which are then of order 2 or less",
        "the text gives sizes above PAGE_SIZE a cpu_partial of 2, the code sizes of at least PAGE_SIZE",
        "on 64 KiB pages, sizes of 1024 to 65535 bytes had a cpu_partial of 6, so the patch changes \
         6 to 2 and 1, not 2 to 1",
        "the row for a patched boot (186048 kB) has no boot of its own beside it: held here against \
         204864 kB, the default of the table before it",
    ],
    tables: &[
        Table {
            name: "boot",
            title: "slab memory after boot by page size",
            rows: &[
                Row::new("64 KiB pages", 209_280.0, "kB", GUEST, |runs| booted_kb(runs, &P64K_DEFAULT))
                    .note("a guest of Debian 6.12 with fewer caches; 16 CPUs are possible, not 64"),
                Row::new("4 KiB pages", 67_636.0, "kB", Basis::Guest("x86_612_4k_smp4_hb_nehalem"),
                    |runs| booted_kb(runs, &X86_6_12))
                    .note("of the same release on x86-64 with 4 CPUs: no POWER guest of 4 KiB pages is kept"),
                Row::new("64 KiB to 4 KiB", 3.094, "ratio", FORETOLD, |runs| {
                    let small = |machine: &mut Machine| {
                        (machine.possible_cpus, machine.page_size) = (64, 4096);
                    };
                    Ok(boot(runs, &[])? / boot_of(runs, small, &[])?)
                })
                .near(Near::Times(1.5, OTHER_BOOT))
                .note("the guest's objects in slabs of both page sizes, by the rules of 5.9"),
            ],
        },
        Table {
            name: "max_order",
            title: "caches by order, and slab memory, by slub_max_order",
            rows: &[
                order_row("order 0 of max 3", 100.0 * 276.0 / 307.0, |runs| share_of_order(runs, "max_order=3", 0)),
                order_row("order 1 of max 3", 100.0 * 16.0 / 307.0, |runs| share_of_order(runs, "max_order=3", 1)),
                order_row("order 2 of max 3", 100.0 * 4.0 / 307.0, |runs| share_of_order(runs, "max_order=3", 2)),
                order_row("order 3 of max 3", 100.0 * 11.0 / 307.0, |runs| share_of_order(runs, "max_order=3", 3)),
                order_row("order 2 of max 2", 100.0 * 15.0 / 307.0, |runs| share_of_order(runs, "max_order=2", 2))
                    .note("theirs with the 11 caches that their row leaves out"),
                order_row("order 1 of max 1", 100.0 * 31.0 / 307.0, |runs| share_of_order(runs, "max_order=1", 1)),
                Row::new("memory of max 2", 166_656.0 / 207_488.0, "of max 3", FORETOLD, |runs| of_boot(runs, &["max_order=2"]))
                    .near(Near::Within(0.15, OTHER_BOOT)),
                Row::new("memory of max 1", 144_128.0 / 207_488.0, "of max 3", FORETOLD, |runs| of_boot(runs, &["max_order=1"]))
                    .near(Near::Within(0.15, OTHER_BOOT)),
                Row::new("memory of max 2, booted", 166_656.0 / 207_488.0, "of max 3", Basis::Guest("p64k_mo2_smp16_hb"),
                    |runs| of_guests(runs, &P64K_ORDER_2))
                    .near(Near::Within(0.2, OTHER_BOOT)).note("real boots; these count 16 present CPUs"),
                Row::new("memory of max 1, booted", 144_128.0 / 207_488.0, "of max 3", Basis::Guest("p64k_mo1_smp16_hb"),
                    |runs| of_guests(runs, &P64K_ORDER_1))
                    .near(Near::Within(0.2, OTHER_BOOT)).note("real boots; these count 16 present CPUs"),
                Row::claim("memory of max 0, booted", UNNAMED, "of max 3", Basis::Guest("p64k_mo0_smp16_hb"),
                    |runs| of_guests(runs, &P64K_ORDER_0)),
            ],
        },
        Table {
            name: "task_struct",
            title: "objects and pages of a slab of 9856-byte objects by slub_max_order",
            rows: &[
                exact("objects of max 3", 53.0, |runs| Ok(task_struct(runs, "max_order=3")?.objects.into())),
                exact("pages of max 3", 8.0, |runs| Ok(f64::from(1u32 << task_struct(runs, "max_order=3")?.order))),
                exact("objects of max 2", 26.0, |runs| Ok(task_struct(runs, "max_order=2")?.objects.into())),
                exact("pages of max 2", 4.0, |runs| Ok(f64::from(1u32 << task_struct(runs, "max_order=2")?.order))),
                exact("objects of max 1", 13.0, |runs| Ok(task_struct(runs, "max_order=1")?.objects.into())),
                exact("pages of max 1", 2.0, |runs| Ok(f64::from(1u32 << task_struct(runs, "max_order=1")?.order))),
            ],
        },
        Table {
            name: "maxcpus",
            title: "slab memory after boot by possible CPUs, 16 of them present",
            rows: &[
                exact("objects wanted with 64", 32.0, |runs| Ok(runs.settings("5.9", theirs(64), &[])?.wanted_objects().into())),
                exact("objects wanted with 256", 40.0, |runs| Ok(runs.settings("5.9", theirs(256), &[])?.wanted_objects().into())),
                exact("objects wanted with 512", 44.0, |runs| Ok(runs.settings("5.9", theirs(512), &[])?.wanted_objects().into())),
                Row::new("256 possible", 253_824.0 / 209_280.0, "of 64", FORETOLD, |runs| of_possible(runs, |machine| machine.possible_cpus = 256))
                    .near(Near::Within(0.25, OTHER_BOOT)),
                Row::new("512 possible", 293_824.0 / 209_280.0, "of 64", FORETOLD, |runs| of_possible(runs, |machine| machine.possible_cpus = 512))
                    .near(Near::Within(0.3, OTHER_BOOT)),
                Row::claim("512 possible, as merged", "page order cannot be tweaked on CPU hotplug", "of 64", FORETOLD, |runs| {
                    let few = |machine: &mut Machine| machine.possible_cpus = 64;
                    let many = |machine: &mut Machine| machine.possible_cpus = 512;
                    let kb = |machine| runs.boot_kb(&P64K_DEFAULT, "6.1", machine, &[]);
                    Ok(kb(many)? / kb(few)?)
                })
                .note("since 5.11 present CPUs count; what is left are objects for each possible CPU"),
                Row::claim(
                    "512 possible of 6.1 with 2 CPUs, booted",
                    "page order cannot be tweaked on CPU hotplug",
                    "of 64",
                    Basis::Guest("guests/6.1"),
                    |runs| {
                        let kb = |dump| runs.slabs_kb(&GUESTS_6_1, dump);
                        Ok(kb("2-possible=512.boot")? / kb("2-possible=64.boot")?)
                    },
                )
                .note("real boots with 4 KiB pages: with 2 CPUs, objects for each possible CPU are a larger part"),
            ],
        },
        Table {
            name: "multiplier",
            title: "min_objects of 2 times a CPU's bits instead of 4",
            rows: &[
                Row::claim("memory", "some reduction", "of 4", FORETOLD, |runs| of_boot(runs, &["multiplier=2"]))
                    .near(Near::AtMost(0.99, "a reduction")),
                Row::claim("hackbench, ns a call", "the same performance", "of 4", Basis::Contention("tr64k_hb_smp4"), |runs| {
                    Ok(hackbench_ns(runs, &["multiplier=2"])? / hackbench_ns(runs, &[])?)
                })
                .near(Near::AtMost(1.05, "the time of calls alone, which is a few percent of hackbench's"))
                .note("hackbench's time is not to be had from a trace: the time that the model's calls take"),
            ],
        },
        Table {
            name: "min_partial",
            title: "empty slabs that are kept because a node's list is short",
            rows: &[
                Row::claim("frees that keep an empty slab", "hardly ever", "% of frees of slabs", REPLAY, |runs| {
                    let done = runs.replay(&HACKBENCH_64K, &Variant::of("5.9"))?;
                    let (kept, freed) = (done.counter(Counter::EmptyKept), done.counter(Counter::FreeSlab));
                    Ok(100.0 * kept / (kept + freed))
                }),
                Row::claim("memory with min_partial=0", UNNAMED, "of 5", FORETOLD, |runs| of_boot(runs, &["min_partial=0"])),
            ],
        },
        Table {
            name: "one_object",
            title: "slabs of 2 KiB objects after hackbench",
            rows: &[
                Row::new("objects in use", 100.0 * 1611.0 / 3168.0, "%", REPLAY, |runs| {
                    let done = runs.replay(&HACKBENCH_64K, &Variant::of("5.9"))?;
                    let used = done.replayed.after.caches[done.cache("kmalloc-cg-2k")?];
                    Ok(100.0 * used.live() as f64 / used.places.objects as f64)
                })
                .note("of kmalloc-cg-2k, which 6.12 takes for the messages' data"),
                Row::new("partial slabs", 54.0, "slabs", REPLAY, |runs| Ok(partial_2k(runs)?.0))
                    .note("on lists of nodes and CPUs, by the rules of 5.9; a smaller run on 4 CPUs"),
                Row::new("of them with one object in use", 100.0 * 38.0 / 54.0, "%", REPLAY, |runs| {
                    let (all, one) = partial_2k(runs)?;
                    Ok(100.0 * one / all.max(1.0))
                }),
                Row::claim(
                    "all caches: partial slabs in use with one object",
                    "many slabs with just one object",
                    "%",
                    REPLAY,
                    of_one_object,
                ),
                Row::claim("objects in use on nodes' lists, 6.12", "many slabs with just one object", "% of all there",
                    GUEST, |runs| {
                        let dump = runs.dump(&P64K_DEFAULT, "hb")?;
                        let sum = |of: fn(&slabyard_lab::snapshot::Cache) -> u64| dump.caches.iter().map(of).sum::<u64>() as f64;
                        let slots = sum(|cache| cache.partial.unwrap_or(0) * u64::from(cache.objs_per_slab));
                        Ok(100.0 * sum(|cache| cache.objects_partial.unwrap_or(0)) / slots)
                    })
                    .near(Near::AtMost(50.0, "the slabs on the lists are nearly empty")),
            ],
        },
        Table {
            name: "cpu_partial",
            title: "slab memory after boot, one cpu_partial for all caches",
            rows: &[
                by_load("0, after hackbench", 175_872.0 / 204_864.0, |runs| of_hackbench(runs, &["cpu_partial=0"])),
                by_load("2, after hackbench", 187_136.0 / 204_864.0, |runs| of_hackbench(runs, &["cpu_partial=2"])),
                by_load("4, after hackbench", 191_616.0 / 204_864.0, |runs| of_hackbench(runs, &["cpu_partial=4"])),
                by_boot("0", 175_872.0 / 204_864.0, |runs| of_boot(runs, &["cpu_partial=0"])),
                by_boot("2", 187_136.0 / 204_864.0, |runs| of_boot(runs, &["cpu_partial=2"])),
                by_boot("4", 191_616.0 / 204_864.0, |runs| of_boot(runs, &["cpu_partial=4"])),
                exact("cpu_partial of 8 KiB objects", 6.0, |runs| Ok(runs.geometry(8192, "5.9", theirs(64), &[])?.cpu_partial.into()))
                    .note("theirs by the code: the text says that it is 2"),
            ],
        },
        Table {
            name: "patch",
            title: "cpu_partial of 2 from 4 KiB and 1 from 8 KiB on",
            rows: &[
                Row::new("memory after boot", 186_048.0 / 204_864.0, "of default", FORETOLD, |runs| of_boot(runs, PATCH))
                    .near(Near::Within(0.12, OTHER_BOOT)),
                Row::new("memory after hackbench", 584_352.0 / 645_580.0, "of default", REPLAY, |runs| {
                    Ok(hackbench_bytes(runs, PATCH)? / hackbench_bytes(runs, &[])?)
                })
                .near(Near::Within(0.12, "4 CPUs, and a load of a tenth of theirs"))
                .note("slabs that events touch"),
                Row::new("time of hackbench", 11.032 / 11.124, "of default", Basis::Contention("tr64k_hb_smp4"), |runs| {
                    Ok(hackbench_ns(runs, PATCH)? / hackbench_ns(runs, &[])?)
                })
                .near(Near::Within(0.05, "calls are a few percent of hackbench's time"))
                .note("hackbench's time is not to be had from a trace: the time that the model's calls take"),
            ],
        },
    ],
};

const fn order_row(name: &'static str, theirs: f64, ours: Compute) -> Row {
    Row::new(name, theirs, "% of caches", FORMULA, ours)
        .near(Near::Points(6.0, "235 caches of a running 6.18, not their 307"))
}

const fn exact(name: &'static str, theirs: f64, ours: Compute) -> Row {
    Row::new(name, theirs, "", FORMULA, ours).near(Near::Equal("a formula"))
}

const fn by_load(name: &'static str, theirs: f64, ours: Compute) -> Row {
    Row::new(name, theirs, "of default", REPLAY, ours)
        .near(Near::Within(0.12, "theirs is of a boot, ours of hackbench on 4 CPUs"))
}

const fn by_boot(name: &'static str, theirs: f64, ours: Compute) -> Row {
    Row::new(name, theirs, "of default", FORETOLD, ours).note(
        "from a guest whose lists hold a slab or two: what the lists of 5.9 hold is not in it",
    )
}
