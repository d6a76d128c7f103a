use super::*;
use crate::allocators::{Allocator, GLIBC};
use crate::compare::measures::Run;
use crate::compare::runs::Runs;
use std::path::Path;

/// A run this long hangs, however busy the machine is.
const HANGS_S: u32 = 600;
/// With so many objects, some are handed out twice.
const TORN: f64 = 0.05;

fn bench() -> Bench {
    Bench::open(Some(Path::new("mimalloc"))).unwrap()
}

fn torn(bench: &Bench) -> Allocator {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/libtorn.so"));
    let library = bench.unpack("libtorn.so", bytes).unwrap();
    Allocator { name: "torn", preload: Some(library), ..bench.allocators[GLIBC].clone() }
}

fn load(name: &str) -> Load {
    Load { name: name.to_owned(), threads: 2, words: String::new() }
}

/// Loads that write in turns wake a thread for each object.
fn small(bench: &Bench, name: &str) -> Runner {
    runner(bench, if name.starts_with(OF_LINES) { 0.01 } else { 0.001 }, HANGS_S)
}

/// As [`Runner::run_with`] of a small load.
fn said(bench: &Bench, name: &str, more: &[&str], allocator: &Allocator) -> Result<String> {
    let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
    Ok(small(bench, name).run_with(name, &more, allocator)?.1)
}

fn loads(bench: &Bench) -> Vec<String> {
    let loads = runner(bench, 1.0, HANGS_S).loads().unwrap();
    loads.into_iter().map(|load| load.name).collect()
}

#[test]
fn each_load_ends_on_each_allocator_and_does_the_same() {
    let bench = bench();
    let listed = runner(&bench, 1.0, HANGS_S).loads().unwrap();
    for name in ["one_64_pinned", "batch_64", "ring_64"] {
        assert!(listed.iter().any(|load| load.name == name && load.threads == 64), "{listed:?}");
    }
    for name in loads(&bench) {
        let run = |a: usize| small(&bench, &name).run(&name, &bench.allocators[a], 0);
        let work = [1, GLIBC].map(|a| run(a).map(|Run { work, .. }| work));
        let [Ok(work), Ok(other)] = work else { panic!("{name}: {work:?}") };
        assert!(work > 200 && work == other, "{name}: {work}, {other}");
    }
}

#[test]
fn object_that_is_handed_out_twice_is_found_by_each_load() {
    let bench = bench();
    let torn = torn(&bench);
    for name in loads(&bench) {
        // Some at a time: what is handed out again is not yet sent.
        let more = ["--batch", "8", "--scale", &TORN.to_string()];
        let error = said(&bench, &name, &more, &torn).unwrap_err().to_string();
        assert!(error.contains("says that it is") || error.contains("as it was left"), "{error}");
    }
}

#[test]
fn object_that_is_lost_is_found() {
    let bench = bench();
    for name in loads(&bench).iter().filter(|name| !name.starts_with(OF_LINES)) {
        let run = said(&bench, name, &["--plant", "lost"], &bench.allocators[GLIBC]);
        let error = run.unwrap_err().to_string();
        assert!(error.contains("says that it is"), "{name}: {error}");
    }
}

#[test]
fn failing_allocator_leaves_its_places_empty_and_the_others_go_on() {
    let bench = bench();
    let allocators = [bench.allocators[GLIBC].clone(), torn(&bench)];
    let loads = [load("batch_2"), load("batch_2_pinned")];
    let runner = runner(&bench, TORN, HANGS_S);
    let (rested, failures) = rest::all(&runner, &loads, &allocators, 50).unwrap();
    assert_eq!(rested.len(), 1, "what is pinned is not measured again");
    let [Some(reading), None] = rested[0].readings[..] else { panic!("{:?}", rested[0].readings) };
    for kib in [reading.at_once_kib, reading.idle_kib, reading.trickled_kib] {
        assert!((500..500_000).contains(&kib), "{reading:?}");
    }
    assert_eq!((failures.len(), failures[0].allocator), (1, "torn"));
    let (lines, failures) = lines::all(&runner, &[load("lines_active")], &allocators, 2).unwrap();
    assert_eq!(lines[0].runs.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0]);
    assert_eq!((failures.len(), failures[0].allocator), (1, "torn"));
}

#[test]
fn lines_of_two_threads_are_counted_where_they_were_planted_and_nowhere_else() {
    let bench = bench();
    let planted = |name: &str, plant: &str| {
        let said = said(&bench, name, &["--plant", plant], &bench.allocators[GLIBC]).unwrap();
        let line = said.lines().find(|line| line.starts_with("lines ")).unwrap();
        line.split(' ').skip(1).take(3).map(|n| n.parse().unwrap()).collect::<Vec<u64>>()
    };
    // 60 objects a thread, two of them a line, in turn.
    let cpus = Machine::read().unwrap().cpus.len();
    let apart = |lines| if cpus > 1 { lines } else { 0 };
    assert_eq!(planted("lines_active", "shared"), [60, 60, apart(60)]);
    assert_eq!(planted("lines_passive_8", "shared")[..2], [240, 240]);
    assert_eq!(planted("lines_active", "apart"), [120, 0, 0]);
    assert_eq!(planted("lines_passive", "apart"), [120, 0, 0]);
}

#[test]
fn wrong_orders_are_refused() {
    let bench = bench();
    let refused = |name: &str, more: [&str; 2]| {
        said(&bench, name, &more, &bench.allocators[GLIBC]).unwrap_err().to_string()
    };
    assert!(refused("one_2", ["--threads", "65"]).contains("exit 2"));
    assert!(refused("one_2", ["--threads", "3"]).contains("3 threads are no chains of 2"));
    assert!(refused("one_2", ["--sizes", "7"]).contains("exit 2"));
    assert!(refused("one_2", ["--plant", "shared"]).contains("exit 2"));
    assert!(refused("lines_active", ["--plant", "lost"]).contains("exit 2"));
}
