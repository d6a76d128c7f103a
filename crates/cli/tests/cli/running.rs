//! The program runs as if it had been started directly.

use crate::skipped::skip;
use crate::stage::{Stage, real_engines, text};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

#[test]
fn the_exit_code_is_the_programs() {
    let Some(stage) = Stage::new() else { return };
    for code in [0, 1, 3, 7, 126, 255] {
        let output = stage.run(&[], &format!("exit {code}"));
        assert_eq!(output.status.code(), Some(code));
    }
    assert!(stage.is_clean());
}

#[test]
fn output_and_input_stay_byte_for_byte() {
    let Some(stage) = Stage::new() else { return };
    let bytes: Vec<u8> = (0..100_000u32).map(|n| (n * 7 % 256) as u8).collect();
    let mut command = stage.slabyard();
    command.args(["run", "--", "cat"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.stdout == bytes);
    assert!(text(&output.stderr).contains("malloc-96"));
}

#[test]
fn a_missing_program_gives_127_and_one_that_cannot_be_executed_126() {
    let Some(stage) = Stage::new() else { return };
    let file = stage.path("file");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let start = |program: &std::path::Path| {
        stage.slabyard().args(["run", "--"]).arg(program).output().unwrap()
    };
    for (path, code) in [(stage.path("none"), 127), (file, 126), (stage.path("tmp"), 126)] {
        let output = start(&path);
        assert_eq!(output.status.code(), Some(code), "{}", path.display());
        let message = text(&output.stderr);
        assert!(message.starts_with(&format!("slabyard: {}: ", path.display())), "{message}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(start("no-such-program-here".as_ref()).status.code(), Some(127));
    assert!(stage.is_clean());
}

#[test]
fn a_program_runs_where_no_temporary_file_can_be_made() {
    let Some(stage) = Stage::new() else { return };
    // Nobody makes a directory there, not even root.
    let mut command = stage.slabyard();
    command.env("TMPDIR", "/proc").args(["run", "--"]).arg(stage.program()).arg("echo ran; exit 9");
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(9), "ran\n"));
    let said = text(&output.stderr);
    assert!(
        said.contains("malloc-96") || said.contains("no report: nothing can be written"),
        "{said}"
    );
    let mut command = stage.slabyard();
    command.env("TMPDIR", "/nowhere/at/all").args(["run", "--", "sh", "-c", "exit 8"]);
    assert_eq!(command.output().unwrap().status.code(), Some(8));
}

#[test]
fn a_setting_of_an_engine_that_is_not_chosen_is_refused() {
    let Some(stage) = Stage::new() else { return };
    for (options, says) in [
        (&["--set", "reclaim=2.4"][..], "--engine slab"),
        (&["--set", "release=6.1"], "front=cpu-slabs"),
        (&["--engine", "tiny", "--set", "arrays=0"], "--engine slab"),
    ] {
        let output = stage.sh(options, "echo started");
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn settings_reach_the_program_and_the_last_one_counts() {
    let Some(stage) = Stage::new() else { return };
    let options = ["--set", "decay_ms=1", "--set", "decay_ms=100", "--set", "mode=slots"];
    let output = stage.sh(&options, "echo $SLABYARD_DECAY_MS $SLABYARD_MODE");
    assert_eq!(text(&output.stdout), "100 slots\n");
}

#[test]
fn the_engine_reaches_the_program_and_a_command_in_it() {
    let Some(stage) = Stage::new() else { return };
    let script = "echo [$SLABYARD_ENGINE]";
    assert_eq!(text(&stage.sh(&["--engine", "tiny"], script).stdout), "[tiny]\n");
    assert_eq!(text(&stage.sh(&[], script).stdout), "[]\n");
    // The command in it preloads the other library alone.
    let [malloc, engines] = ["malloc", "engines"].map(|name| {
        let library = stage.path(&format!("libslabyard_{name}.so"));
        std::fs::copy(stage.library(), &library).unwrap();
        library
    });
    let script = "\"$0\" run --report none -- sh -c 'echo $LD_PRELOAD $SLABYARD_ENGINE'";
    let mut command = stage.slabyard_on(&malloc);
    command.args(["run", "--report", "none", "--engine", "tiny", "--", "env"]);
    command.arg(format!("SLABYARD_LIB={}", engines.display()));
    let output = command.args(["sh", "-c", script, crate::stage::SLABYARD]).output().unwrap();
    assert_eq!(text(&output.stdout), format!("{} tiny\n", engines.display()));
}

#[test]
fn observable_is_asked_of_the_library() {
    let Some(stage) = Stage::new() else { return };
    let script = "echo [$SLABYARD_OBSERVABLE]";
    assert_eq!(text(&stage.sh(&["--observable"], script).stdout), "[1]\n");
    assert_eq!(text(&stage.sh(&[], script).stdout), "[]\n");
}

#[test]
fn a_helper_is_asked_of_the_library() {
    let Some(stage) = Stage::new() else { return };
    let script = "echo [$SLABYARD_HELPER]";
    assert_eq!(text(&stage.sh(&["--helper"], script).stdout), "[1]\n");
    assert_eq!(text(&stage.sh(&[], script).stdout), "[]\n");
}

#[test]
fn a_wrong_setting_is_refused_before_the_program_starts() {
    let Some(stage) = Stage::new() else { return };
    for (setting, hint) in [
        ("decay=1", "decay_ms"),
        ("decay_ms=soon", "0 to 3600000"),
        ("decay_ms=3600001", "0 to 3600000"),
        ("decay_ms", "KEY=VALUE"),
    ] {
        let output = stage.sh(&["--set", setting], "echo started");
        assert_eq!(output.status.code(), Some(2), "{setting}");
        assert!(text(&output.stderr).contains(hint), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_library_is_put_before_those_that_are_preloaded() {
    let Some(stage) = Stage::new() else { return };
    let other = stage.path("other.so");
    std::fs::copy(stage.library(), &other).unwrap();
    let mut command = stage.slabyard();
    command.env("LD_PRELOAD", &other);
    let output = command.args(["run", "--", "sh", "-c", "echo $LD_PRELOAD"]).output().unwrap();
    let want = format!("{}:{}\n", stage.library().display(), other.display());
    assert_eq!(text(&output.stdout), want);
}

#[test]
fn the_signal_mask_and_ignored_signals_are_those_given() {
    let Some(stage) = Stage::new() else { return };
    let mut direct = Command::new("sh");
    stage.surround(&mut direct);
    let script = "trap '' USR1; exec \"$@\" grep -E '^Sig(Blk|Ign)' /proc/self/status";
    let direct = direct.args(["-c", script, "sh", "env"]).output().unwrap();
    let mut through = Command::new("sh");
    stage.surround(&mut through);
    through.args(["-c", script, "sh", crate::stage::SLABYARD, "run", "--"]);
    let through = through.output().unwrap();
    assert!(!direct.stdout.is_empty());
    assert_eq!(text(&through.stdout), text(&direct.stdout));
}

#[test]
fn an_ignored_sigchld_does_not_lose_the_exit_code() {
    let Some(stage) = Stage::new() else { return };
    let mut command = Command::new("env");
    stage.surround(&mut command);
    command.args(["--ignore-signal=CHLD", crate::stage::SLABYARD, "run", "--"]);
    let output = command.args(["sh", "-c", "exit 5"]).output().unwrap();
    if text(&output.stderr).contains("unrecognized option") {
        skip("this env cannot ignore signals");
        return;
    }
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
}

#[test]
fn death_by_a_signal_is_passed_on() {
    let Some(stage) = Stage::new() else { return };
    for (name, signal) in [("SEGV", 11), ("KILL", 9), ("TERM", 15), ("PIPE", 13), ("40", 40)] {
        let output = stage.sh(&[], &format!("kill -{name} $$"));
        assert_eq!(output.status.signal(), Some(signal), "{name}: {}", output.status);
        assert!(text(&output.stderr).contains("no report: sh"), "{}", text(&output.stderr));
    }
    assert!(stage.is_clean());
}

#[test]
fn only_the_program_dumps_a_core() {
    let Some(stage) = Stage::new() else { return };
    let mut command = Command::new("sh");
    stage.surround(&mut command);
    // Where a hard limit forbids cores there is none to see, and none is made.
    let script = "ulimit -c unlimited 2>/dev/null; exec \"$@\" sh -c 'kill -SEGV $$'";
    command.args(["-c", script, "sh", crate::stage::SLABYARD, "run", "--"]);
    let output = command.current_dir(stage.directory.path()).output().unwrap();
    assert_eq!(output.status.signal(), Some(11));
    assert!(!output.status.core_dumped());
}

#[test]
fn cpu_slabs_of_any_release_serve_and_their_slow_paths_are_counted() {
    let Some(stage) = Stage::new() else { return };
    for release in ["5.9", "5.16", "6.1", "6.8", "6.18"] {
        let release = format!("release={release}");
        let mut run = stage.slabyard_on(crate::stage::real_engines());
        run.args(["run", "--set", "front=cpu-slabs", "--set", &release, "--set", "count=1"]);
        run.args(["--set", "verify_at_exit=1", "--report", "json", "--", "ls", "/"]);
        let output = run.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        let caches = report["caches"].as_array().unwrap();
        let count = |name: &str| caches.iter().filter_map(|it| it[name].as_u64()).sum::<u64>();
        let [slow, slabs, held] = ["alloc_slowpath", "alloc_slab", "sheaf_capacity"].map(count);
        assert!(slow >= slabs && slabs > 0 && held == 0, "{slow} {slabs} {held}");
    }
}

/// A watch is refused before the program starts, or its counts are in the report.
#[test]
fn a_watch_of_memory_pressure_is_reported() {
    let Some(stage) = Stage::new() else { return };
    for wrong in ["", "swap", "cgroup:0%", "psi:some 2000000 1000000", "psi,psi"] {
        let output = stage.sh(&["--pressure", wrong], "echo ran");
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(output.stdout.is_empty() && text(&output.stderr).contains("psi[:some"), "{wrong}");
    }
    let mut command = stage.slabyard_on(real_engines());
    let options = ["run", "--pressure", "psi,cgroup:64G", "--report", "json", "--"];
    // A child of a fork has a watch of its own, and a pipe ends where its last writer closes it.
    let script = "read -r line <<END\n$(echo inside | cat)\nEND\necho $line; exec env true";
    let output = command.args(options).args(["sh", "-c", script]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "inside\n"));
    // What the system refuses here is said in front of the report.
    let said = text(&output.stderr);
    let begin = said.find("\n{").map_or(0, |at| at + 1);
    let report: serde_json::Value = serde_json::from_str(&said[begin..]).expect(said);
    let drains = &report["totals"]["pressure_drains"];
    assert!(drains.is_u64() || drains["value"].is_u64(), "{report}");
}
