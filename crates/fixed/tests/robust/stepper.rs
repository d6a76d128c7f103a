//! A child process that is single-stepped through its calls (`man 2 ptrace`).

use std::io::Error;

fn stop() {
    // SAFETY: a signal to oneself.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// A child that is stopped before its next instruction.
pub struct Stepper {
    pub pid: i32,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Stepped,
    /// The child stopped by itself.
    Stopped,
}

impl Stepper {
    /// Forks a child that does `f`, and stops in front of it, and where `f` calls what it is given.
    /// `None` where ptrace is refused.
    pub fn begin(f: impl FnOnce(fn())) -> Option<Self> {
        // SAFETY: the child makes system calls, and calls of a yard in shared memory.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "{}", Error::last_os_error());
        if pid == 0 {
            // SAFETY: the child's own state.
            unsafe {
                if libc::ptrace(libc::PTRACE_TRACEME) != 0 {
                    libc::_exit(9);
                }
                stop();
                f(stop);
                libc::_exit(0);
            }
        }
        let stepper = Stepper { pid };
        match stepper.wait() {
            status if libc::WIFSTOPPED(status) => Some(stepper),
            _ => {
                std::mem::forget(stepper);
                None
            }
        }
    }

    fn wait(&self) -> i32 {
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(self.pid, &raw mut status, 0) }, self.pid);
        status
    }

    /// Lets the child run to its next stop.
    pub fn go_on(&self) {
        // SAFETY: the child stands still.
        let gone_on = unsafe { libc::ptrace(libc::PTRACE_CONT, self.pid, 0, 0) };
        assert_eq!(gone_on, 0, "{}", Error::last_os_error());
        let status = self.wait();
        assert!(libc::WIFSTOPPED(status), "the child ended by itself: {status:#x}");
    }

    /// Lets the child make one instruction.
    pub fn step(&self) -> Step {
        // SAFETY: the child stands still.
        let made = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, 0) };
        assert_eq!(made, 0, "{}", Error::last_os_error());
        let status = self.wait();
        assert!(libc::WIFSTOPPED(status), "the child ended by itself: {status:#x}");
        match libc::WSTOPSIG(status) {
            libc::SIGTRAP => Step::Stepped,
            libc::SIGSTOP => Step::Stopped,
            signal => panic!("the child got signal {signal}"),
        }
    }
}

impl Drop for Stepper {
    /// Kills the child where it is.
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: our own child.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, &raw mut status, 0);
        }
    }
}

/// Keeps this thread, and the children that it forks, on one CPU, where a step is a switch.
pub fn stay_on_this_cpu() {
    // SAFETY: a set of CPUs is plain words.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
