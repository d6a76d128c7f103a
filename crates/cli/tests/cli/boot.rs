//! `slabyard boot`: memory foretold from a snapshot alone.

use crate::stage::{SLABYARD, text};
use serde_json::Value;
use slabyard_kernels::settings::REPLAYED;
use std::path::Path;
use std::process::{Command, Output};

/// Guests of 6.12 whose dumps are named after their CPUs.
const GUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/data/guests/6.12.json.zst");

fn boot(dump: &str, args: &[&str]) -> Output {
    let source = format!("{GUESTS}#{dump}");
    Command::new(SLABYARD).args(["boot", &source]).args(args).output().unwrap()
}

/// Each is wrong usage, for a reason with these words.
fn refuses(cases: &[(&[&str], &str)]) {
    for (args, words) in cases {
        let output = boot("4.boot", args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(words), "{args:?}: {message}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
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

/// Each combination is a row, whose orders and totals add up, and whose interval holds the total.
#[test]
fn lists_and_ranges_give_a_row_each() {
    let args = ["--cpus", "4,16", "--set", "max_order=0..1"];
    let json = parsed(&boot("4.boot", &[&args[..], &["--json"]].concat()));
    let variants = json["variants"].as_array().unwrap();
    let names: Vec<&str> = variants.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let expected = ["4+max_order=0", "4+max_order=1", "16+max_order=0", "16+max_order=1"];
    assert_eq!(names, expected.map(|name| format!("cpus={name}")));
    for row in variants {
        let totals = &row["totals"];
        for key in ["slabs", "bytes"] {
            let sum = |of: &str| -> u64 {
                row[of].as_array().unwrap().iter().map(|it| it[key].as_u64().unwrap()).sum()
            };
            assert_eq!(
                (sum("orders"), sum("caches")),
                (sum("caches"), totals[key].as_u64().unwrap())
            );
        }
        let [least, bytes, most] =
            ["least_bytes", "bytes", "most_bytes"].map(|key| totals[key].as_u64());
        assert!(least < bytes && bytes < most, "{totals}");
    }
    assert!(json["after"].is_null() && json["before"]["totals"]["bytes"].is_u64());
    // A row is what the machine gives alone.
    let alone = ["--cpus", "16", "--set", "max_order=1", "--json"];
    let alone = parsed(&boot("4.boot", &alone));
    assert_eq!(alone["after"]["totals"], variants[3]["totals"]);
    assert_eq!(alone["after"]["caches"], variants[3]["caches"]);

    let output = boot("4.boot", &args);
    let table = text(&output.stdout);
    let bytes = variants[2]["totals"]["bytes"].as_u64().unwrap();
    for part in ["base ", "cpus=16+max_order=0", &(bytes >> 10).to_string(), "order 3"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert_eq!(table.matches("error to expect:").count(), 2, "orders, CPUs: {table}");
    let same = boot("4.boot", &["--set", "max_order=3,0"]);
    assert!(text(&same.stdout).contains(" none "), "{}", text(&same.stdout));
}

#[test]
fn a_row_that_cannot_be_is_refused_by_its_name() {
    refuses(&[
        (&["--set", "max_order=3..0"], "its end is below its begin"),
        (&["--set", "max_order="], "empty"),
        (&["--set", "max_order"], "KEY=VALUES"),
        (&["--set", "no_such_key=1,2"], "no_such_key"),
        (&["--set", "cpus=1,2"], "cpus"),
        (&["--cpus", "4,x"], "cpus takes a number"),
        (&["--cpus", "4,4"], "stands twice"),
        (&["--page-size", "4k,5"], "page_size=5"),
        (&["--engine", "tiny,slab"], "replay a trace"),
        (&["--release", "6.12,1.2"], "release=1.2"),
        (&["--cpus", "4,16", "--possible-cpus", "8"], "cpus=16+possible_cpus=8"),
        (&["--cpus", "1..100", "--possible-cpus", "100..200"], "vary less"),
    ]);
}

#[test]
fn the_table_has_the_caches_that_change_most_and_the_sum() {
    let output = boot("4.boot", &["--set", "max_order=0"]);
    let table = text(&output.stdout);
    let parts = ["task_struct", "all caches", "of order 1", "more caches change less"];
    for part in parts.into_iter().chain(["nine of ten guests had", "pairs of guests"]) {
        assert!(table.contains(part), "{part}: {table}");
    }
    let output = boot("4.boot", &["--all"]);
    let same = text(&output.stdout);
    assert!(same.contains("+0.0 %") && !same.contains('→') && !same.contains("guests"), "{same}");
}

#[test]
fn what_cannot_be_foretold_is_refused_with_the_reason() {
    refuses(&[
        (&["--engine", "slab"], "replay a trace"),
        (&["--engine", "slob"], "replay a trace"),
        (&["--set", "freezing=eager"], "replay"),
        (&["--cpus", "16", "--possible-cpus", "4"], "possible"),
        (&["--release", "7.3", "--set", "cpu_partial=4"], "CPU partial lists"),
        (&["--set", "max_order=30"], "max_order"),
    ]);
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
        let mut taken = 0;
        let changes = set.iter().filter_map(|set| printed(&[set])).any(|text| {
            taken += 1;
            text != plain
        });
        // A single value that is taken is the one that holds.
        assert!(changes || taken < 2, "{} changes nothing", key.name);
    }
}

/// A pasted text has less than a snapshot: what it lacks is said, and what cannot be assumed is refused.
#[test]
fn pasted_texts_are_snapshots_where_they_tell_slabs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../observe/tests/pasted");
    let boot = |file: &str, args: &[&str]| {
        let mut command = Command::new(SLABYARD);
        command.arg("boot").arg(folder.join(file)).args(args).output().unwrap()
    };
    let options = ["--release", "6.12", "--cpus", "8", "--set", "max_order=0", "--json"];
    let output = boot("ebitmap-node.txt", &options);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("does not tell which slabs are partial"));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let caches = json["before"]["caches"].as_array().unwrap();
    let cache = caches.iter().find(|cache| cache["name"] == "ebitmap_node").unwrap();
    // All objects are in use: as many slabs as the text has.
    let pasted = folder.join("ebitmap-node.txt");
    let listed = Command::new(SLABYARD).arg("list").arg(pasted).arg("--json").output().unwrap();
    let listed = parsed(&listed);
    let told = listed["caches"].as_array().unwrap().iter();
    let told = told.clone().find(|cache| cache["name"] == "ebitmap_node").unwrap();
    let (foretold, told) = (cache["slabs"].as_f64().unwrap(), told["slabs"].as_f64().unwrap());
    assert!((foretold - told).abs() * 100.0 <= told, "{foretold} of {told}");
    for (file, args, code, says) in [
        ("ebitmap-node.txt", &["--release", "6.12", "--set", "max_order=0"][..], 2, "give --cpus"),
        ("ebitmap-node.txt", &["--cpus", "8"], 2, "say which with --release"),
        ("kmalloc-2048-oom.txt", &["--cpus", "8"], 3, "it tells no sizes and numbers of slabs"),
        ("glibc-arenas.xml", &["--cpus", "8"], 3, "it tells no sizes"),
    ] {
        let output = boot(file, args);
        assert_eq!(output.status.code(), Some(code), "{file}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{file}: {}", text(&output.stderr));
    }
}
