//! `slabyard reproduce`: what mail threads measured, with ours beside it. The rows themselves are
//! tested where they are (`slabyard-ask`).

use crate::stage::{SLABYARD, text};
use serde_json::Value;
use std::process::{Command, Output};

fn reproduce(args: &[&str]) -> Output {
    Command::new(SLABYARD).arg("reproduce").args(args).output().unwrap()
}

#[test]
fn a_table_is_found_by_its_name_and_shows_both_numbers() {
    let output = reproduce(&["64k.task_struct"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let row = shown.lines().find(|line| line.starts_with("objects of max 3")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[4..], ["53", "53", "+0", "%", "yes", "formula", "5.9"], "{row}");
    assert!(shown.contains("in the thread itself:"), "its inconsistencies: {shown}");
    assert!(!shown.contains("64k.boot"), "one table alone: {shown}");
}

#[test]
fn json_has_the_rows_of_the_tables_that_were_named_once() {
    let output = reproduce(&["slob.kernels", "slob.kernels", "lists.cases", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let threads = json["threads"].as_array().unwrap();
    let names: Vec<&str> = threads.iter().map(|thread| thread["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["slob", "lists"]);
    let rows = threads[0]["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert_eq!((&row["ours"], &row["basis"]["kind"]), (&0.0.into(), &"guest".into()), "{row}");
        assert_eq!(row["near"]["holds"], true, "{row}");
    }
}

#[test]
fn what_there_is_can_be_listed_and_what_is_not_is_named() {
    let listed = reproduce(&["--list"]);
    let listed = text(&listed.stdout);
    for name in
        ["64k.max_order", "reap.loop", "freezing.leak", "slob.fork", "lists.oom", "sheaves.fork"]
    {
        assert!(listed.contains(name), "{name} in {listed}");
    }
    let output = reproduce(&["64k.nothing"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("`64k.nothing`") && said.contains("64k.max_order"), "{said}");
}
