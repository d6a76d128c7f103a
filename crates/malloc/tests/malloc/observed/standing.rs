//! Idle processes, whose threads are stopped to serve requests: the request is served, and the
//! program cannot notice it.
//!
//! Neighbours: `observed.rs` starts the processes; `standing.c` and `waking.c` wait in each way;
//! `slabyard_observe::process` decides which thread is stopped, and how.

use super::Target;
use crate::process_runner::{LIMIT, Mode, SIGCONT};
use slabyard_observe::process::{
    Answer, Error, Patience, RequestKind, StopOutcome, StopThread, ask_within,
};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A thread is stopped at once: no call of the program's has the time to serve.
const STOPPED: StopThread = StopThread::AfterIdle { after: Duration::ZERO };

fn shrink(pid: u32, stop_thread: StopThread, deadline: Duration) -> Result<Answer, Error> {
    let patience = Patience { deadline, stop: &|| false, stop_thread };
    ask_within(pid, &RequestKind::Shrink { cache: None }, patience)
}

fn resident(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("a process");
    statm.split(' ').nth(1).expect("a number").parse::<u64>().expect("a number") << 12
}

/// Waits until all threads of a process sleep.
fn stands(pid: u32) {
    let sleeps = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks");
        tasks.flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('S'))
        })
    };
    let end = Instant::now() + LIMIT;
    while !sleeps() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Target {
    /// Ends the program's wait; it says that all was right.
    fn ends_well(&mut self, what: &str) {
        self.write("go");
        assert_eq!(self.line(), "done", "{what}");
        assert!(self.child.wait().expect("an end").success(), "{what}");
    }
}

/// Calls, and in how many threads.
const CALLS: [(&str, &[&str]); 20] = [
    ("read", &["1", "4"]),
    ("recv", &["4"]),
    ("registers", &["1"]),
    ("accept", &["1", "4"]),
    ("nanosleep-timed", &["1", "4"]),
    ("raw-nanosleep-timed", &["1"]),
    ("condition", &["1", "8"]),
    ("condition-timed", &["4"]),
    ("poll", &["1", "4"]),
    ("poll-timed", &["4"]),
    ("ppoll-timed", &["1"]),
    ("select", &["4"]),
    ("select-timed", &["1"]),
    ("epoll", &["1", "4"]),
    ("epoll-timed", &["1", "4"]),
    ("epoll_pwait", &["1"]),
    ("wait", &["4"]),
    ("sigwait", &["1"]),
    ("pause", &["1"]),
    ("semop", &["1", "4"]),
];

#[test]
fn a_thread_that_waits_serves_in_each_call_and_the_call_goes_on() {
    // Most of the time they stand.
    std::thread::scope(|scope| {
        for quarter in CALLS.chunks(CALLS.len() / 4) {
            scope.spawn(move || quarter.iter().for_each(serves_and_goes_on));
        }
    });
}

fn serves_and_goes_on((call, threads): &(&str, &[&str])) {
    for threads in *threads {
        let arguments = [*call, *threads];
        // However long it takes, the memory is there until it is asked for.
        let rests = [("SLABYARD_DECAY_MS", "3600000")];
        let target = Target::start_with("observed/standing.c", Mode::Rseq, &arguments, &rests);
        let Some(mut target) = target else { return };
        let pid = target.pid();
        stands(pid);
        let before = resident(pid);
        let answer = shrink(pid, STOPPED, LIMIT);
        let answer = answer.unwrap_or_else(|why| panic!("{arguments:?}: {why}"));
        let now = resident(pid);
        assert!(answer.bytes > 1 << 20, "{arguments:?}: {answer:?}");
        assert!(now + (1 << 20) < before, "{arguments:?}: {before} bytes, then {now}");
        target.ends_well(&format!("{arguments:?}"));
    }
}

#[test]
fn a_thread_that_waits_serves_whatever_the_mode_and_the_engine() {
    for mode in [
        Mode::OwnRseq,
        Mode::Slots,
        Mode::TinyRseq,
        Mode::SlabRseq,
        Mode::SlabNodes,
        Mode::SlobRseq,
        Mode::CpuSlabs("6.1", "exact"),
    ] {
        let target = Target::start("observed/standing.c", mode, &["condition", "4"]);
        let Some(mut target) = target else { return };
        stands(target.pid());
        let answer = shrink(target.pid(), STOPPED, LIMIT);
        assert!(answer.is_ok(), "{mode:?}: {answer:?}");
        target.ends_well(&format!("{mode:?}"));
    }
}

/// The child of `standing.c` made no slow path yet, and takes its first request for its parent's.
#[test]
fn a_child_that_made_no_call_yet_serves_what_itself_is_asked() {
    let Some(mut target) = Target::start("observed/standing.c", Mode::Rseq, &["read"]) else {
        return;
    };
    let pid = target.pid();
    stands(pid);
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let child = children.expect("children").trim().parse().expect("one child");
    for asked in [pid, child, child] {
        let answer = shrink(asked, STOPPED, LIMIT);
        assert!(answer.is_ok(), "{asked}: {answer:?}");
    }
    target.ends_well("its child");
}

#[test]
fn a_thread_is_let_be_where_nobody_wants_or_should_stop_it() {
    let Some(mut target) = Target::start("observed/standing.c", Mode::Rseq, &["read"]) else {
        return;
    };
    stands(target.pid());
    let soon = Duration::from_millis(200);
    let refused = shrink(target.pid(), StopThread::Never, soon);
    let unwanted = matches!(refused, Err(Error::NotServed { stopped: StopOutcome::Unwanted, .. }));
    assert!(unwanted, "{refused:?}");
    // One that is stopped holds up whoever has its locks, and is let be.
    target.stop();
    let refused = shrink(target.pid(), STOPPED, soon);
    let none = matches!(refused, Err(Error::NotServed { stopped: StopOutcome::NoThread, .. }));
    assert!(none, "{refused:?}");
    target.signal(SIGCONT);
    target.ends_well("who was let be");

    // A filter may end who makes the call by which a sleep goes on.
    let arguments = ["nanosleep-timed", "1", "filter"];
    let target = Target::start("observed/standing.c", Mode::Rseq, &arguments);
    let Some(mut target) = target else { return };
    stands(target.pid());
    let refused = shrink(target.pid(), STOPPED, soon);
    let none = matches!(refused, Err(Error::NotServed { stopped: StopOutcome::None, .. }));
    assert!(none, "{refused:?}");
    target.ends_well("who has a filter");
}

#[test]
fn threads_that_wake_each_other_lose_no_wake_up_by_requests() {
    let Some(mut target) = Target::start("observed/waking.c", Mode::Rseq, &[]) else { return };
    let pid = target.pid();
    for nth in 0..200 {
        let answer = shrink(pid, STOPPED, LIMIT);
        assert!(answer.is_ok(), "request {nth}: {answer:?}");
        std::thread::sleep(Duration::from_micros(nth * 37 % 3000));
    }
    target.ends_well("threads that wake each other");
}

/// The process that `who_is_killed_...` kills: it asks and asks. By itself it does nothing.
#[test]
fn asks_until_it_is_killed() {
    let Ok(pid) = std::env::var(ASKED) else { return };
    let pid = pid.parse().expect("a number");
    while shrink(pid, STOPPED, LIMIT).is_ok() {}
}

const ASKED: &str = "SLABYARD_TEST_ASKED";

#[test]
fn who_is_killed_as_a_thread_serves_leaves_it_to_go_on_by_itself() {
    let mut stopped = 0;
    for (call, threads) in [("registers", "1"), ("condition", "4"), ("accept", "2")] {
        let target = Target::start("observed/standing.c", Mode::Rseq, &[call, threads]);
        let Some(mut target) = target else { return };
        stands(target.pid());
        for nth in 0..12 {
            let mut asking = Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", "observed::standing::asks_until_it_is_killed"])
                .env(ASKED, target.pid().to_string())
                .stdout(Stdio::null())
                .spawn()
                .expect("this test once more");
            let end = Instant::now() + Duration::from_secs(2);
            while !is_traced(target.pid()) && Instant::now() < end {}
            let moment = Instant::now();
            while moment.elapsed() < Duration::from_micros(nth * 40) {}
            stopped += u32::from(is_traced(target.pid()));
            asking.kill().expect("it asks");
            asking.wait().expect("it ends");
        }
        // The next one finds nobody at it.
        let answer = shrink(target.pid(), STOPPED, LIMIT);
        assert!(answer.is_ok(), "{call}: {answer:?}");
        target.ends_well(call);
    }
    println!("{stopped} were killed as a thread of the process was stopped");
    assert!(stopped > 0);
}

/// True if somebody has stopped a thread of a process.
fn is_traced(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks");
    tasks.flatten().any(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && line != "TracerPid:\t0")
    })
}
