//! `slabyard replay --save`: the file is a source like any other, and has the same numbers as the
//! replay's own report.

use crate::stage::{SLABYARD, text};
use crate::traces::{Files, OBJECTS, ends, load, parsed, real, tiny};
use slabyard_lab::event::EventKind;
use slabyard_observe::snapshot::SourceKind;
use slabyard_observe::{Snapshot, file};
use std::path::Path;
use std::process::{Command, Output};

/// A command on a saved file.
fn on(command: &str, file: &str, args: &[&str]) -> Output {
    Command::new(SLABYARD).args([command, file]).args(args).output().unwrap()
}

fn saved(files: &Files, args: &[&str]) -> Snapshot {
    let to = files.path("run.json");
    ends(&files.replay(&[&["--save", &to], args].concat()), 0, "");
    file::open(Path::new(&to)).unwrap()
}

/// Compares with a file, or writes it.
fn is_as(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/golden").join(name);
    if std::env::var_os("SLABYARD_BLESS").is_some() {
        return std::fs::write(path, text).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == want,
        "{name} is another; look at it, and if it is right run this test with \
         SLABYARD_BLESS=1\n--- wanted\n{want}\n--- found\n{text}"
    );
}

/// Two slabs were emptied on the CPU's list, which has counted one object of each.
#[test]
fn show_dumps_each_cpus_list() {
    let files = tiny();
    let snapshot = saved(&files, &["--release", "5.9"]);
    assert_eq!(snapshot.source.kind, SourceKind::Lab);
    assert_eq!(snapshot.source.program.as_deref(), Some("load.slabtrace"));
    assert_eq!(snapshot.source.release.as_deref(), Some("5.9"));
    let output = on("show", &files.path("run.json"), &["filp"]);
    ends(&output, 0, "");
    is_as("show-replay.txt", text(&output.stdout));
}

#[test]
fn the_peak_is_when_slabs_are_most() {
    let files = tiny();
    let end = saved(&files, &["--save-at", "end"]);
    assert_eq!(end.caches, saved(&files, &[]).caches);
    let peak = saved(&files, &["--save-at", "peak"]);
    let number = |of: &Snapshot, name| of.caches[0].exact(name).unwrap();
    // The first object of the third slab.
    assert_eq!((number(&peak, "slabs"), number(&peak, "live")), (3, 43));
    assert_eq!((number(&end, "slabs"), number(&end, "live")), (3, 0));
    assert!(peak.source.trace_ns < end.source.trace_ns);
}

/// Slabs are as many a second time, and the first time is meant.
#[test]
fn of_two_peaks_the_first_is_saved() {
    let mut trace = load(3, OBJECTS);
    let once = trace.events.clone();
    let again = once.iter().filter(|event| event.kind != EventKind::PageAlloc);
    let length = once.last().unwrap().time;
    trace.events.extend(again.cloned().map(|mut event| {
        event.time += length;
        event
    }));
    let files = Files::new(&trace);
    let thrifty = ["--set", "cpu_partial_lists=0", "--set", "min_partial=0"];
    let report = parsed(&files.replay(&[&thrifty[..], &["--json"]].concat()), 0);
    assert_eq!((&report["totals"]["peak"], &report["totals"]["allocated"]), (&3.into(), &5.into()));
    let peak = saved(&files, &[&thrifty[..], &["--save-at", "peak"]].concat());
    assert_eq!(peak.caches[0].exact("slabs"), Some(3));
    assert!(peak.source.trace_ns.unwrap() < length / 2, "{:?}", peak.source);
}

#[test]
fn every_command_that_looks_takes_the_file() {
    let files = tiny();
    let (peak, end) = (files.path("peak.json"), files.path("end.json.zst"));
    ends(&files.replay(&["--save", &peak, "--save-at", "peak"]), 0, "");
    ends(&files.replay(&["--save", &end]), 0, "");
    let list = on("list", &peak, &["--csv", "-o", "slabs,live,parked,bytes"]);
    assert_eq!(text(&list.stdout), "name,slabs,live,parked,bytes\ncred,3,43,20,12288\n");
    let table = on("list", &end, &[]);
    assert!(text(&table.stdout).contains("\ncommitted     12288  1.0000\n"), "{table:?}");
    let diff = on("diff", &peak, &[&end, "--field", "live", "--json"]);
    let diff = parsed(&diff, 1);
    assert_eq!(diff["caches"][0]["fields"]["live"]["difference"], -43);
    assert_eq!(diff["totals"]["live"]["new"], 0);
    assert!(diff["elapsed_ms"].as_i64().unwrap() >= 0);
    let exported = on("export", &end, &[]);
    assert!(text(&exported.stdout).contains("slabyard_committed_bytes 12288\n"), "{exported:?}");
    ends(&on("shrink", &end, &[]), 3, "cannot be shrunk");
    let top = on("top", &end, &[]);
    ends(&top, 2, "it does not change");
}

#[test]
fn it_says_what_the_report_of_the_same_run_says() {
    let files = tiny();
    let to = files.path("run.json.zst");
    for args in [&["--release", "7.1", "--nodes", "2"][..], &["--release", "5.9"], &[]] {
        let args = [args, &["--json", "--save", &to]].concat();
        let root = parsed(&real("tr64k_hb_smp4.slabtrace", &args), 0);
        let snapshot = file::open(Path::new(&to)).unwrap();
        let reported = root["after"]["caches"].as_array().unwrap();
        assert_eq!(reported.len(), snapshot.caches.len());
        let names = [
            "slabs",
            "partial",
            "empty",
            "cpu_slabs",
            "slabs_cpu_partial",
            "total_objects",
            "live",
            "parked_cpu",
            "parked_node",
            "free_partial",
            "bytes",
        ];
        for of in reported {
            let cache = snapshot.cache(of["name"].as_str().unwrap()).unwrap();
            for name in names {
                assert_eq!(cache.exact(name), of[name].as_u64(), "{name} of {}", cache.name);
            }
        }
        let totals = &root["after"]["totals"];
        for name in ["live", "parked_cpu", "parked_node", "free_partial", "padding"] {
            assert_eq!(snapshot.total(name).unwrap().exact(), totals[name].as_u64(), "{name}");
        }
        assert_eq!(snapshot.total("committed").unwrap().exact(), totals["bytes"].as_u64());
        assert!(totals["live"].as_u64().unwrap() > 0);
    }
}

#[test]
fn what_cannot_be_saved_is_3_and_what_cannot_be_asked_for_is_2() {
    let files = tiny();
    ends(&files.replay(&["--save", "/no/such/directory/x.json"]), 3, "cannot write /no/such");
    let directory = files.path("");
    ends(&files.replay(&["--save", &directory]), 3, "cannot write");
    for (args, words) in [
        (&["--save", "x.json", "--check"][..], "cannot be used with"),
        (&["--save", "x.json", "--convert", "x"], "cannot be used with"),
        (&["--save-at", "peak"], "--save <FILE>"),
        (&["--save", "x.json", "--save-at", "noon"], "possible values: peak, end"),
    ] {
        ends(&files.replay(args), 2, words);
    }
    let trace = files.path("load.slabtrace");
    for read in [&trace, &files.path("load.before.json")] {
        let before = std::fs::read(read).unwrap();
        ends(&files.replay(&["--save", read]), 2, "which is read");
        assert!(std::fs::read(read).unwrap() == before);
    }
    // Half of a file is none.
    let to = files.path("run.json.zst");
    ends(&files.replay(&["--save", &to]), 0, "");
    let whole = std::fs::read(&to).unwrap();
    std::fs::write(&to, &whole[..whole.len() / 2]).unwrap();
    ends(&on("list", &to, &[]), 3, "truncated");
}
