//! The report at a program's end.

use crate::stage::{Stage, report, text};
use serde_json::Value;
use std::process::Stdio;

#[test]
fn the_table_goes_to_standard_error_with_plain_numbers() {
    let Some(stage) = Stage::new() else { return };
    let output = stage.run(&[], "echo out; echo err >&2");
    assert_eq!(text(&output.stdout), "out\n");
    let table = text(&output.stderr).strip_prefix("err\n").unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..5], ["name", "live", "parked", "total_objects", "slabs"]);
    let malloc_96 = ["malloc-96", "64", "0", "128", "2", "0", "0", "64", "64", "8192", "0.5000"];
    assert_eq!(rows[1], malloc_96);
    let malloc_64 = ["malloc-64", "16", "0", "64", "1", "0", "0", "64", "64", "4096", "0.2500"];
    assert_eq!(rows[2], malloc_64);
    assert_eq!(rows[3], ["total", "80", "0", "192", "3", "0", "12288", "0.4166"]);
    assert!(table.contains("1 cache without slabs is not shown\n"), "{table}");
    assert!(rows.contains(&vec!["committed", "16384", "1.0000"]), "{table}");
    assert!(rows.contains(&vec!["resident", "1048576"]), "{table}");
    assert!(!table.contains('\x1b'));
}

#[test]
fn a_file_takes_the_report_and_standard_error_stays_the_programs() {
    let Some(stage) = Stage::new() else { return };
    let file = stage.path("report.json");
    std::fs::write(&file, "x".repeat(100_000)).unwrap();
    let path = file.to_str().unwrap();
    let output = stage.run(&["--report", "json", "--report-file", path], "echo err >&2");
    assert_eq!(text(&output.stderr), "err\n");
    let value: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(value["source"], serde_json::json!({ "kind": "report", "pid": 4711 }));
    assert_eq!(value["caches"][2]["name"], "malloc-96");
    assert_eq!(value["caches"][2]["live"], 64);
    assert_eq!(value["totals"]["committed"], 16384);

    stage.run(&["--report-file", path], "");
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("name"), "a table by default");
}

#[test]
fn what_the_library_does_not_tell_is_null() {
    let Some(stage) = Stage::new() else { return };
    stage.leave(b"slabyard-report 1\nprocess pid=1\ncache malloc-8 live=1 later=x\nend 2\n");
    let output = stage.run(&["--report", "json"], "");
    let value: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(value["caches"][0]["live"], 1);
    assert_eq!(value["caches"][0]["slabs"], Value::Null);
    assert_eq!(value["totals"]["committed"], Value::Null);
}

#[test]
fn none_reports_nothing_and_asks_the_library_for_nothing() {
    let Some(stage) = Stage::new() else { return };
    let mut command = stage.slabyard();
    command.env("SLABYARD_REPORT", stage.path("stray")).args(["run", "--report", "none"]);
    let output = command.args(["--", "true"]).output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(!stage.path("stray").exists());
}

#[test]
fn none_and_a_file_do_not_go_together() {
    let Some(stage) = Stage::new() else { return };
    let path = stage.path("report");
    let options = ["--report", "none", "--report-file", path.to_str().unwrap()];
    let output = stage.run(&options, "echo started");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && !path.exists());
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_program_starts() {
    let Some(stage) = Stage::new() else { return };
    let path = stage.path("none/report");
    let output = stage.run(&["--report-file", path.to_str().unwrap()], "echo started");
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
    assert!(text(&output.stderr).contains(path.to_str().unwrap()));
}

#[test]
fn a_program_that_leaves_no_report_is_named() {
    let Some(stage) = Stage::new() else { return };
    // The stage's library does not say that it was there.
    let want = |program: &str| {
        format!(
            "slabyard: no report: {program} was not on Slabyard: it is statically linked or \
             set-user-id, changed its user, or LD_PRELOAD was taken from it\n"
        )
    };
    let output = stage.sh(&[], "exec env -u LD_PRELOAD sh -c 'exit 6'");
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(text(&output.stderr), want("sh"));

    stage.leave(b"");
    let output = stage.run(&[], "exit 7");
    assert_eq!(output.status.code(), Some(7));
    let program = stage.program().to_str().unwrap();
    assert_eq!(text(&output.stderr), want(program), "an empty file is none");
}

#[test]
fn a_report_that_lost_its_end_is_refused_with_its_line() {
    let Some(stage) = Stage::new() else { return };
    let whole = report();
    stage.leave(&whole.as_bytes()[..whole.len() - 1]);
    let output = stage.run(&[], "exit 4");
    assert_eq!(output.status.code(), Some(4));
    let want = "slabyard: the report cannot be read: line 7: the report is truncated\n";
    assert_eq!(text(&output.stderr), want);
}

#[test]
fn numbers_that_disagree_are_said() {
    let Some(stage) = Stage::new() else { return };
    stage.leave(report().replace("committed=16384", "committed=16385").as_bytes());
    let output = stage.run(&[], "");
    let message = text(&output.stderr);
    assert!(message.contains("all caches: the sum of the parts is 16384, not committed (16385)"));
    assert!(output.status.success());
}

#[test]
fn a_program_that_closes_its_standard_error_is_reported() {
    let Some(stage) = Stage::new() else { return };
    let mut command = stage.slabyard();
    command.args(["run", "--"]).arg(stage.program()).args(["echo out; exit 3", "close"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stdout), "out\n");
    assert!(text(&output.stderr).contains("malloc-96"));
}

#[test]
fn a_reader_that_went_away_changes_nothing() {
    let Some(stage) = Stage::new() else { return };
    for left in [report().into_bytes(), Vec::new()] {
        stage.leave(&left);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = stage.slabyard();
        command.args(["run", "--", "sh", "-c", "exit 9"]).stdout(Stdio::null());
        let status = command.stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(9));
    }
}
