//! `slabyard profile` and `run --profile`: what is known of a program's sites, and other programs
//! that read the files.

use crate::skipped::skip;
use crate::stage::{SLABYARD, Stage, text};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program of the test, and the library; `None`, said aloud, where there is neither.
fn prepared(stage: &Stage) -> Option<(PathBuf, PathBuf)> {
    let library = Path::new(SLABYARD).with_file_name("libslabyard_malloc.so");
    if !library.exists() {
        skip("profiles: libslabyard_malloc.so is not built beside the command");
        return None;
    }
    let program = stage.path("profiled");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/profiled.c");
    let compiled = Command::new("cc")
        .args(["-O2", "-fno-builtin"])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(compiled.expect("cc").success());
    Some((program, library))
}

/// Bytes of each function by `go tool pprof`; `None`, said aloud, where it is not installed.
fn by_pprof(file: &Path, index: &str) -> Option<Vec<(String, f64)>> {
    let mut go = Command::new("go");
    go.args(["tool", "pprof", "-top", "-nodecount=100", "-unit=B"]);
    go.arg(format!("-sample_index={index}")).arg(file);
    let done = go.output().ok().filter(|done| done.status.success());
    let Some(done) = done else {
        skip("go tool pprof does not run");
        return None;
    };
    // flat flat% sum% cum cum% function
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let bytes = words.first()?.strip_suffix('B')?.parse().ok()?;
        Some(((*words.get(5)?).to_owned(), bytes))
    };
    Some(text(&done.stdout).lines().filter_map(line).collect())
}

fn is_near(have: f64, want: f64) -> bool {
    (have / want - 1.0).abs() < 0.3
}

/// 12 MB of each site.
const ROUNDS: &str = "60";
/// So that it takes more than a second: there are so many samples in one at most.
const PAUSE: &str = "20000";
const BYTES: f64 = 12e6;

#[test]
fn a_program_is_profiled_from_its_start_to_its_end() {
    let Some(stage) = Stage::new() else { return };
    let Some((program, library)) = prepared(&stage) else { return };
    let file = stage.path("heap.pb.gz");
    for (report, code) in [("none", 0), ("table", 7)] {
        let mut run = stage.slabyard_on(&library);
        run.args(["run", "--report", report, "--set", "profile=16K", "--profile"]).arg(&file);
        let done =
            run.arg("--").arg(&program).args([ROUNDS, PAUSE, &code.to_string()]).output().unwrap();
        assert_eq!(done.status.code(), Some(code), "{}", text(&done.stderr));
        assert!(text(&done.stderr).contains("samples"), "{}", text(&done.stderr));
        assert_eq!(text(&done.stderr).contains("malloc-"), report == "table");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        let other = stage.path("other");
        std::fs::write(&other, "").unwrap();
        assert_eq!(mode(&file), mode(&other));
        let Some(sites) = by_pprof(&file, "alloc_space") else { return };
        for site in ["site_small", "site_large"] {
            let bytes =
                sites.iter().find(|(name, _)| name == site).map_or(0.0, |(_, bytes)| *bytes);
            assert!(is_near(bytes, BYTES), "{site}: {sites:?}");
        }
        let live = by_pprof(&file, "inuse_space").unwrap();
        let live = live.iter().find(|(name, _)| name == "site_large").map_or(0.0, |it| it.1);
        assert!(is_near(live, BYTES), "{live}");
    }
}

fn profile(pid: &str, options: &[&str]) -> Output {
    let mut command = Command::new(SLABYARD);
    command.args(["profile", pid]).args(options).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_running_process_is_profiled_for_a_while() {
    let Some(stage) = Stage::new() else { return };
    let Some((program, library)) = prepared(&stage) else { return };
    let mut child = Command::new(&program)
        .args(["100000", "1000"])
        .env("LD_PRELOAD", &library)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = child.id().to_string();
    let stacks = stage.path("stacks.txt");
    let stacks_name = stacks.display().to_string();
    let at_rate = |rate| {
        let options = ["--seconds", "0.5", "--json", "--collapsed", &stacks_name, "--rate", rate];
        profile(&pid, &options)
    };
    let mut done = at_rate("16K");
    if done.status.code() == Some(1) && text(&done.stderr).contains("samples") {
        // A slow machine loses some of so many, as it says.
        done = at_rate("256K");
    }
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let sum = |function: &str, key: &str| -> f64 {
        let sites = found["sites"].as_array().unwrap().iter();
        let of = sites.filter(|site| site["frames"][0]["function"] == function);
        of.map(|site| site[key].as_f64().unwrap()).sum()
    };
    // As many bytes of each; of the small ones a tenth lives, and all of the large ones.
    let small = sum("site_small", "alloc_bytes");
    assert!(small > 1e6 && is_near(sum("site_large", "alloc_bytes"), small), "{found:#}");
    assert!(is_near(sum("site_large", "live_bytes"), small), "{found:#}");
    assert!(sum("site_small", "live_bytes") < small / 4.0, "{found:#}");

    let collapsed = std::fs::read_to_string(&stacks).unwrap();
    let mut picture = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, collapsed.lines(), &mut picture).unwrap();
    let picture = String::from_utf8(picture).unwrap();
    assert!(picture.contains("<title>site_large"), "{collapsed}");

    let table = profile(&pid, &["--seconds", "0.2", "--sites", "1"]);
    assert!(text(&table.stdout).contains("lifetime"), "{}", text(&table.stdout));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_cannot_be_profiled_is_said() {
    let me = std::process::id().to_string();
    for (args, code) in [
        (&["kernel"][..], 3),
        (&[me.as_str()], 3),
        (&[me.as_str(), "--rate", "1"], 2),
        (&[me.as_str(), "--seconds", "x"], 2),
        (&[me.as_str(), "-o", "-"], 2),
    ] {
        let done = profile(args[0], &args[1..]);
        assert_eq!(done.status.code(), Some(code), "{args:?}: {}", text(&done.stderr));
        assert!(!done.stderr.is_empty() && done.stdout.is_empty(), "{args:?}");
    }
}
