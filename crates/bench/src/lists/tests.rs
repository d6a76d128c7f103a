//! Tests of the command line, and of the text on made-up numbers.

use std::path::Path;

use clap::Parser;

use super::look::tests::snapshot;
use super::measure::{HeldProcess, HoldPoint, Measured};
use super::*;
use crate::allocators::Allocator;
use crate::args::{Args, Suite};
use crate::counts::tests::words;
use crate::load::said::{Frees, Run};

fn options(line: &str) -> ListsOptions {
    let line = ["slabyard-bench", "lists"].into_iter().chain(line.split_whitespace());
    match Args::parse_from(line).suite {
        Suite::Lists(options) => options,
        _ => unreachable!("it was asked for the lists"),
    }
}

fn timed(ms: u64) -> Run {
    let frees = Frees {
        clock: "tsc".to_owned(),
        cost_ns: 20.0,
        count: 1,
        percentiles: [30.0, 400.0, 5000.0],
        max: 60_000.0 + ms as f64,
        rows: vec![(16, 1)],
        switches: 0,
    };
    let (ns, peak_kib) = (ms * 1_000_000, ms * 1024);
    Run { ops: 5, ns, cpu_us: 1, peak_kib, faults: 1, frees: Some(frees) }
}

#[test]
fn tables_hold_claims_shrinking_drains_and_times() {
    let look = |kib: u64, lists: &[(u32, Option<u32>, &[u32])]| {
        look::read(&snapshot(kib << 10, lists)).unwrap()
    };
    let held = |moment| HeldProcess {
        moment,
        before: look(640, &[(0, Some(2), &[0, 0]), (1, Some(1), &[9])]),
        after: look(560, &[]),
    };
    let measured = |ms| Measured {
        runs: [vec![timed(ms), timed(ms)], vec![timed(ms), timed(ms + 1)]],
        counted: [words(&[], &[(0, [90, 9000, 700]), (6, [3, 30_000, 12_000])]), words(&[], &[])],
        held: HoldPoint::ALL.map(held).to_vec(),
    };
    let measured = vec![measured(10), measured(12)];
    let options = options("--fronts 5.9,5.9+exact --rounds 2");
    let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
    let named =
        |name: &String| Allocator { name: name.clone().leak(), ..bench.allocators[0].clone() };
    let fronts: Vec<Allocator> = options.fronts.iter().map(named).collect();
    let machine = Machine::read().unwrap();
    let report = Report::new(&machine, &fronts, &options, &measured);
    let text = text::body(&report);
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for words in [
        "| 5.9 | ended | 2 | 3 | 3 | 144 | 2 | 32 | 640 |",
        "| 5.9 | malloc-80 | 3 | 3 | 144 | 2 | 32 | C0=2(2) C1=1(0) |",
        "| 5.9+exact | live | 640 | 560 | -12.5 % |",
        "| Horn's laptop | | 652096 | 580780 | -10.9 % |",
        "| fork-bomb | 0 | 90 / 100 / 700 | 90 / 100 / 700 |",
        "| fork-bomb | 17-32 | 3 / 10000 / 12000 | 3 / 10000 / 12000 |",
        "| 5.9 | 30 | 400 | 5000 | 60011 |",
        "| fork-bomb | 5.9+exact | 12.0 | 1.200 (1.200 to 1.200) | 12.0 |",
    ] {
        assert!(lines.iter().any(|line| line == words), "{words} is not in\n{text}");
    }
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["fronts"][1]["held"][1]["lists"]["empty_bytes"], 2 << 14);
    assert_eq!(json["fronts"][0]["bomb"]["drains"][1]["slabs"], 17);
    assert_eq!(json["published"][1]["after_kib"], 9_485_364);
}

#[test]
fn a_front_that_leaves_no_counts_is_an_error() {
    let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
    let library = bench.program("libmimalloc.so");
    let line = format!("--scale 0.001 --rounds 1 --fronts 5.9 --engines {}", library.display());
    let error = format!("{:#}", super::run(&options(&line)).unwrap_err());
    assert!(error.contains("left no report"), "{error}");
}
