use super::*;
use crate::allocators::GLIBC;
use crate::compare::runs::Runs;
use std::path::Path;

/// Objects are few then, and some are handed out twice all the same.
const SMALL: f64 = 0.02;

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

#[test]
fn each_load_ends_on_each_allocator_and_does_the_same() {
    let bench = bench();
    let runner = runner(&bench, SMALL, 60);
    let loads = runner.loads().unwrap();
    let threads = |name: &str| loads.iter().any(|load| load.name == name && load.threads == 64);
    assert!(threads("one_64_pinned") && threads("batch_64") && threads("ring_64"), "{loads:?}");
    for Load { name, .. } in &loads {
        let work = [1, GLIBC].map(|a| runner.run(name, &bench.allocators[a], 0).unwrap().work);
        assert!(work[0] > 5000 && work[0] == work[1], "{name}: {work:?}");
    }
}

#[test]
fn object_that_is_handed_out_twice_is_found_by_each_load() {
    let bench = bench();
    let (runner, torn) = (runner(&bench, SMALL, 60), torn(&bench));
    for Load { name, .. } in runner.loads().unwrap() {
        let error = runner.run(&name, &torn, 0).unwrap_err().to_string();
        assert!(error.contains("says that it is") || error.contains("as it was left"), "{error}");
    }
}

#[test]
fn failing_allocator_leaves_its_places_empty_and_the_others_go_on() {
    let bench = bench();
    let allocators = [bench.allocators[GLIBC].clone(), torn(&bench)];
    let runner = runner(&bench, SMALL, 60);
    let turn = bench.program("turn");
    let rested =
        rest::all(&runner, &turn, &[load("batch_2"), load("batch_2_pinned")], &allocators, 50);
    let rested = rested.unwrap();
    assert_eq!(rested.len(), 1, "what is pinned is not measured again");
    let [Some(reading), None] = rested[0].readings[..] else { panic!("{:?}", rested[0].readings) };
    for kib in [reading.at_once_kib, reading.idle_kib, reading.trickled_kib] {
        assert!((500..500_000).contains(&kib), "{reading:?}");
    }
    let lines = lines::all(&runner, &[load("lines_active")], &allocators, 2).unwrap();
    let [Some(runs), None] = &lines[0].runs[..] else { panic!("{:?}", lines[0].runs) };
    assert_eq!(runs.len(), 2);
}

#[test]
fn lines_of_two_threads_are_counted_where_they_were_planted_and_nowhere_else() {
    let bench = bench();
    let runner = runner(&bench, SMALL, 60);
    let planted = |name: &str, plant: &str| {
        let more = ["--plant", plant].map(str::to_owned);
        let (_, said) = runner.run_with(name, &more, &bench.allocators[GLIBC]).unwrap();
        let line = said.lines().find(|line| line.starts_with("lines ")).unwrap();
        line.split(' ').skip(1).take(3).map(|n| n.parse().unwrap()).collect::<Vec<u64>>()
    };
    // 6000 objects a thread, two of them a line, in turn.
    let cpus = Machine::read().unwrap().cpus.len();
    let apart = |lines| if cpus > 1 { lines } else { 0 };
    assert_eq!(planted("lines_active", "shared"), [6000, 6000, apart(6000)]);
    assert_eq!(planted("lines_passive_8", "shared")[..2], [24_000, 24_000]);
    assert_eq!(planted("lines_active", "apart"), [12_000, 0, 0]);
    assert_eq!(planted("lines_passive", "apart"), [12_000, 0, 0]);
}

#[test]
fn wrong_orders_are_refused() {
    let bench = bench();
    let runner = runner(&bench, SMALL, 60);
    let refused = |more: [&str; 2]| {
        let more = more.map(str::to_owned);
        runner.run_with("one_2", &more, &bench.allocators[GLIBC]).unwrap_err().to_string()
    };
    assert!(refused(["--threads", "65"]).contains("exit 2"));
    assert!(refused(["--threads", "3"]).contains("3 threads are no chains of 2"));
    assert!(refused(["--sizes", "7"]).contains("exit 2"));
}
