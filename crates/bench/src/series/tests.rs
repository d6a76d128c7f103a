//! Runs the suite on a library that stands in for the library of all engines, and tests its text on
//! made-up numbers.

use std::path::Path;

use clap::Parser;
use slabyard_abi::stats::Counter;

use super::measure::Measured;
use super::*;
use crate::args::{Args, Suite};
use crate::counts::CounterWords;
use crate::counts::tests::words;
use crate::load::said::Run;
use crate::share::Share;

fn options(line: &str) -> SeriesOptions {
    let line = ["slabyard-bench", "series"].into_iter().chain(line.split_whitespace());
    match Args::parse_from(line).suite {
        Suite::Series(options) => options,
        _ => unreachable!("it was asked for the series"),
    }
}

/// mimalloc has no fronts, but runs with their settings all the same.
fn run_on_stand_in(line: &str) -> Result<serde_json::Value> {
    let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
    let library = bench.program("libmimalloc.so");
    let file = bench.program("series.json");
    let line = format!("{line} --engines {} --json {}", library.display(), file.display());
    run(&options(&line))?;
    Ok(serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())
}

#[test]
fn every_cell_is_timed_on_every_front_in_each_round() {
    let json = run_on_stand_in(
        "--scale 0.002 --rounds 2 --counted 0 --threads 2,6 --cpus 1 --fronts 6.1+eager,6.1,sheaves",
    )
    .unwrap();
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        let fronts = cell["fronts"].as_array().unwrap();
        let names: Vec<_> = fronts.iter().map(|front| front["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["6.1+eager", "6.1", "sheaves"]);
        for front in fronts {
            assert_eq!(front["seconds"].as_array().map(Vec::len), Some(2));
            assert_eq!(front["runs"][1]["ops"], cell["ops"]);
            assert!(front["counts"].as_object().unwrap().is_empty(), "none was asked for");
        }
        assert_eq!(fronts[0]["to_first"]["value"], 1.0);
    }
}

#[test]
fn a_front_that_leaves_no_counts_is_an_error() {
    let line = "--scale 0.001 --rounds 1 --only packets --threads 2 --cpus 1 --fronts 6.1";
    let error = format!("{:#}", run_on_stand_in(line).unwrap_err());
    assert!(error.contains("6.1") && error.contains("left no report"), "{error}");
}

#[test]
fn tables_hold_times_shares_counts_and_what_was_published() {
    let run = |ms: u64| Run {
        ops: 1_000_000,
        ns: ms * 1_000_000,
        cpu_us: 1,
        peak_kib: 1,
        faults: 1,
        frees: None,
    };
    let counted = |locks, slabs, ns| {
        let counters = [
            (Counter::CmpxchgSlab, 2_000_000),
            (Counter::CmpxchgUnderLock, 128_000),
            (Counter::CmpxchgFail, 17),
            (Counter::ListLock, locks),
            (Counter::ListLockSlabs, slabs),
            (Counter::ListLockWaitNs, ns),
        ];
        words(&counters, &[])
    };
    let options = options("--only packets --threads 128 --cpus 2 --fronts 6.1+eager,6.1+delayed");
    let measured: Vec<Measured> = cells::all(&options, 2)
        .into_iter()
        .map(|cell| Measured {
            cell,
            runs: vec![vec![run(200), run(210), run(205)], vec![run(180), run(189), run(190)]],
            counted: vec![counted(40_000, 100_000, 3_500_000), counted(0, 0, 0)],
            share: Ok(Share { allocator: 41.25, kernel: 20.0 }),
        })
        .collect();
    let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
    let fronts = options.fronts.iter().map(|name| crate::allocators::Allocator {
        name: name.clone().leak(),
        ..bench.allocators[0].clone()
    });
    let fronts: Vec<_> = fronts.collect();
    let machine = Machine::read().unwrap();
    let report = Report::new(&machine, &fronts, &options, &measured);
    let text = text::body(&report);
    for words in [
        "0.200 0.210 0.205 | 2.420 2.450 2.440 | stress-ng --rawpkt 128",
        "0.180 0.189 0.190 | 2.150 2.160 2.170 |",
        "0.900 (0.900 to 0.927)",
        "41.2 % | 20.0 %",
        // A thousand packets: 2000 exchanges, 128 under the lock, 40 locks; 2.5 slabs a hold.
        "2000.00 |     17 |     128.00 |      40.00 |    0.00 |      0 |       3500 |         2.50 |",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["cells"][0]["fronts"][0]["counts"]["list_lock"], 40_000);
    assert_eq!(json["cells"][0]["published"]["after"][2], 2.17);
    assert_eq!(json["cells"][0]["share"]["Ok"]["kernel"], 20.0);
    assert!(
        measured[0].counted[1] != CounterWords::NONE,
        "and nothing under the lock is shown as such"
    );
}
