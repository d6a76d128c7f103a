//! `slabyard replay --contention`.

use crate::stage::text;
use crate::traces::{ends, parsed, tiny};
use serde_json::Value;

#[test]
fn each_number_of_cpus_has_its_counts_eager_and_delayed() {
    let json = parsed(&tiny().replay(&["--contention=2,8", "--json"]), 0);
    let rows = json["rows"].as_array().expect("rows");
    let heads: Vec<(u64, u64, &str)> = rows
        .iter()
        .map(|row| {
            let number = |key: &str| row[key].as_u64().expect("a number");
            (number("cpus"), number("tasks"), row["freezing"].as_str().expect("a word"))
        })
        .collect();
    assert_eq!(heads, [(2, 1, "eager"), (2, 1, "delayed"), (8, 4, "eager"), (8, 4, "delayed")]);
    assert!(rows.iter().all(|row| row["exchanges"].as_u64() > Some(0)));
    assert_eq!(json["costs"]["exchange_moved"], 28);
    let one = parsed(&tiny().replay(&["--contention", "--set", "freezing=eager", "--json"]), 0);
    assert_eq!(one["rows"], Value::Array(vec![rows[0].clone()]));
    let longer = ["--contention=2", "--cost", "fast=1000", "--json"];
    let longer = parsed(&tiny().replay(&longer), 0);
    assert!(longer["rows"][0]["call_ns"].as_u64() > rows[0]["call_ns"].as_u64().map(|ns| 10 * ns));
    let shown = tiny().replay(&["--contention", "--release", "7.1"]);
    ends(&shown, 0, "found beside the trace");
    let shown = text(&shown.stdout);
    assert!(shown.contains("list locks") && !shown.contains("eager"), "{shown}");
}

#[test]
fn what_is_no_number_or_cost_is_told() {
    for (options, told) in [
        (&["--contention=0"][..], "give numbers of CPUs from 1 to 1024"),
        (&["--contention=2,x"], "give numbers of CPUs from 1 to 1024"),
        (&["--contention", "--cost", "speed=3"], "names: fast, slow, exchange"),
        (&["--contention", "--cost", "fast"], "give NAME=NANOSECONDS"),
        (&["--cost", "fast=3"], "--contention"),
        (&["--contention", "--check"], "--check"),
        (&["--contention", "--engine", "slab"], "leave out --engine slab"),
    ] {
        ends(&tiny().replay(options), 2, told);
    }
}
