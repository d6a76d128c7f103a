//! Lists the threads of a process that wait in system calls; those whose calls can continue most
//! exactly come first.

use super::calls::{Call, GoesOn};
use nix::unistd::Pid;
use std::path::Path;

/// So many threads are looked at: one is enough.
const MOST: usize = 256;

/// A thread that waits.
#[derive(Debug)]
pub(super) struct Candidate {
    /// As our namespace of ids has it.
    pub(super) thread: Pid,
    /// As its own has it.
    pub(super) number: u32,
    pub(super) call: Call,
    /// How often it has slept.
    #[allow(dead_code, reason = "the registers of some processors say enough")]
    pub(super) sleeps: u64,
    goes_on: GoesOn,
}

/// All threads of a process, in the order in which they are to be tried.
pub(super) fn of(process: Pid) -> Vec<Candidate> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let waiting = threads.take(MOST).filter_map(Result::ok).filter_map(|thread| {
        let id = thread.file_name().to_str()?.parse().ok()?;
        let status = status(&thread.path())?;
        let number = number_of_a_sleeper(&status)?;
        let sleeps = sleeps(&status)?;
        let call = call(&thread.path())?;
        let goes_on = call.goes_on()?;
        Some(Candidate { thread: Pid::from_raw(id), number, call, sleeps, goes_on })
    });
    let mut waiting: Vec<_> = waiting.collect();
    waiting.sort_by_key(|candidate| candidate.goes_on);
    waiting
}

fn status(thread: &Path) -> Option<String> {
    std::fs::read_to_string(thread.join("status")).ok()
}

/// How often a thread has slept, by its `status`.
fn sleeps(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// How often a thread has slept.
#[allow(dead_code, reason = "as of the candidates")]
pub(super) fn sleeps_of(thread: Pid) -> Option<u64> {
    sleeps(&status(Path::new(&format!("/proc/{thread}")))?)
}

fn call(thread: &Path) -> Option<Call> {
    Call::parse(&std::fs::read_to_string(thread.join("syscall")).ok()?)
}

/// The call that a thread is in; `None` while it runs.
pub(super) fn call_of(process: Pid, thread: Pid) -> Option<Call> {
    call(Path::new(&format!("/proc/{process}/task/{thread}")))
}

/// The number of a thread that sleeps, has no tracer, and no signal waits for, by its `status`.
fn number_of_a_sleeper(status: &str) -> Option<u32> {
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let signals = |name| u64::from_str_radix(field(name)?, 16).ok();
    let waiting = (signals("SigPnd")? | signals("ShdPnd")?) & !signals("SigBlk")?;
    let sleeps = field("State")?.starts_with('S') && field("TracerPid")? == "0" && waiting == 0;
    sleeps.then(|| field("NSpid")?.split_whitespace().next_back()?.parse().ok())?
}

#[cfg(test)]
impl Candidate {
    /// A thread in a call.
    #[allow(dead_code, reason = "asked on some processors")]
    pub(super) fn of(thread: Pid, call: Call) -> Candidate {
        Candidate { thread, number: 0, call, sleeps: 0, goes_on: GoesOn::Exactly }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, tracer: u32, pending: &str, blocked: &str) -> String {
        format!(
            "Name:\tx\nState:\t{state}\nTracerPid:\t{tracer}\nNSpid:\t900\t7\nSigPnd:\t0000000000000000\n\
             ShdPnd:\t{pending}\nSigBlk:\t{blocked}\n"
        )
    }

    #[test]
    fn a_thread_is_tried_that_sleeps_and_that_nobody_wants() {
        let sleeps = "S (sleeping)";
        assert_eq!(number_of_a_sleeper(&status(sleeps, 0, "0", "0")), Some(7));
        assert_eq!(number_of_a_sleeper(&status(sleeps, 0, "2", "2")), Some(7), "blocked");
        assert_eq!(number_of_a_sleeper(&status(sleeps, 0, "2", "0")), None, "a signal comes");
        assert_eq!(number_of_a_sleeper(&status("T (stopped)", 0, "0", "0")), None);
        assert_eq!(number_of_a_sleeper(&status("D (disk sleep)", 0, "0", "0")), None);
        assert_eq!(number_of_a_sleeper(&status(sleeps, 12, "0", "0")), None, "a debugger");
    }
}
