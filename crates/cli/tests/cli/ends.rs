//! Each way in which a program ends, on the real library: its exit code or signal is the same as
//! without the library, and the report describes the last program that the process executed.

use crate::skipped::skip;
use crate::stage::{Stage, text};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output};

/// What a run left.
struct Left {
    output: Output,
    report: Option<Value>,
}

impl Left {
    fn of(stage: &Stage, command: &[&str]) -> Left {
        Left::by(stage, &mut stage.slabyard_on(crate::stage::real_library()), command)
    }

    fn by(stage: &Stage, slabyard: &mut Command, command: &[&str]) -> Left {
        let file = stage.path("report.json");
        slabyard.args(["run", "--report", "json", "--report-file"]).arg(&file).arg("--");
        let output = slabyard.args(command).output().unwrap();
        let report = std::fs::read(&file).unwrap();
        let report = (!report.is_empty()).then(|| serde_json::from_slice(&report).unwrap());
        assert!(stage.is_clean(), "{command:?}");
        Left { output, report }
    }

    fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn says(&self) -> &str {
        text(&self.output.stderr)
    }

    /// The mark of the program that the report is of: what it holds of 440 bytes, in tens.
    fn mark(&self) -> u64 {
        let report = self.report.as_ref().unwrap_or_else(|| panic!("no report: {}", self.says()));
        assert_eq!(report["source"]["kind"], "report");
        let caches = report["caches"].as_array().unwrap();
        let cache = caches.iter().find(|c| c["name"] == "malloc-448").unwrap();
        // Where others still ran it is a range.
        let live = cache["live"].as_u64().or(cache["live"]["low"].as_u64());
        let live = live.unwrap_or_else(|| panic!("{}", cache["live"]));
        live / 10 * 10
    }
}

macro_rules! stage {
    () => {{
        let Some(stage) = Stage::new() else { return };
        stage
    }};
}

#[test]
fn each_end_by_the_program_leaves_a_report() {
    let stage = stage!();
    let ends = stage.ends().to_str().unwrap();
    for end in [
        "exit",
        "_exit",
        "_Exit",
        "quick_exit",
        "thread-exit",
        "thread-_exit",
        "threads-exit",
        "threads-_exit",
        "threads-quick_exit",
        "all-_exit",
        "atexit-_exit",
        "closed-exit",
        "closed-_exit",
        "no-file",
        "no-room",
        "small-stack",
        "stopped-in-malloc",
    ] {
        let left = Left::of(&stage, &[ends, "1230", end]);
        assert_eq!(left.code(), Some(7), "{end}: {} {}", left.output.status, left.says());
        assert_eq!(left.mark(), 1230, "{end}");
        assert_eq!(left.says(), "", "{end}");
    }
    for end in ["return", "main-first"] {
        let left = Left::of(&stage, &[ends, "1230", end]);
        assert_eq!((left.code(), left.mark(), left.says()), (Some(0), 1230, ""), "{end}");
    }
}

/// A handler may come at any moment; the report says what can be known there.
#[test]
fn an_end_in_the_middle_of_malloc_leaves_a_report() {
    let stage = stage!();
    let ends = stage.ends().to_str().unwrap();
    for _ in 0..20 {
        let left = Left::of(&stage, &[ends, "1230", "in-malloc"]);
        assert_eq!(left.code(), Some(7), "{} {}", left.output.status, left.says());
        assert_eq!(left.mark(), 1230);
    }
}

#[test]
fn children_and_daemons_leave_their_parents_report_alone() {
    let stage = stage!();
    let ends = stage.ends().to_str().unwrap();
    for end in ["children-exit", "children-_exit", "daemon-exit", "daemon-_exit"] {
        let left = Left::of(&stage, &[ends, "1230", end]);
        assert_eq!((left.code(), left.mark(), left.says()), (Some(7), 1230, ""), "{end}");
    }
}

#[test]
fn the_report_is_of_the_last_program_of_a_chain() {
    let stage = stage!();
    let ends = stage.ends().to_str().unwrap();
    let script = stage.path("script");
    std::fs::write(&script, "#!/bin/sh\nexec \"$@\"\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    let in_shell = format!("exec {ends} 1230 \"$0\"");
    for end in ["exit", "_exit", "quick_exit"] {
        for chain in [
            &[script, ends, "1230", end][..],
            &["sh", "-c", &in_shell, end],
            &["env", "A=B", ends, "1230", end],
            &["nice", ends, "1230", end],
            &["nohup", ends, "1230", end],
            &[script, script, "env", "nice", ends, "1230", end],
            &[ends, "600", "exec", ends, "1230", end],
            &[ends, "600", "exec", ends, "40", "exec", ends, "1230", end],
            &[ends, "600", "exec-from-thread", ends, "1230", end],
        ] {
            let left = Left::of(&stage, chain);
            assert_eq!(left.code(), Some(7), "{chain:?}: {}", left.says());
            assert_eq!(left.mark(), 1230, "{chain:?}");
        }
    }
    // What was not begun leaves the one that wanted to begin it.
    let left = Left::of(&stage, &[ends, "1230", "exec", "/nonexistent"]);
    assert_eq!((left.code(), left.mark(), left.says()), (Some(7), 1230, ""));
    let left = Left::of(&stage, &["sh", "-c", "exec /nonexistent/program"]);
    assert_eq!(left.code(), Some(127));
    assert!(left.report.is_some(), "{}", left.says());
}

#[test]
fn a_shell_and_a_program_that_waits_for_another_are_reported_themselves() {
    let stage = stage!();
    let ends = stage.ends().to_str().unwrap();
    let script = format!("{ends} 1230 exit; {ends} 1230 _exit; exit 9");
    for chain in [&["sh", "-c", "exit 9"][..], &["sh", "-c", &script]] {
        let left = Left::of(&stage, chain);
        assert_eq!((left.code(), left.mark(), left.says()), (Some(9), 0, ""), "{chain:?}");
    }
    let left = Left::of(&stage, &["timeout", "60", ends, "1230", "exit"]);
    assert_eq!((left.code(), left.mark(), left.says()), (Some(7), 0, ""));
}

#[test]
fn what_a_signal_ends_leaves_no_report_and_is_said_so() {
    let stage = stage!();
    let ends = stage.ends().to_str().unwrap();
    for (end, signal, name) in
        [("abort", 6, "SIGABRT"), ("kill", 9, "SIGKILL"), ("segv", 11, "SIGSEGV")]
    {
        for chain in [&[ends, "1230", end][..], &[ends, "600", "exec", ends, "1230", end]] {
            let left = Left::of(&stage, chain);
            assert_eq!(left.output.status.signal(), Some(signal), "{end}");
            let want = format!("slabyard: no report: {ends} was ended by {name}, ");
            assert!(left.says().starts_with(&want), "{end}: {}", left.says());
            assert!(left.report.is_none());
        }
    }
}

/// An earlier program's numbers are not shown as those of one that left none.
#[test]
fn an_end_past_the_library_is_said() {
    let stage = stage!();
    let ends = stage.ends().to_str().unwrap();
    let left = Left::of(&stage, &[ends, "1230", "call"]);
    assert_eq!(left.code(), Some(7));
    let want = format!(
        "slabyard: no report: {ends} ended as `ends`; the last program on Slabyard was `ends`, "
    );
    assert!(left.says().starts_with(&want), "{}", left.says());
    assert!(left.says().contains("by a system call of its own"), "{}", left.says());
    assert!(left.report.is_none());
}

#[test]
fn a_static_program_leaves_no_report_and_is_said_so() {
    let stage = stage!();
    let Some(fixed) = stage.static_ends() else { return };
    let (fixed, ends) = (fixed.to_str().unwrap(), stage.ends().to_str().unwrap());
    let left = Left::of(&stage, &[fixed, "1230", "exit"]);
    assert_eq!(left.code(), Some(7));
    let want =
        format!("slabyard: no report: {fixed} was not on Slabyard: it is statically linked ");
    assert!(left.says().starts_with(&want), "{}", left.says());
    assert!(left.report.is_none());

    for chain in
        [&[ends, "600", "exec", fixed, "1230", "exit"][..], &["nice", fixed, "1230", "exit"]]
    {
        let left = Left::of(&stage, chain);
        assert_eq!(left.code(), Some(7));
        let said = left.says();
        assert!(
            said.contains(" ended as `static-ends`; the last program on Slabyard was `"),
            "{said}"
        );
        assert!(left.report.is_none());
    }

    // Through one that is not and back.
    let left = Left::of(&stage, &[fixed, "600", "exec", ends, "1230", "_exit"]);
    assert_eq!((left.code(), left.mark(), left.says()), (Some(7), 1230, ""));
    // Its child is on Slabyard and is another process.
    let script = format!("{ends} 1230 exit; {fixed} 600 exit; exec {fixed} 600 _exit");
    let left = Left::of(&stage, &["sh", "-c", &script]);
    assert!(left.report.is_none());
}

/// A damaged heap and one that may not be read do not change how the program ends.
#[test]
fn an_end_is_as_it_was_where_nothing_can_be_read() {
    let stage = stage!();
    let ends = stage.ends().to_str().unwrap();
    let left = Left::of(&stage, &[ends, "1230", "damaged"]);
    assert_eq!(left.code(), Some(7));
    let left = Left::of(&stage, &[ends, "1230", "unreadable"]);
    assert_eq!(left.code(), Some(7));
    if !nix::unistd::geteuid().is_root() {
        assert!(left.says().contains("may not be read: "), "{}", left.says());
    }
}

/// The loader takes the library from no user where the program has more rights.
#[test]
fn a_set_user_id_program_leaves_no_report_and_is_said_so() {
    const NOBODY: u32 = 65534;
    let stage = stage!();
    if !nix::unistd::geteuid().is_root() {
        return skip("a set-user-id program: only root makes one for another user");
    }
    let path = stage.path("set-user-id");
    std::fs::copy(stage.ends(), &path).unwrap();
    for (path, mode) in [
        (stage.directory.path().to_owned(), 0o777),
        (stage.path("tmp"), 0o777),
        (path.clone(), 0o4755),
    ] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let probe = Command::new(&path).args(["1", "exit"]).uid(NOBODY).gid(NOBODY).status();
    if !probe.is_ok_and(|status| status.code() == Some(7)) {
        return skip("a set-user-id program: another user cannot come here");
    }
    let mut slabyard = stage.slabyard_on(crate::stage::real_library());
    slabyard.uid(NOBODY).gid(NOBODY);
    let left = Left::by(&stage, &mut slabyard, &[path.to_str().unwrap(), "1230", "_exit"]);
    assert_eq!(left.code(), Some(7), "{}", left.says());
    let last = left.says().lines().last().unwrap();
    assert!(last.contains(" was not on Slabyard: "), "{}", left.says());
    assert!(left.report.is_none());
}

/// `run` that is gone keeps nobody waiting.
#[test]
fn a_program_whose_run_was_killed_ends_by_itself() {
    let stage = stage!();
    let ends = stage.ends().display();
    let mark = stage.path("ended");
    let script = format!("kill -KILL $PPID; {ends} 5 exit; echo >{}; exit 3", mark.display());
    let mut slabyard = stage.slabyard_on(crate::stage::real_library());
    let status = slabyard.args(["run", "--", "sh", "-c", &script]).status().unwrap();
    assert_eq!(status.signal(), Some(9));
    let mut looks = 0;
    while !mark.exists() {
        looks += 1;
        assert!(looks < 3000, "it does not end");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
