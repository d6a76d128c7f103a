use super::*;
use crate::raw::SuiteResults;
use serde_json::value::RawValue;

const MADE: &str = r#""machine": {"cpu": "A CPU", "cpus": [0, 1], "kernel": "6.18", "thp": "madvise",
    "compiler": "cc 12", "settings": []},
    "allocators": [{"name": "ours", "version": "0.1"}, {"name": "glibc", "version": "2.36"}],
    "absent": [{"name": "snmalloc", "why": "not built"}]"#;

pub fn goal(name: &str, measured: &str, limit: &str, met: bool) -> Goal {
    Goal { name: name.into(), measured: measured.into(), limit: limit.into(), met: Some(met) }
}

fn part(goals: Vec<Goal>, report: &str) -> SuiteResult {
    let report = Some(RawValue::from_string(format!("{{{MADE}, {report}}}")).unwrap());
    let (command, commit) = ("build\nmeasure".to_owned(), Some("abc1234 (2026-11-23)".to_owned()));
    SuiteResult { command, commit, text: "all of it".to_owned(), goals, report }
}

pub fn loads() -> SuiteResult {
    let means = r#"{"glibc": {"wall_us": {"value": 0.5, "low": 0.4, "high": 0.6, "loads": 1},
         "peak_kib": {"value": 0.9, "low": 0.8, "high": 1.1, "loads": 1}}}"#;
    let loss = |load, measure, value, low| {
        format!(
            r#"{{"load": "{load}", "measure": "{measure}", "best": "glibc", "why": null,
             "to_best": {{"value": {value}, "low": {low}, "high": 9}}, "second": null, "to_second": null}}"#
        )
    };
    let losses = [
        loss("cold", "wall time", "1.373", "1.3"),
        loss("strings", "wall time", "1.15", "0.9"),
        loss("tree", "wall time", "1.05", "1.02"),
        loss("absent", "peak RSS", "1.5", "1.4"),
        loss("missing", "peak RSS", "1.3", "1.2"),
    ];
    let report = format!(
        r#""rounds": 3, "settings": [{{"thp": "madvise", "means": {means}, "losses": [{}], "failures":
         [{{"load": "web", "allocator": "glibc", "round": 1, "why": "exit 1"}}],
         "loads": [{{"name": "cold"}}, {{"name": "web"}}]}}]"#,
        losses.join(", ")
    );
    let goals = vec![
        goal(
            "madvise: wall time to snmalloc's, mean",
            "0.800 (0.7 to 0.9), 24 loads",
            "<= 0.95",
            true,
        ),
        goal(
            "madvise: wall time to mimalloc's, mean",
            "0.801 (0.7 to 0.9), 24 loads",
            "<= 0.95",
            true,
        ),
        goal(
            "always: wall time to mimalloc's, mean",
            "0.951 (0.9 to 1.0), 24 loads",
            "<= 0.95",
            false,
        ),
        goal("madvise: wall time, worst load", "1.103 (a, b); 0 of 24 above", "<= 1.15", true),
        goal("always: wall time, worst load", "1.125 (c, d); 0 of 24 above", "<= 1.15", true),
        goal("p99.9 of free to mimalloc's, threads: 1", "1.060 (0.9 to 1.1)", "<= 1.10", true),
        goal("p99.9 of free to mimalloc's, threads: 4", "0.694 (0.6 to 0.7)", "<= 1.10", true),
    ];
    part(goals, &report)
}

fn others() -> SuiteResults {
    let programs = r#""rounds": 5, "means": {"glibc": {"wall_us": {"value": 0.991, "low": 0.9, "high": 1.1,
        "loads": 1}}}, "losses": [], "failures": [], "loads": [{"name": "lua"}]"#;
    let run = |resident| {
        format!(
            r#"[{{"peak_kib": 204800, "page_kib": 4, "moments": [{{"at": "1000", "rss_kib": 2048,
             "lazy_kib": 0, "empty": 100, "resident": {resident}}}]}}]"#
        )
    };
    let rest = format!(
        r#""rounds": 1, "parts": [{{"objects": 300, "large": 1, "after": "pairs", "runs": [{}, {}]}}]"#,
        run(9),
        run(100)
    );
    let times = r#"{"count": 1, "percentiles": [1, 2, 3333, 4], "max": 5}"#;
    let timed = format!(r#"[{{"empty": {times}, "malloc": {times}, "free": {times}}}]"#);
    let fifo = timed.replace("3333", "7777");
    let latency = format!(
        r#""rounds": 1, "pairs": 800, "parts": [{{"clock": "thread", "threads": 1, "runs": [{timed}, {timed}]}},
         {{"clock": "tsc", "threads": 4, "runs": []}}, {{"clock": "fifo", "threads": 4, "runs": [{fifo}, {fifo}]}}]"#
    );
    let instructions = r#""valgrind": "valgrind-3", "instructions_per_pair": [51.01, 139]"#;
    let handed = r#""rounds": 3, "rest_ms": 3000, "losses": [], "failures": [], "loads": [{"name": "one_2"}],
        "means": {"glibc": {"wall_us": {"value": 0.75, "low": 0.7, "high": 0.8}}},
        "rested": [{"load": "one_2", "readings": [{"at_once_kib": 1, "idle_kib": 2048, "trickled_kib": 1}, null]}],
        "lines": [{"load": "lines_passive", "runs": [[{"lines": 90, "shared": 60, "apart": 30,
            "alone_ps": 400, "together_ps": 1200}], []]}]"#;
    [
        ("programs", programs),
        ("rest", &rest),
        ("latency", &latency),
        ("handed", handed),
        ("instructions", instructions),
    ]
    .map(|(name, report)| (name.to_owned(), part(Vec::new(), report)))
    .into()
}

fn cells(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn page_has_machine_commands_results_and_losses() {
    let mut parts = others();
    parts.insert("compare".to_owned(), loads());
    let page = page(&ResultsFile::new(parts)).unwrap();
    let cells = cells(&page);
    for words in [
        "A CPU, 2 CPUs, Linux 6.18, cc 12.",
        "ours 0.1, glibc 2.36.",
        "build measure # at abc1234 (2026-11-23) ```",
        "| glibc | 0.500 (0.400 to 0.600) | 0.900 (0.800 to 1.100) |",
        "`web` did not finish on glibc, and its means exclude it: exit 1.",
        "wall time, `madvise`: glibc: `cold` 1.373; 2 below 1.1 or whose interval contains 1 - peak RSS, `madvise`: glibc: `absent` 1.500, `missing` 1.300",
        "- `cold`, wall time: the C library is loaded anyway",
        "- `absent`, `missing`, peak RSS: not explained yet",
        "they are 0.991 and - to glibc.",
        "lua; 5 rounds",
        "| ours | 91.0 % |",
        "| glibc | 3333 | 3333 | 7777 | 7777 |",
        "SCHED_FIFO: of a thread beside 3 normal ones on its CPU",
        "1 loads hand objects from thread to thread",
        "| ours | - | - | - | 2.0 | 33% | 3.00 |",
        "| glibc | 0.750 | - | - | failed | failed | failed |",
        "ours 51.0, glibc 139.0. Left out: snmalloc.",
    ] {
        assert!(cells.contains(words), "{words} is not in\n{page}");
    }
    assert_eq!(page.matches("\nmeasure  #").count(), 1, "a command stands there once\n{page}");
}

#[test]
fn goals_that_differ_by_peer_or_setting_are_one_row_with_the_worst() {
    let parts = SuiteResults::from([("compare".to_owned(), loads())]);
    let cells = cells(&page(&ResultsFile::new(parts)).unwrap());
    for row in [
        "| Loads: wall time to each peer's, mean | <= 0.95 | 0.951 (0.9 to 1.0) | 1 of 3 |",
        "| Loads: wall time, worst load | <= 1.15 | 1.103 (a, b); 1.125 (c, d) | 0 of 2 |",
        "| Loads: p99.9 of free to mimalloc's | <= 1.10 | 1.060 (0.9 to 1.1); 0.694 (0.6 to 0.7) |",
        "## Goals 1 of 7 are missed or were not measured.",
    ] {
        assert!(cells.contains(row), "{row} is not in\n{cells}");
    }
    let mut met = loads();
    met.goals.retain(|goal| goal.met == Some(true));
    let page = page(&ResultsFile::new(SuiteResults::from([("compare".to_owned(), met)]))).unwrap();
    assert!(page.contains("All 6 are met.") && !page.contains("missed"), "{page}");
    let back = [
        goal("", "91.3 %", ">= 90.0 %", true),
        goal("", "90.1 %", ">= 90.0 %", true),
        goal("", "99.0 %", ">= 90.0 %", true),
    ];
    assert_eq!(worst(&back.iter().collect::<Vec<_>>()), "90.1 %", "the least where more is better");
}

#[test]
fn suite_that_was_left_out_says_why() {
    let none = SuiteResult { text: "skipped: none is there".into(), report: None, ..loads() };
    let page =
        page(&ResultsFile::new(SuiteResults::from([("programs".to_owned(), none)]))).unwrap();
    assert!(page.ends_with("## Real programs\n\nskipped: none is there\n"), "{page}");
}

#[test]
fn page_is_written_where_it_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let raw = directory.path().join("raw.json");
    let written = ResultsFile::new(SuiteResults::from([("compare".to_owned(), loads())]));
    fs::write(&raw, serde_json::to_string_pretty(&written).unwrap()).unwrap();
    let at = directory.path().to_owned();
    run(&PageOptions { raw: raw.clone(), write_docs: Some(at.clone()) }).unwrap();
    let text = fs::read_to_string(at.join("benchmarks.md")).unwrap();
    assert_eq!(text, page(&written).unwrap());
    fs::write(&raw, r#"{"format": 2, "suites": {}}"#).unwrap();
    let error = run(&PageOptions { raw, write_docs: None }).unwrap_err().to_string();
    assert!(error.contains("format 2"), "{error}");
}
