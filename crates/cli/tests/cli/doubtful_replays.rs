//! `slabyard replay` where its numbers are uncertain, or cannot be compared with others.

use crate::stage::{SLABYARD, text};
use crate::traces::{Files, OBJECTS, ends, load, parsed, real, tiny};
use std::process::Command;

/// One row taken out of a hundred; the figures are there, and the exit code says that
/// they are uncertain.
#[test]
fn rows_that_are_missing_are_noticed() {
    let mut trace = load(60, OBJECTS);
    let whole = Files::new(&trace);
    ends(&whole.replay(&[]), 0, "");
    assert!(!text(&whole.replay(&[]).stdout).contains("are not in the trace"));
    let mut nth = 0;
    trace.events.retain(|_| {
        nth += 1;
        nth % 100 != 50
    });
    let files = Files::new(&trace);
    for args in [&[][..], &["--check"], &["--json"]] {
        let output = files.replay(args);
        ends(&output, 1, "events are missing, so that all figures are uncertain: ");
        assert!(!output.stdout.is_empty());
    }
    assert!(text(&files.replay(&[]).stdout).contains("allocations, 0.5"));
    let root = parsed(&files.replay(&["--json"]), 1);
    assert!(root["contradictions"]["allocations_missing"].as_u64() > Some(5), "{root}");
    ends(&files.replay(&["--partial"]), 0, "events are missing");
    // No recorder lost them, and larger buffers would be no help.
    let told = files.replay(&[]);
    assert!(text(&told.stderr).contains("the trace tells of no lost event"), "{told:?}");
    assert!(!text(&told.stderr).contains("larger buffers"), "{told:?}");
    // A check says what was missing, and by what share a cache is judged.
    let checked = files.replay(&["--check"]);
    let table = text(&checked.stdout);
    assert!(table.contains("do not fit the slabs; a cache is judged by what the trace shows"));
    let seen = parsed(&files.replay(&["--check", "--json"]), 1);
    assert!(seen["contradictions"]["allocations_missing"].as_u64() > Some(5), "{seen}");
    assert!((0.97..1.0).contains(&seen["totals"]["seen"].as_f64().unwrap()), "{seen}");
    let whole = whole.replay(&["--check", "--json"]);
    let whole: serde_json::Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(whole["totals"]["seen"], 1.0);
}

#[test]
fn a_snapshot_of_another_moment_is_told() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/data/");
    let after = format!("{data}hackbench.after.json.zst");
    let output = real("hackbench.slabtrace", &["--start", &after]);
    ends(&output, 1, "the snapshot seems to be of another moment");
    ends(&real("hackbench.slabtrace", &[]), 0, "");
}

/// On other slabs and on other CPUs a replay says so under its table, and in what it
/// saves; what is as the traced machine says nothing.
#[test]
fn what_is_unlike_is_told() {
    let files = tiny();
    let unlike = ["--page-size=64k", "--cpus=16", "--set=max_order=0", "--set=min_order=2"];
    let diff = |a: &str, b: &str, more: &[&str]| {
        let file = |name| files.path(name);
        Command::new(SLABYARD).arg("diff").args([file(a), file(b)]).args(more).output().unwrap()
    };
    ends(&files.replay(&["--save", &files.path("as-traced")]), 0, "");
    let rules = ["--set", "cpu_partial=10", "--save", &files.path("other-rules")];
    ends(&files.replay(&rules), 0, "");
    assert!(diff("as-traced", "other-rules", &[]).status.code() <= Some(1));
    for (nth, option) in unlike.iter().enumerate() {
        let name = format!("unlike{nth}");
        let output = files.replay(&[option, "--save", &files.path(&name)]);
        let table = text(&output.stdout);
        let is_told = table.contains("figures of unlike machines do not compare");
        let listed = Command::new(SLABYARD).args(["list", &files.path(&name)]).output().unwrap();
        assert_eq!(text(&listed.stdout).contains("do not compare"), is_told);
        let root = parsed(&files.replay(&[option, "--json"]), 0);
        assert_eq!(root["unlike"].is_string(), is_told);
        // 192 bytes have order 0 anyway.
        assert_eq!(is_told, *option != "--set=max_order=0", "{option}: {table}");
        let compared = diff("as-traced", &name, &[]);
        assert!(compared.status.code() <= Some(1), "{compared:?}");
        let compared = text(&compared.stdout);
        assert_eq!(compared.contains("unlike machines: "), is_told, "{compared}");
        assert_eq!(compared.contains("as many objects are live in both"), is_told, "{compared}");
        assert_eq!(text(&diff(&name, &name, &[]).stdout), "no difference\n");
        assert_eq!(root["accuracy"].as_array().is_some_and(|all| !all.is_empty()), is_told);
    }
    for (a, b, note) in [
        ("unlike0", "unlike3", "pages of 65536 bytes in one, of 4096 in the other, slabs of cred"),
        ("as-traced", "unlike1", "a machine of 2 CPUs in one, of 16 in the other"),
        ("as-traced", "unlike3", "slabs of cred with 21 objects in one, 85 in the other"),
    ] {
        let output = diff(a, b, &[]);
        assert!(text(&output.stdout).contains(note), "{output:?}");
    }
    // Another moment has other objects live.
    let early = ["--cpus=16", "--save-at=peak", "--save", &files.path("peak")];
    ends(&files.replay(&early), 0, "");
    let at_peak = diff("as-traced", "peak", &[]);
    assert!(text(&at_peak.stdout).contains("not as many objects are live in "), "{at_peak:?}");
    // Another trace is another load.
    let saved = std::fs::read_to_string(files.path("unlike1")).expect("it was saved");
    let name = parsed_name(&saved);
    let other = saved.replacen(&format!("\"{name}\""), "\"other.slabtrace\"", 1);
    assert_ne!(saved, other);
    std::fs::write(files.path("other-load"), other).expect("it is written");
    let output = diff("as-traced", "other-load", &[]);
    ends(
        &output,
        2,
        "not replays of one trace, and their machines are unlike: a machine of 2 CPUs",
    );
    let text_of = |option| text(&files.replay(&[option]).stdout).to_owned();
    assert!(text_of("--cpus=16").contains("the tasks of 2 CPUs are placed on 16 by a rule"));
    assert!(text_of("--page-size=64k").contains("1 cache has other slabs than the traced"));
    assert!(text_of("--page-size=64k").contains("no machine was measured with other pages"));
    let measured = text_of("--cpus=16");
    assert!(measured.contains("slabs above the start were off by: with other CPUs "), "{measured}");
    assert!(measured.contains(" pairs of guests"), "{measured}");
    let both = files.replay(&["--cpus=16", "--tasks=2"]);
    assert!(text(&both.stdout).contains("; no machine was measured with more tasks"), "{both:?}");
}

/// The name of the trace in a saved replay.
fn parsed_name(saved: &str) -> String {
    let root: serde_json::Value = serde_json::from_str(saved).expect("JSON");
    root["source"]["program"].as_str().expect("a trace's name").to_owned()
}
