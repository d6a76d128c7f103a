//! `slabyard ask`: a load by other rules and on other machines, each variant beside the base.

use crate::stage::{SLABYARD, text};
use serde_json::Value;
use std::process::{Command, Output};

const TRACES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/traces");
/// A small one, for what any trace answers.
const TRACE: &str = "tr64k_hb_smp4.slabtrace";

fn ask(trace: &str, args: &[&str]) -> Output {
    Command::new(SLABYARD).arg("ask").arg(format!("{TRACES}/{trace}")).args(args).output().unwrap()
}

fn parsed(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn named<'a>(json: &'a Value, name: &str) -> &'a Value {
    let answers = json["answers"].as_array().unwrap();
    answers.iter().find(|answer| answer["name"] == name).unwrap_or_else(|| panic!("{name}: {json}"))
}

/// The figures are those of `slabyard replay` with the same settings.
#[test]
fn a_variant_is_what_a_replay_of_it_says() {
    let args = ["max_order=1", "release=7.3", "--costs", "table", "--json"];
    let asked = parsed(&ask(TRACE, &args));
    for (name, args) in [
        ("base", &[][..]),
        ("max_order=1", &["--set", "max_order=1"]),
        ("release=7.3", &["--release", "7.3"]),
    ] {
        let mut replay = Command::new(SLABYARD);
        replay.args(["replay", &format!("{TRACES}/{TRACE}"), "--json"]).args(args);
        let replayed = parsed(&replay.output().unwrap());
        let (answer, totals) = (named(&asked, name), &replayed["totals"]);
        assert_eq!(answer["memory"]["peak"], totals["peak_bytes"], "{name}");
        assert_eq!(answer["memory"]["end"], replayed["after"]["totals"]["bytes"], "{name}");
        assert_eq!(answer["memory"]["untouched"], totals["untouched_bytes"], "{name}");
        let locks = replayed["counters"]["list_lock"].as_f64().unwrap();
        let told = answer["work"]["list_locks"].as_f64().unwrap();
        let calls = answer["calls"].as_f64().unwrap();
        assert!((told * calls / 1e6 - locks).abs() < 0.5, "{name}: {told}, {locks}");
    }
    assert_eq!(named(&asked, "release=7.3")["changed"], serde_json::json!(["front"]));
    assert_eq!(asked["trust"]["goals"], 6);
    let again = parsed(&ask(TRACE, &args));
    assert_eq!(asked, again, "the same question has the same answer");
}

#[test]
fn the_table_has_verdicts_and_a_line_of_trust() {
    let output = ask(TRACE, &["--machine", "possible=512", "max_order=1", "min_order=0"]);
    let table = text(&output.stdout);
    for part in [
        "max_order=1: saves ",
        "min_order=0: changes nothing for this load",
        "live at the end: the same in all rows",
        "4 CPUs of 512 possible, pages of 64 KiB",
        "meets 6 of 6 goals",
        "lists guessed from the trace",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains('\x1b'), "colours are for terminals: {table}");
    let unchecked = ask(TRACE, &["--no-check"]);
    assert!(!text(&unchecked.stdout).contains("trust:"));
}

#[test]
fn waits_are_asked_for() {
    let args = ["--contention=8", "freezing=eager", "--json"];
    let asked = parsed(&ask("forkexec.slabtrace", &args));
    let under =
        |name: &str| named(&asked, name)["waits"]["exchanges_under_list_lock"].as_f64().unwrap();
    assert!(under("freezing=eager") > under("base"), "{asked}");
    assert_eq!(named(&asked, "base")["waits"]["tasks"], 4);
    let with_costs = ask("forkexec.slabtrace", &["--cost", "pages=1000", "--costs", "table"]);
    assert!(text(&with_costs.stdout).contains("pages 1000"));
}

#[test]
fn nonsense_is_refused_before_any_replay() {
    for (args, code, words) in [
        (&["max_ordre=1"][..], 2, "did you mean `max_order`?"),
        (&["max_order"], 2, "expected KEY=VALUES"),
        (&["max_order=3..0"], 2, "its end is below its begin"),
        (&["max_order=0..1000+cpus=1..1000"], 2, "vary less"),
        (&["max_order=1,max_order=2"], 2, "max_order takes an order"),
        (&["release=2.6"], 2, "older than the oldest preset"),
        (&["cpu_partial=2", "--machine", "release=7.3"], 2, "needs CPU partial lists"),
        (&["--machine", "cpus=1,2"], 2, "vary a key that has several"),
        (&["--machine", "page=5k"], 2, "a page has"),
        (&["engine=slob"], 2, "engine takes slub, slab or tiny"),
        (&["--contention=0"], 2, "--contention"),
        (&["--contention=8", "engine=slab"], 2, "--contention is of SLUB"),
        (&["--cost", "page=1"], 2, "names: "),
        (&["--html", "/nowhere/f.html"], 3, "cannot write /nowhere/f.html"),
    ] {
        let output = ask(TRACE, args);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
        assert!(output.stdout.is_empty());
    }
    let output = ask("nothing.slabtrace", &["max_order=1"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}
