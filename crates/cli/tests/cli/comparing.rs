//! `slabyard compare`: programs, servers and traces, on contenders that really differ.

use crate::skipped::skip;
use crate::stage::{SLABYARD, Stage, real_engines, text};
use crate::traces::tiny;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Makes and frees some thousands of objects, and ends by `exit`.
const PERL: &str = "my %h; for (1..20000) { $h{$_ % 3000} = 'x' x ($_ % 300) } exit 0";

fn compare(stage: &Stage, args: &[&str]) -> Output {
    stage.slabyard().arg("compare").args(args).output().unwrap()
}

/// True once the process has ended, though nobody may have waited for it: one that was killed
/// takes a moment.
fn is_gone(pid: &str) -> bool {
    let ended = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
    };
    let begun = Instant::now();
    while !ended() && begun.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(10));
    }
    ended()
}

#[track_caller]
fn ends(output: &Output, code: i32) -> &str {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}{}", text(&output.stdout));
    said
}

#[track_caller]
fn parsed(output: &Output, code: i32) -> Value {
    ends(output, code);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn named<'a>(root: &'a Value, name: &str) -> &'a Value {
    let all = root["contenders"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}: {root}"))
}

fn median(of: &Value, key: &str) -> f64 {
    of[key]["median"].as_f64().unwrap_or_else(|| panic!("no {key}: {of}"))
}

/// On the real engines, of which one takes the slow path with every call. The round that counts
/// is not the first, so that contenders have changed places in it.
#[test]
fn counts_and_memory_are_those_of_the_contender_that_they_stand_with() {
    let Some(stage) = Stage::new() else { return };
    if Command::new("perl").arg("-v").output().is_err() {
        return skip("counts of a real program: there is no perl");
    }
    let run = |more: &[&str]| {
        let mut command = stage.slabyard_on(real_engines());
        command.args(["compare", "--rounds", "2", "--warmup", "2"]);
        command.args(["--with", "slub", "--with", "system", "--with", "tiny", "--with"]);
        // Whose first engine is slub, by its path: another build, perhaps.
        command.arg(real_engines()).args(more);
        command.args(["--", "perl", "-e", PERL]).output().unwrap()
    };
    let root = parsed(&run(&["--json"]), 0);
    let [slub, system, tiny] = ["slub", "system", "tiny"].map(|name| named(&root, name));
    assert!(median(tiny, "slow_paths") > 15_000.0, "{tiny}");
    assert!(median(slub, "slow_paths") < median(tiny, "slow_paths") / 4.0, "{slub}");
    assert!(median(slub, "moved_objects") > 0.0 && median(tiny, "moved_objects") == 0.0);
    assert!(median(tiny, "list_locks") > median(slub, "list_locks"));
    assert_eq!(median(tiny, "exchanges_failed"), 0.0, "one thread");
    assert_eq!(slub["counters"]["sheaf_refill"].as_u64().map(|n| n > 0), Some(true));
    for one in [slub, system, tiny] {
        assert_eq!(one["time_s"]["samples"].as_array().unwrap().len(), 2);
        assert!(median(one, "cpu_s") > 0.0 && median(one, "peak_bytes") > 1e6, "{one}");
        assert!(one["slabs"].is_null(), "no program has it");
    }
    for key in ["waste_bytes", "slow_paths", "list_locks", "exchanges", "counters"] {
        assert!(system.as_object().unwrap().contains_key(key) && system[key].is_null(), "{key}");
    }
    let by_path = named(&root, "libslabyard_engines.so");
    assert_eq!(median(by_path, "slow_paths"), median(slub, "slow_paths"), "{by_path}");
    let waste = median(slub, "waste_bytes");
    assert!(waste > 1e4 && waste < median(slub, "peak_bytes"), "{slub}");

    let output = run(&["--table"]);
    ends(&output, 0);
    let table = text(&output.stdout);
    let cells = |name: &str| -> Vec<&str> {
        let row = table.lines().find(|line| line.starts_with(&format!("{name} ")));
        row.unwrap_or_else(|| panic!("no {name}: {table}")).split_whitespace().collect()
    };
    // The last five: slow paths, moved, list locks, exchanges, failed.
    let slow = |name: &str| cells(name).iter().rev().nth(4).unwrap().parse::<u64>().unwrap();
    assert!(slow("tiny") > 4 * slow("slub"), "{table}");
    assert!(table.contains("\nsystem ") && cells("system").ends_with(&["-"; 6]), "{table}");
    assert!(!table.contains('\x1b') && stage.is_clean(), "{table}");
}

#[test]
fn times_are_those_of_the_contender_that_they_stand_with() {
    let Some(stage) = Stage::new() else { return };
    let script = "case $SLABYARD_ENGINE in tiny) sleep 1 ;; esac";
    let options = ["--rounds", "3", "--with", "system", "--with", "tiny", "--with", "slub"];
    let args = [&options[..], &["--json", "--no-counts", "--", "sh", "-c", script]].concat();
    let root = parsed(&compare(&stage, &args), 0);
    let fastest = |name: &str| {
        let samples = named(&root, name)["time_s"]["samples"].as_array().unwrap();
        samples.iter().map(|it| it.as_f64().unwrap()).fold(f64::INFINITY, f64::min)
    };
    assert!(fastest("tiny") >= 1.0, "{root}");
    // Of three rounds on a busy machine one may be slow.
    for name in ["slub", "system"] {
        assert!(fastest(name) < fastest("tiny"), "{root}");
    }
    assert!(named(&root, "tiny")["time_s"]["ratio"].as_f64() > Some(1.0), "{root}");
    assert_eq!(named(&root, "system")["time_s"]["ratio"], 1.0, "the first is what counts as 1");
    assert!(median(named(&root, "tiny"), "mean_bytes") > 1e5, "looked at while it slept");
    assert!(named(&root, "tiny")["slow_paths"].is_null(), "not counted");
}

/// The fake library leaves a known report.
#[test]
fn waste_is_what_is_held_and_not_live() {
    let Some(stage) = Stage::new() else { return };
    let mut command = stage.slabyard();
    command.args(["compare", "--rounds", "1", "--with", "slub", "--json", "--"]);
    let root = parsed(&command.arg(stage.program()).arg("true").output().unwrap(), 0);
    assert_eq!(median(named(&root, "slub"), "waste_bytes"), f64::from(4 * 4096 - 80 * 64));
    // Nothing in the report was counted, which is not 0.
    assert!(named(&root, "slub")["list_locks"].is_null(), "{root}");
}

#[test]
fn what_engines_are_told_comes_from_the_contender_alone() {
    let Some(stage) = Stage::new() else { return };
    let out = stage.path("out");
    std::fs::create_dir(&out).unwrap();
    let mut command = stage.slabyard();
    command.env("SLABYARD_FRONT", "mixed").env("SLABYARD_ENGINE", "tiny");
    command.env("SLABYARD_COUNT", "1").env("SLABYARD_DECAY_MS", "7");
    command.args(["compare", "--rounds", "1", "--with", "slub,front=cpu-slabs"]);
    command.args(["--with", "system", "--output"]).arg(&out).args(["--", "env"]);
    ends(&command.output().unwrap(), 0);
    let printed = |run: &str| -> Vec<String> {
        let variables = std::fs::read_to_string(out.join(run)).unwrap();
        let told = ["ENGINE", "FRONT", "COUNT", "DECAY_MS"].map(|it| format!("SLABYARD_{it}="));
        let is_told = |line: &&str| told.iter().any(|it| line.starts_with(it));
        let mut lines: Vec<_> = variables.lines().filter(is_told).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let [count, decay, engine, front] = [
        "SLABYARD_COUNT=1",
        "SLABYARD_DECAY_MS=7",
        "SLABYARD_ENGINE=slub",
        "SLABYARD_FRONT=cpu-slabs",
    ];
    assert_eq!(printed("slub,front=cpu-slabs-round 1.out"), [decay, engine, front]);
    assert_eq!(printed("slub,front=cpu-slabs-untimed round 1.out"), [count, decay, engine, front]);
    assert_eq!(printed("system-round 1.out"), [decay]);
}

#[test]
fn a_program_that_fails_ends_the_comparison() {
    let Some(stage) = Stage::new() else { return };
    let script = "test \"$SLABYARD_ENGINE\" != tiny || { echo broken >&2; exit 7; }";
    let with = ["--with", "slub", "--with", "tiny"];
    let output = compare(&stage, &[&with[..], &["--", "sh", "-c", script]].concat());
    let said = ends(&output, 3);
    for part in ["tiny, untimed round 1: sh ended with exit code 7", "\n  broken\n"] {
        assert!(said.contains(part), "no {part:?}: {said}");
    }
    assert!(output.stdout.is_empty() && stage.is_clean());
    let killed = compare(&stage, &["--with", "system", "--", "sh", "-c", "kill -SEGV $$"]);
    assert!(ends(&killed, 3).contains("sh ended by SIGSEGV, and said nothing"));
    let absent = compare(&stage, &["--with", "system", "--", "./absent"]);
    assert!(ends(&absent, 127).contains("./absent: "));
    let failing = ["--with", "system", "--setup", "exit 9", "--", "true"];
    assert!(ends(&compare(&stage, &failing), 3).contains("--setup ended with exit code 9"));
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_runs() {
    let Some(stage) = Stage::new() else { return };
    let files = tiny();
    let trace = files.trace();
    let ran = stage.path("ran");
    let program = ["--", "touch", ran.to_str().unwrap()];
    for (args, says) in [
        (&["--with", "slup"][..], "no contender `slup`: slub, tiny"),
        (&["--with", "slub", "--with", "slub"], "there twice"),
        (&["--with", "./absent.so"], "no such file"),
        (&["--start", "x"], "cannot be used with"),
        (&["--ready", "true"], "--client"),
        (&["--rounds", "0"], "0 is not in"),
        (&[&trace], "cannot be used with"),
    ] {
        let output = compare(&stage, &[args, &program].concat());
        let said = ends(&output, 2);
        assert!(said.contains(says), "{args:?}: {said}");
    }
    for (args, says) in [
        (&["--with", "slub"][..], "`slub`"),
        (&["--with", "6.1,tiny=1"], "tiny came with 6.2"),
        (&["--with", "6.1,colour=blue"], "unknown key `colour`"),
        (&["--with", "6.1,exact"], "`exact` is no KEY=VALUE"),
        (&["--client", "true"], "cannot be used with"),
    ] {
        let output = compare(&stage, &[args, &[&trace]].concat());
        let said = ends(&output, 2);
        assert!(said.contains(says), "{args:?}: {said}");
    }
    assert!(ends(&compare(&stage, &["true"]), 3).contains("a program stands behind `--`"));
    assert!(ends(&compare(&stage, &[]), 2).contains("required"));
    assert!(!ran.exists());
}

#[test]
fn a_server_is_ready_timed_by_its_client_and_ended() {
    let Some(stage) = Stage::new() else { return };
    let log = stage.path("log");
    let at = |name: &str| stage.path(name).to_str().unwrap().to_owned();
    let server = format!(
        "sleep 0.3; touch {0}; trap 'echo end >>{1}; exit 0' TERM; while :; do sleep 0.02; done",
        at("up"),
        at("log")
    );
    let setup = format!("echo setup >>{}", at("log"));
    let cleanup = format!("rm {}; echo cleanup >>{}", at("up"), at("log"));
    let client = format!("test -e {} && echo client >>{} && sleep 0.1", at("up"), at("log"));
    let ready = format!("test -e {}", at("up"));
    let args = [
        "--rounds",
        "2",
        "--with",
        "system",
        "--json",
        "--setup",
        &setup,
        "--cleanup",
        &cleanup,
        "--ready",
        &ready,
        "--client",
        &client,
        "--",
        "sh",
        "-c",
        &server,
    ];
    let root = parsed(&compare(&stage, &args), 0);
    let times = named(&root, "system")["time_s"]["samples"].as_array().unwrap().clone();
    assert!(times.iter().all(|s| s.as_f64() >= Some(0.1)), "{root}");
    let written = std::fs::read_to_string(&log).unwrap();
    assert_eq!(written, "setup\nclient\nend\ncleanup\n".repeat(3), "an untimed round and two");

    let dies = ["--client", "sleep 0.2", "--with", "system", "--", "sh", "-c", "exit 4"];
    let output = compare(&stage, &dies);
    assert!(ends(&output, 3).contains("under its client, ended with exit code 4"));
    let fails = ["--client", "echo no >&2; exit 5", "--with", "system", "--", "sleep", "60"];
    let output = compare(&stage, &fails);
    let said = ends(&output, 3);
    assert!(
        said.contains("the client ended with exit code 5") && said.contains("\n  no"),
        "{said}"
    );
    let never = ["--client", "true", "--ready", "false", "--timeout", "0.2", "--with", "system"];
    let output = compare(&stage, &[&never[..], &["--", "sleep", "60"]].concat());
    assert!(ends(&output, 3).contains("`false` did not succeed within 0.2 s"));
}

#[test]
fn a_server_that_ignores_sigterm_is_killed_and_that_is_told() {
    let Some(stage) = Stage::new() else { return };
    let pids = stage.path("pids");
    let server =
        format!("trap '' TERM; echo $$ >>{}; while :; do sleep 0.02; done", pids.display());
    let ready = format!("test -s {}", pids.display());
    let args = [
        "--rounds",
        "1",
        "--timeout",
        "3",
        "--with",
        "system",
        "--client",
        "true",
        "--ready",
        &ready,
        "--",
        "sh",
        "-c",
        &server,
    ];
    let output = compare(&stage, &args);
    let said = ends(&output, 1);
    let tells = "system: sh did not end within 3 s after SIGTERM, and was ended by SIGKILL";
    assert!(said.contains(tells) && text(&output.stdout).contains(tells), "{said}");
    assert!(std::fs::read_to_string(&pids).unwrap().lines().all(is_gone));
}

#[test]
fn what_stops_us_ends_the_program_first() {
    let Some(stage) = Stage::new() else { return };
    let pid = stage.path("pid");
    let script = "sleep 60 & echo $$ $! >pid.part; mv pid.part pid; wait";
    let mut command = stage.slabyard();
    command.current_dir(stage.directory.path());
    command.args(["compare", "--with", "system", "--", "sh", "-c", script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !pid.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = ends(&output, 130);
    assert!(said.contains("stopped by SIGINT; what was running was ended"), "{said}");
    assert!(output.stdout.is_empty() && stage.is_clean());
    let both = std::fs::read_to_string(&pid).unwrap();
    assert!(both.split_whitespace().all(is_gone), "{both}");
}

#[test]
fn a_contender_that_did_not_serve_is_told() {
    let Some(stage) = Stage::new() else { return };
    let Some(program) = stage.static_ends() else { return };
    let mut command = stage.slabyard();
    command.args(["compare", "--rounds", "1", "--with", "system", "--with", "slub", "--"]);
    let output = command.arg(program).args(["9", "main-first"]).output().unwrap();
    let said = ends(&output, 1);
    assert!(said.contains("slub: ") && said.contains("was not on Slabyard"), "{said}");
    assert!(!said.contains("system: "), "{said}");
}

#[test]
fn a_trace_is_compared_under_each_preset() {
    let files = tiny();
    let run = |args: &[&str]| {
        let mut command = Command::new(SLABYARD);
        command.arg("compare").arg(files.trace()).args(args).output().unwrap()
    };
    let output = run(&["--json"]);
    let root = parsed(&output, 0);
    let names: Vec<&str> = root["contenders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    for name in ["5.9", "6.1", "6.18", "7.1", "tiny"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let root = parsed(
        &run(&["--json", "--with", "6.12", "--with", "6.12,cpu_partial_lists=0,min_partial=0"]),
        0,
    );
    let one = |nth: usize| &root["contenders"][nth];
    // As `slabyard replay` says of this trace.
    assert_eq!((median(one(0), "slabs"), median(one(0), "peak_bytes")), (3.0, 3.0 * 4096.0));
    assert_eq!(one(1)["set"][1], "min_partial=0");
    let replayed = files.replay(&["--json", "--release", "6.12"]);
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    let counter = |name: &str| replayed["counters"][name].as_f64().unwrap();
    assert_eq!(median(one(0), "slow_paths"), counter("alloc_slowpath") + counter("free_slowpath"));
    assert_eq!(median(one(0), "list_locks"), counter("list_lock"));
    // All objects of the trace are live at one moment, when slabs are most.
    let live = 3.0 * 21.0 * 192.0;
    let waste = 3.0 * 4096.0 - live;
    assert_eq!(median(one(0), "waste_bytes"), waste);
    // Of these two, one keeps its empty slabs and the other gives them back.
    assert!(median(one(1), "mean_bytes") < median(one(0), "mean_bytes"), "{root}");
    assert!(one(0)["exchanges_failed"].is_null() && one(0)["cpu_s"].is_null(), "no model has it");
    // The replay's own time is told to those who ask.
    assert!(one(0)["time_s"].is_null(), "{root}");
    let timed = parsed(&run(&["--json", "--time", "--rounds", "2", "--with", "6.12"]), 0);
    assert_eq!(timed["contenders"][0]["time_s"]["samples"].as_array().unwrap().len(), 2);
    let table = run(&["--with", "6.12", "--with", "tiny"]);
    ends(&table, 0);
    let table = text(&table.stdout);
    assert!(table.starts_with("129 events of ") && table.contains("\n6.12 "), "{table}");
    assert!(table.contains("\ncontender  ") && !table.contains(" time "), "{table}");
    assert!(table.contains("slabs  slow paths") && !table.contains("failed"), "{table}");
}
