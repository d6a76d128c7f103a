//! Signals that are sent only to the command, and job control.

use crate::stage::Stage;
use nix::sys::signal::{SigHandler, Signal, kill, killpg, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Stdio};

/// A shell under `slabyard run`, in a group of its own, that said "ready".
struct Job {
    child: Child,
    pid: Pid,
    stdout: BufReader<ChildStdout>,
}

impl Job {
    fn start(stage: &Stage, script: &str) -> Job {
        let mut command = stage.slabyard();
        command.args(["run", "--report", "none", "--", "sh", "-c", script]);
        // A shell cannot trap what whoever runs the tests (nohup, a job in the background) ignores.
        let heed = || {
            for ignored in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
                // SAFETY: no handler is installed.
                unsafe { signal(ignored, SigHandler::SigDfl)? };
            }
            Ok(())
        };
        // SAFETY: it makes system calls alone.
        unsafe { command.pre_exec(heed) };
        let mut child = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Job { child, pid, stdout }
    }

    fn state(&self) -> WaitStatus {
        waitpid(self.pid, Some(WaitPidFlag::WUNTRACED)).unwrap()
    }

    /// The rest of the output, and how the command ended.
    fn end(mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // Only after a failed test is anything left in the group.
        let _ = killpg(self.pid, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Waits for signals, and starts nothing: a shell that is just starting a
/// program (vfork) cannot be stopped.
const WAIT: &str = "echo ready; while :; do read _; done";

#[test]
fn what_another_process_sends_is_passed_on_once() {
    let Some(stage) = Stage::new() else { return };
    for name in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM"] {
        let job = Job::start(&stage, &format!("trap 'echo got {name}; exit 9' {name}; {WAIT}"));
        kill(job.pid, format!("SIG{name}").parse::<Signal>().unwrap()).unwrap();
        assert_eq!(job.end(), (format!("got {name}\n"), Some(9)));
    }
}

#[test]
fn a_signal_that_the_program_sends_us_does_not_come_back() {
    let Some(stage) = Stage::new() else { return };
    let script = "trap 'echo came back' TERM; echo ready; kill -TERM $PPID; sleep 0.3; exit 8";
    let job = Job::start(&stage, script);
    assert_eq!(job.end(), (String::new(), Some(8)));
}

#[test]
fn a_job_stops_as_a_whole_and_goes_on() {
    let Some(stage) = Stage::new() else { return };
    for signal in [Signal::SIGTSTP, Signal::SIGTTIN] {
        let job = Job::start(&stage, &format!("trap 'echo on; exit 3' USR1; {WAIT}"));
        killpg(job.pid, signal).unwrap();
        assert_eq!(job.state(), WaitStatus::Stopped(job.pid, signal));
        killpg(job.pid, Signal::SIGCONT).unwrap();
        kill(job.pid, Signal::SIGUSR1).unwrap();
        assert_eq!(job.end(), ("on\n".into(), Some(3)));
    }
}

#[test]
fn a_stop_sent_to_us_alone_reaches_the_program_and_sigcont_wakes_it() {
    let Some(stage) = Stage::new() else { return };
    let job = Job::start(&stage, &format!("trap 'echo on; exit 4' USR1; {WAIT}"));
    kill(job.pid, Signal::SIGTSTP).unwrap();
    assert_eq!(job.state(), WaitStatus::Stopped(job.pid, Signal::SIGTSTP));
    // To this one process: the program wakes only if it is passed on.
    kill(job.pid, Signal::SIGCONT).unwrap();
    kill(job.pid, Signal::SIGUSR1).unwrap();
    assert_eq!(job.end(), ("on\n".into(), Some(4)));
}

#[test]
fn a_program_that_is_stopped_and_continued_by_its_id_is_waited_for() {
    let Some(stage) = Stage::new() else { return };
    let script = "echo ready; (sleep 0.3; kill -CONT $$) & kill -STOP $$; echo on; exit 5";
    let job = Job::start(&stage, script);
    // Nobody would continue us: `state` would return `Stopped` here.
    assert_eq!(job.state(), WaitStatus::Exited(job.pid, 5));
}

#[test]
fn a_program_that_ignores_the_stop_keeps_us_running() {
    let Some(stage) = Stage::new() else { return };
    let script = "trap '' TSTP; echo ready; sleep 0.3; echo on; exit 6";
    let job = Job::start(&stage, script);
    killpg(job.pid, Signal::SIGTSTP).unwrap();
    // `state` would return `Stopped` here if we had stopped.
    let state = job.state();
    assert_eq!(state, WaitStatus::Exited(job.pid, 6));
}

/// A program of ours that waits, with a report wanted.
fn reported(signal: Signal) -> std::process::Output {
    let library = crate::stage::real_library();
    let program = crate::stage::holds().expect("it was compiled");
    let mut command = std::process::Command::new(crate::stage::SLABYARD);
    command.env("SLABYARD_LIB", library).env_remove("LD_PRELOAD");
    command.args(["run", "--report", "json", "--"]).arg(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    // Its input does not end before the signal comes.
    let stdin = child.stdin.take();
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    output
}

#[test]
fn a_signal_that_ends_the_program_is_passed_on_after_a_look() {
    use std::os::unix::process::ExitStatusExt;
    if Stage::new().is_none() {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let output = reported(signal);
        assert_eq!(output.status.signal(), Some(signal as i32), "{signal}");
        let said = crate::stage::text(&output.stderr);
        let report: serde_json::Value = serde_json::from_str(said).expect(said);
        assert!(report["totals"]["live"].is_u64() || report["totals"]["live"].is_array(), "{said}");
    }
}
