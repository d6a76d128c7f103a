//! `slabyard boot`: memory foretold from a snapshot alone.

use crate::stage::{SLABYARD, text};
use serde_json::Value;
use slabyard_kernels::settings::REPLAYED;
use std::process::{Command, Output};

/// Guests of 6.12 whose dumps are named after their CPUs.
const GUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/data/guests/6.12.json.zst");

fn boot(dump: &str, args: &[&str]) -> Output {
    let source = format!("{GUESTS}#{dump}");
    Command::new(SLABYARD).args(["boot", &source]).args(args).output().unwrap()
}

fn parsed(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn json_tells_both_sides_and_the_error_to_expect() {
    let json = parsed(&boot("4.boot", &["--set", "max_order=0", "--cpus", "16", "--json"]));
    let (before, after) = (&json["before"], &json["after"]);
    assert_eq!((&before["present_cpus"], &after["present_cpus"]), (&4.into(), &16.into()));
    for side in [before, after] {
        let caches = side["caches"].as_array().unwrap();
        let sum: u64 = caches.iter().map(|cache| cache["bytes"].as_u64().unwrap()).sum();
        assert_eq!(side["totals"]["bytes"], sum);
        assert!(caches.len() > 150 && caches[0]["objs_per_slab"].is_u64());
    }
    assert!(before["totals"]["bytes"].as_u64() < after["totals"]["bytes"].as_u64());
    let orders = |side: &Value| {
        let caches = side["caches"].as_array().unwrap();
        caches.iter().filter_map(|cache| cache["order"].as_u64()).max()
    };
    assert_eq!((orders(before), orders(after)), (Some(3), Some(2)), "an object of 2 pages");
    let errors = json["error_to_expect"].as_array().unwrap();
    let changes: Vec<&Value> = errors.iter().map(|error| &error["change"]).collect();
    assert_eq!(changes, ["orders", "cpus"]);
    assert!(errors.iter().all(|error| error["low"].as_f64() < error["high"].as_f64()));
}

#[test]
fn the_table_has_the_caches_that_change_most_and_the_sum() {
    let output = boot("4.boot", &["--set", "max_order=0"]);
    let table = text(&output.stdout);
    for part in ["task_struct", "all caches", "more caches change less", "pairs of guests"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let output = boot("4.boot", &["--all"]);
    let same = text(&output.stdout);
    assert!(same.contains("+0.0 %") && !same.contains('→') && !same.contains("guests"), "{same}");
}

#[test]
fn what_cannot_be_foretold_is_refused_with_the_reason() {
    for (args, words) in [
        (&["--engine", "slab"][..], "replay a trace"),
        (&["--engine", "slob"], "replay a trace"),
        (&["--set", "freezing=eager"], "replay"),
        (&["--cpus", "16", "--possible-cpus", "4"], "possible"),
        (&["--release", "7.3", "--set", "cpu_partial=4"], "CPU partial lists"),
        (&["--set", "max_order=30"], "max_order"),
    ] {
        let output = boot("4.boot", args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(words), "{args:?}: {message}");
    }
    let output = boot("5.boot", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("4-max_order=0.boot"));
    let missing = Command::new(SLABYARD).args(["boot", "/no/such/file"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(3));
}

#[test]
fn sheaves_and_tiny_lay_the_objects_out_in_their_way() {
    let kb = |args: &[&str]| {
        let json = parsed(&boot("4.files", &[args, &["--json"]].concat()));
        json["after"]["totals"]["bytes"].as_u64().unwrap() >> 10
    };
    let (own, sheaves, tiny) = (kb(&[]), kb(&["--release", "7.1"]), kb(&["--engine", "tiny"]));
    assert!(sheaves > own && tiny < own, "{own} {sheaves} {tiny}");
}

/// A key that is taken is not passed over: some value of it changes what is printed.
#[test]
fn every_key_changes_something_or_is_refused() {
    let values = ["0", "1", "8", "200", "exact", "sheaves", "fewer_objects", "possible", "eager"];
    let printed = |set: &[&str]| {
        let output = boot("4.files", &[&["--json"], set].concat());
        output.status.success().then_some(output.stdout)
    };
    let plain = printed(&[]).expect("a boot");
    for key in REPLAYED {
        let set = values.map(|value| format!("--set={}={value}", key.name));
        let taken: Vec<_> = set.iter().filter_map(|set| printed(&[set])).collect();
        // A single value that is taken is the one that holds.
        let changes = taken.iter().any(|text| *text != plain);
        assert!(changes || taken.len() < 2, "{} changes nothing", key.name);
    }
}
