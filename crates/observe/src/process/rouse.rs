//! Wakes a library's helper thread in another process; the thread sleeps on a private futex of that
//! process.
//!
//! No system call wakes another process's thread from a private futex. But a thread that a tracer
//! interrupts leaves its wait, and the kernel restarts the call, which finds that the word has
//! changed (ptrace(2), on interrupts; signal(7), on restarted system calls). No register or signal
//! of the process is touched, and only the library's own thread is stopped, for microseconds.
//!
//! Neighbours: [`super::mailbox`] has written the futex's word; [`super::live`] calls this module.
//! Invariant: if our process dies meanwhile, by whatever signal, no thread stays stopped, because
//! the kernel releases a thread whose tracer has exited.

use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// A thread that sleeps stops at once; one that runs, at its next switch.
const STOPS_WITHIN: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_micros(50);

/// The thread of a process by its id in our pid namespace, from the id by which it knows itself.
pub(super) fn thread_of(process: Pid, number: u32) -> Option<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    threads.filter_map(Result::ok).find_map(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        let own = ids.split_whitespace().next_back()?.parse::<u32>().ok()?;
        let here = thread.file_name().to_str()?.parse().ok()?;
        (own == number).then(|| Pid::from_raw(here))
    })
}

/// Interrupts a thread's system call once. A debugger that has the thread keeps it.
pub(super) fn rouse(thread: Pid) {
    if ptrace::seize(thread, Options::empty()).is_err() {
        return;
    }
    let end = Instant::now() + STOPS_WITHIN;
    let mut asked = ptrace::interrupt(thread).is_ok();
    while asked {
        match waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if Instant::now() < end => std::thread::sleep(PAUSE),
            _ => asked = false,
        }
    }
    // One that did not stop is let go when we end.
    let _ = ptrace::detach(thread, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_by_its_own_number_and_no_other_one() {
        let own = nix::unistd::gettid();
        let number = own.as_raw().cast_unsigned();
        assert_eq!(thread_of(nix::unistd::getpid(), number), Some(own));
        assert_eq!(thread_of(nix::unistd::getpid(), u32::MAX), None);
    }
}
