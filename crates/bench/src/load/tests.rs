//! Runs the loads on real allocators, on a broken one, and with planted faults.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use clap::{CommandFactory, Parser};

use super::*;
use crate::allocators::GLIBC;
use crate::args::{Args, Suite};
use crate::compare::measures::{CPU, WALL};

const TORN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtorn.so"));

/// Small ones of every kind, and what each does.
const SMALL: [(&str, u64); 12] = [
    ("messaging -g 2 -f 3 -l 50", 2 * 3 * 3 * 50),
    ("messaging -g 1 -f 4 -l 100 -s 4096 --pipes", 4 * 4 * 100),
    ("messaging -g 1 -f 3 -l 50 --processes", 3 * 3 * 50),
    ("messaging -g 2 -f 2 -l 50 --processes --pipes -s 8", 2 * 2 * 2 * 50),
    ("packets -n 20000", 20_000),
    ("packets -n 20001 --pairs 3 --burst 1 --unpinned", 20_001),
    ("fork-bomb -n 300", 300),
    ("fork-bomb -n 50 --processes --lines 3 --places 4", 50),
    ("drain -n 2000 -c 2", 4000),
    ("drain -n 2000 -c 2 --remote --order random --clock monotonic", 4000),
    ("drain -n 700 -c 2 -s 8 --order made --clock thread", 1400),
    ("drain -n 1 -c 1 -s 32768", 1),
];

fn options(line: &str) -> LoadOptions {
    let words = ["slabyard-bench", "load"].into_iter().chain(line.split(' '));
    match Args::parse_from(words).suite {
        Suite::Load(options) => options,
        _ => unreachable!("it was asked for a load"),
    }
}

fn bench() -> Bench {
    Bench::open(Some(Path::new("mimalloc"))).unwrap()
}

fn glibc(bench: &Bench) -> &Allocator {
    &bench.allocators[GLIBC]
}

fn runner(bench: &Bench) -> Runner {
    Runner::new(bench, Some(&bench.program(KERNEL_LOADS)), 1.0, 20)
}

#[test]
fn every_load_does_its_work_on_every_allocator() {
    let bench = bench();
    for (line, ops) in SMALL {
        for allocator in &bench.allocators[1..] {
            let run = one(&runner(&bench), allocator, &options(line)).unwrap();
            assert_eq!(run.ops, ops, "{line}");
            assert!(run.ns > 0 && run.peak_kib > 500 && run.faults > 50, "{line}: {run:?}");
            let Some(frees) = run.frees else {
                assert!(!line.starts_with("drain"), "{line} times frees");
                continue;
            };
            assert_eq!(frees.count, ops);
            assert!(line.contains(&frees.clock) || frees.clock == "tsc", "{line}: {frees:?}");
            assert!(frees.percentiles.is_sorted(), "{frees:?}");
            assert!(frees.percentiles[2] <= frees.max * 1.01, "{frees:?}");
            // A single free may be the one in which another thread has its turn.
            assert!(frees.percentiles[0] < 100_000.0 || ops == 1, "{frees:?}");
            assert!(frees.cost_ns < 100_000.0, "{frees:?}");
            let (slowest, _) = *frees.rows.last().unwrap();
            // A bucket's middle is within 0.8 % of its times.
            assert!(slowest as f64 <= frees.max * 1.01, "{frees:?}");
        }
    }
}

#[test]
fn threads_stay_on_the_first_cpus() {
    let bench = bench();
    let words = |cpus: &str| words(&options(&format!("messaging -g 1 -f 1 -l 1 --cpus {cpus}")));
    assert!(words("1").join(" ").ends_with("--cpus 1"));
    // A CPU's worth of time at most goes by, whoever runs beside.
    let (measures, _) = runner(&bench)
        .run_with("packets", &["packets=200000".into(), "--cpus".into(), "1".into()], glibc(&bench))
        .unwrap();
    assert!(measures[CPU] <= measures[WALL] * 11 / 10, "{measures:?}");
    // More than there are: all.
    one(&runner(&bench), glibc(&bench), &options("packets -n 100 --cpus 4000")).unwrap();
}

#[test]
fn every_planted_fault_is_found() {
    let bench = bench();
    let faults = [("lose", ""), ("spoil", "not as it was left"), ("keep", "objects")];
    for (line, _) in SMALL {
        for (fault, says) in faults {
            let options = options(&format!("{line} --plant {fault}"));
            let error = one(&runner(&bench), &bench.allocators[GLIBC], &options).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains("exit 1: kernel: ") && text.contains(says), "{line}: {text}");
        }
    }
}

#[test]
fn memory_that_is_handed_out_twice_is_found() {
    let bench = bench();
    let library = bench.unpack("libtorn.so", TORN).unwrap();
    let torn =
        Allocator { name: "torn", preload: Some(library), ..bench.allocators[GLIBC].clone() };
    for (line, ops) in SMALL {
        // A process that sends a message holds no other object; and one is handed out once.
        if line.starts_with("messaging") && line.contains("--processes") || ops == 1 {
            continue;
        }
        let error = one(&runner(&bench), &torn, &options(line)).unwrap_err();
        assert!(format!("{error:#}").contains("kernel: "), "{line}: {error:#}");
    }
}

/// Settings of a load as the program prints them: usual, least and most, by name.
fn told(program: &Path, load: &str) -> HashMap<String, [String; 3]> {
    let out = Command::new(program).args(["--settings", load]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let fields = |line: &str| {
        let mut fields = line.split(' ').map(str::to_owned);
        (fields.next().unwrap(), [(); 3].map(|()| fields.next().unwrap()))
    };
    text.lines().map(fields).collect()
}

#[test]
fn command_line_has_the_programs_settings_and_limits() {
    let bench = bench();
    let command = Args::command();
    let loads = command.find_subcommand("load").unwrap();
    for load in ["messaging", "packets", "fork-bomb", "drain"] {
        let told = told(&bench.program(KERNEL_LOADS), load);
        let settings = options(load).shape.settings();
        assert_eq!(settings.len(), told.len(), "{load}");
        for (name, value) in settings {
            let [usual, least, most] = &told[name];
            assert_eq!(&in_words(&value), usual, "{load} {name}");
            let arguments = loads.find_subcommand(load).unwrap();
            let argument = arguments.get_arguments().find(|argument| argument.get_id() == name);
            let takes_number = argument
                .is_some_and(|argument| argument.get_action().takes_values())
                && value.is_u64();
            if !takes_number {
                continue;
            }
            let accepts = |value: u64| {
                let line = ["slabyard-bench".to_owned(), "load".to_owned(), load.to_owned()];
                let option = [format!("--{name}"), value.to_string()];
                Args::try_parse_from(line.into_iter().chain(option)).is_ok()
            };
            let (least, most): (u64, u64) = (least.parse().unwrap(), most.parse().unwrap());
            assert!(accepts(least) && accepts(most), "{load} {name}");
            assert!(!accepts(least - 1) && !accepts(most + 1), "{load} {name}");
        }
    }
}

#[test]
fn program_refuses_what_it_does_not_know() {
    let bench = bench();
    for (words, says) in [
        ("", "a load is missing"),
        ("mail", "no such load: mail"),
        ("packets burst=0", "burst is from 1 to 4096: 0"),
        ("packets burst=4097", "burst is from 1 to 4096: 4097"),
        ("packets burst=-1", "burst is from 1 to 4096: -1"),
        ("packets burst", "unknown setting: burst"),
        ("packets bursts=1", "unknown setting: bursts=1"),
        ("drain clock=sun", "to thread: sun"),
        ("drain --scale 0", "a scale is a number above 0"),
        ("drain --seed", "a value is missing after: --seed"),
        ("drain --cpus 0", "a number of CPUs is 1 or more: 0"),
        ("drain --plant oak", "a fault is lose, spoil or keep: oak"),
        ("drain --quick 1", "unknown option: --quick"),
    ] {
        let words: Vec<&str> = words.split_terminator(' ').collect();
        let out = Command::new(bench.program(KERNEL_LOADS)).args(&words).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.lines().next().unwrap().contains(says), "{words:?}: {text}");
        assert!(out.stdout.is_empty());
    }
}

#[test]
fn help_of_each_load_has_an_example_of_it_and_the_exit_codes() {
    let mut command = Args::command();
    let loads = command.find_subcommand_mut("load").unwrap();
    for load in ["messaging", "packets", "fork-bomb", "drain"] {
        let help = loads.find_subcommand_mut(load).unwrap().render_help().to_string();
        assert!(help.contains(&format!("slabyard-bench load {load} ")), "{help}");
        assert!(help.contains("Exit codes: 0 done"), "{help}");
    }
}

#[test]
fn options_stand_before_or_after_the_load() {
    for line in [
        "--preload ours --rounds 3 --seed 7 drain -n 5",
        "drain -n 5 --preload ours --rounds 3 --seed 7",
    ] {
        let options = options(line);
        assert_eq!((options.rounds, options.seed), (3, 7));
        assert_eq!(options.preload, ["ours"]);
        let words = words(&options).join(" ");
        assert!(
            words.starts_with("objects=5 bytes=256 ") && words.ends_with("--seed 7"),
            "{words}"
        );
    }
}

#[test]
fn allocators_are_found_by_name_and_by_path() {
    let bench = bench();
    let engines = Engines { engines: Some(bench.program("libmimalloc.so")) };
    let of = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        chosen(&bench, &engines, &words).map_err(|error| format!("{error:#}"))
    };
    let names = |found: Vec<Allocator>| found.iter().map(|a| a.name).collect::<Vec<_>>();
    assert_eq!(names(of(&[]).unwrap()), ["ours", "mimalloc", "glibc"]);
    assert_eq!(names(of(&["glibc", "mimalloc", "glibc"]).unwrap()), ["glibc", "mimalloc", "glibc"]);
    let path = bench.program("libmimalloc.so").display().to_string();
    assert_eq!(names(of(&[&path]).unwrap()), [path.as_str()]);
    let fronts = of(&["6.1+eager", "glibc", "sheaves"]).unwrap();
    assert!(fronts[0].environment().any(|of| of == ("SLABYARD_FREEZING", "eager")));
    assert_eq!(names(fronts), ["6.1+eager", "glibc", "sheaves"]);
    assert!(of(&["6.1+early"]).err().unwrap().contains("early is no rule"));
    let error = of(&["glibc", "/nowhere.so"]).err().unwrap();
    assert!(error.contains("--preload /nowhere.so: no peer, no front, and no file"), "{error}");
    // The loader warns of a file that is no library, and goes on without.
    let path = bench.program("json_rounds.py").display().to_string();
    assert!(of(&[&path]).err().unwrap().contains("malloc comes from"));
}

#[test]
fn report_has_a_row_for_each_allocator_and_its_frees() {
    let bench = bench();
    let options = options("drain -n 500 -c 2 --rounds 2");
    let allocators = &bench.allocators[1..];
    let runs = measure(&bench, allocators, &options).unwrap();
    assert!(runs.iter().all(|runs| runs.len() == 2));
    let machine = Machine::read().unwrap();
    let report = Report::new(&machine, allocators, &options, &runs);
    let text = text::body(&report, &options.shape);
    let rows =
        |name: &str| text.lines().filter(|line| line.starts_with(&format!("| {name} "))).count();
    assert_eq!((rows("mimalloc"), rows("glibc")), (2, 2), "{text}");
    assert!(text.contains("order pages") && text.contains("mimalloc to it"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["settings"]["objects"], 500);
    assert_eq!(json["runs"][1][1]["frees"]["count"], 1000);
    assert_eq!(json["ratios"].as_array().map(Vec::len), Some(1));
}
