//! `slabyard replay --memory`: 64 CPUs hoard empty slabs on their partial lists, as was reported in
//! January 2021, and then one CPU needs memory. All live objects were allocated on that CPU.

use crate::stage::text;
use crate::traces::{Files, OBJECTS, load, parsed, slabyard};
use serde_json::Value;
use slabyard_lab::event::{Event, EventKind};
use slabyard_lab::trace::Trace;
use std::process::Output;

const CPUS: u64 = 64;
/// Slabs that each CPU fills and empties: one more than the 30 objects that its list counts.
const HOARD: u64 = 31;
/// Slabs that live in the end.
const LIVE: u64 = 1500;

/// What happens on a CPU to a slab, or to one of its objects.
type Happens<'a> = &'a mut dyn FnMut(EventKind, u64, u64, u64);

/// A trace of what `f` says.
fn trace_of(f: impl FnOnce(Happens<'_>)) -> Trace {
    let Trace { header, names, events: model, .. } = load(1, OBJECTS);
    let (page, alloc) = (model[0], model[1]);
    let mut events: Vec<Event> = Vec::new();
    f(&mut |kind, cpu, slab, object| {
        let like = if kind == EventKind::PageAlloc { &page } else { &alloc };
        let address = if kind == EventKind::PageAlloc {
            page.address + slab
        } else {
            alloc.address + (slab << 12) + object * 192
        };
        let time = (events.len() as u64 + 1) * 10_000;
        events.push(Event { time, kind, cpu: cpu as u16, address, ..*like });
    });
    Trace { events, names, header, ..Trace::default() }
}

/// One CPU keeps one object of each of four slabs, and another fills three slabs.
fn parting() -> Trace {
    trace_of(|push| {
        let mut fill = |cpu, slab| {
            push(EventKind::PageAlloc, cpu, slab, 0);
            (0..OBJECTS).for_each(|object| push(EventKind::CacheAlloc, cpu, slab, object));
        };
        (0..4).for_each(|slab| fill(0, slab));
        for slab in 0..4 {
            (1..OBJECTS).for_each(|object| push(EventKind::CacheFree, 0, slab, object));
        }
        for slab in 4..7 {
            push(EventKind::PageAlloc, 1, slab, 0);
            (0..OBJECTS).for_each(|object| push(EventKind::CacheAlloc, 1, slab, object));
        }
    })
}

/// Arrays hold objects of slabs that are partly used: a drain ends none of these, but the slab that
/// finds no pages is not needed then.
#[test]
fn by_slab_an_object_that_a_drain_made_free_takes_the_place_of_a_new_slab() {
    let files = Files::new(&parting());
    let trace = files.trace();
    for (pressure, code, said) in [
        ("none", 4, "0 objects retried"),
        ("empties", 4, "0 objects retried"),
        ("full", 0, "1 reliefs gave back 0 kB, 1 objects retried"),
    ] {
        let pressure = format!("--pressure={pressure}");
        let output = slabyard(&[&trace, "--cpus=2", "--engine=slab", "--memory=24K", &pressure]);
        assert_eq!(output.status.code(), Some(code), "{pressure}: {}", text(&output.stderr));
        let shown = text(&output.stdout);
        assert!(shown.contains(said), "{pressure}: {shown}");
    }
}

/// Each CPU fills its slabs, frees one object of each, so that they join its list, and then
/// the others.
fn hoarding() -> Trace {
    trace_of(hoard)
}

fn hoard(push: Happens<'_>) {
    let mut fill = |cpu, slab| {
        push(EventKind::PageAlloc, cpu, slab, 0);
        (0..OBJECTS).for_each(|object| push(EventKind::CacheAlloc, cpu, slab, object));
    };
    for cpu in 0..CPUS {
        (0..HOARD).for_each(|nth| fill(cpu, cpu * HOARD + nth));
    }
    let mut freed = |from: u64, to: u64| {
        for cpu in 0..CPUS {
            for nth in 0..HOARD {
                (from..to).for_each(|o| push(EventKind::CacheFree, cpu, cpu * HOARD + nth, o));
            }
        }
    };
    freed(0, 1);
    freed(1, OBJECTS);
    for slab in CPUS * HOARD..CPUS * HOARD + LIVE {
        push(EventKind::PageAlloc, 0, slab, 0);
        (0..OBJECTS).for_each(|object| push(EventKind::CacheAlloc, 0, slab, object));
    }
}

fn run(files: &Files, release: &str, limit: &str, pressure: &str) -> Output {
    let release = format!("--release={release}");
    let limit = format!("--memory={limit}");
    let pressure = format!("--pressure={pressure}");
    files.replay(&[&release, "--cpus=64", "--nodes=1", &limit, &pressure])
}

#[test]
fn a_standard_error_that_nobody_reads_is_no_reason_to_fail() {
    let files = Files::new(&hoarding());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut replay = std::process::Command::new(crate::stage::SLABYARD);
    replay.args(["replay", &files.trace(), "--release=5.9", "--cpus=64", "--nodes=1"]);
    replay.args(["--memory=12M", "--pressure=none"]).stderr(writer);
    assert_eq!(replay.stdout(std::process::Stdio::null()).status().unwrap().code(), Some(4));
}

#[test]
fn what_lists_of_64_cpus_hoard_ends_a_run_and_a_drain_saves_it() {
    let files = Files::new(&hoarding());
    // 3072 pages: the hoard takes some 1984, what lives 1500.
    let killed = run(&files, "5.9", "12M", "none");
    let said = text(&killed.stderr);
    assert_eq!(killed.status.code(), Some(4), "{said}");
    for words in [
        "slab allocation failure: order:0, cache=:0000192, default order:1, at ",
        "Mem-Info:\n slab_reclaimable:0 slab_unreclaimable:3072\n free:0 free_pcp:0 ",
        "of 3072 pages of 4kB on 64 CPUs",
        "Node 0 Normal: 0*4kB 0*8kB",
        "Unreclaimable slab info:\nName                      Used          Total",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    // Most of what counts as used is free on CPU partial lists.
    let row = said.lines().find(|line| line.starts_with(":0000192 ")).expect("the cache's line");
    let kb: Vec<u64> = row
        .split_whitespace()
        .skip(1)
        .map(|word| word.strip_suffix("KB").expect("KB").parse().expect("a number"))
        .collect();
    let [used, total, parked] = kb[..] else { panic!("{row}") };
    assert!(parked > CPUS * 29 * 4 * 98 / 100 && parked < used && used <= total, "{row}");
    for pressure in ["empties", "full"] {
        let saved = run(&files, "5.9", "12M", pressure);
        assert_eq!(saved.status.code(), Some(0), "{pressure}: {}", text(&saved.stderr));
        assert!(text(&saved.stdout).contains("; 1 reliefs gave back "), "{pressure}");
    }
    // What lives does not fit: no drain helps.
    assert_eq!(run(&files, "5.9", "5M", "full").status.code(), Some(4));
    // With room for both nobody is killed.
    assert_eq!(run(&files, "5.9", "14M", "none").status.code(), Some(0));
}

#[test]
fn each_engine_says_when_memory_ends() {
    let files = Files::new(&hoarding());
    for release in ["5.16", "6.8", "6.18", "7.1"] {
        // Its peak, while all CPUs' slabs are full.
        assert_eq!(run(&files, release, "16M", "none").status.code(), Some(0), "{release}");
        assert_eq!(run(&files, release, "5M", "full").status.code(), Some(4), "{release}");
    }
    let trace = files.trace();
    let with = |args: &[&str], code: i32| {
        let all = [&[&*trace, "--cpus=64"][..], args].concat();
        let output = slabyard(&all);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
    };
    for pressure in ["--pressure=none", "--pressure=empties", "--pressure=full"] {
        with(&["--release=6.8", "--set=tiny=1", "--memory=14M", pressure], 0);
        with(&["--release=6.8", "--set=tiny=1", "--memory=5M", pressure], 4);
        with(&["--engine=slab", "--memory=16M", pressure], 0);
        with(&["--engine=slab", "--memory=5M", pressure], 4);
    }
    for args in [
        &["--memory=0"][..],
        &["--memory=4095"],
        &["--memory=65G"],
        &["--pressure=full"],
        &["--memory=5M", "--check"],
        &["--memory=5M", "--contention"],
    ] {
        with(args, 2);
    }
}

/// Two tables of pages and two slabs of one: 16 KiB have room for all, 12 KiB not for the second
/// slab, and 4 KiB for a table alone.
#[test]
fn other_pages_take_their_part_and_lists_are_told_as_a_kernel_does() {
    let trace = trace_of(|push| {
        let fill = |push: Happens<'_>, slab: u64| {
            push(EventKind::PageAlloc, 0, slab, 0);
            (0..OBJECTS).for_each(|object| push(EventKind::CacheAlloc, 0, slab, object));
        };
        push(EventKind::PageAlloc, 0, 100, 0);
        fill(push, 0);
        push(EventKind::PageAlloc, 0, 101, 0);
        fill(push, 1);
    });
    let files = Files::new(&trace);
    let trace = files.trace();
    let run = |memory: &str| slabyard(&[&trace, "--cpus=1", memory, "--json"]);
    let enough = parsed(&run("--memory=16K"), 0);
    let memory = &enough["memory"];
    assert_eq!((&memory["failed"], &memory["request_bytes"]), (&Value::Null, &8192.into()));
    assert_eq!(memory["start"]["free_blocks"][2], 1);
    assert_eq!(memory["end"]["free_pages"].as_u64(), Some(0));
    let failed = run("--memory=12K");
    assert_eq!(failed.status.code(), Some(4));
    let said: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(said["memory"]["failed"]["what"], "slab");
    let output = slabyard(&[&trace, "--cpus=1", "--memory=16K"]);
    let shown = text(&output.stdout);
    let line = "start at 0.000000 s: 16 kB free, 0 kB kept by CPUs\n\
                Node 0, zone   Normal      0      0      1 ";
    assert!(shown.contains(line), "{shown}");
    let first = run("--memory=4K");
    let said: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(said["memory"]["failed"]["what"], "slab", "the table took the page");
}

#[test]
fn a_host_on_eight_mib_is_told_how_much_it_needs() {
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/traces/");
    let hackbench = format!("{traces}hackbench.slabtrace");
    let output = slabyard(&[&hackbench, "--memory=8M"]);
    assert_eq!(output.status.code(), Some(4));
    let said = text(&output.stderr);
    assert!(
        said.contains("what was there before the trace began does not fit: --memory "),
        "{said}"
    );
    let refused = slabyard(&[&hackbench, "--engine=slob", "--memory=8M"]);
    assert_eq!(refused.status.code(), Some(2));
}
