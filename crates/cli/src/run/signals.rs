//! Handles signals and waiting by direct system calls; besides [`super::last_look`], this is the
//! only unsafe code of `slabyard run`.
//!
//! Signals are blocked and read from a signalfd, which says who sent each one, so no handler ever
//! interrupts our work. Invariants: the program gets the signal mask and dispositions that we were
//! given; a child keeps its process id until it is waited for, so a signal sent to it never reaches
//! another process.
#![allow(unsafe_code)]

use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Everything that a process may be told from outside and survive to pass on.
const HELD: [Signal; 13] = [
    Signal::SIGCHLD,
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

/// The signals that are held back.
pub struct Signals {
    queue: SignalFd,
    /// The mask that this process was started with.
    given: SigSet,
    /// Disposition of SIGCHLD before.
    given_child: libc::sighandler_t,
}

/// Where a signal comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A child changed its state.
    Child,
    /// The kernel, mostly for the terminal: our whole group has it.
    Kernel,
    /// Another process sent it.
    Process(i32),
}

impl Signals {
    /// Holds the signals back from now on.
    pub fn hold() -> io::Result<Signals> {
        let held: SigSet = HELD.into_iter().collect();
        let given = held.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let queue = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC)?;
        // An ignored SIGCHLD, which we may have inherited, would let the
        // system forget how the program ended.
        let given_child = disposition(libc::SIGCHLD, libc::SIG_DFL)?;
        Ok(Signals { queue, given, given_child })
    }

    /// Gives the program what we were given.
    pub fn release_in(&self, command: &mut Command) {
        let (given, given_child) = (self.given, self.given_child);
        let release = move || {
            if given_child == libc::SIG_IGN {
                disposition(libc::SIGCHLD, libc::SIG_IGN)?;
            }
            given.thread_set_mask().map_err(io::Error::from)
        };
        // SAFETY: runs between fork and exec; it makes two system calls that
        // are async-signal-safe, and neither allocates nor locks.
        unsafe { command.pre_exec(release) };
    }

    /// Holds no signal back any more. What the program's end overtook is ours:
    /// lower numbers are read first, so no signal that ends a process and was
    /// there before SIGCHLD is left.
    pub fn release(self) -> io::Result<()> {
        disposition(libc::SIGCHLD, self.given_child)?;
        Ok(self.given.thread_set_mask()?)
    }

    /// Waits for the next signal, for ever or so long; `None`: none came.
    pub fn next_within(&self, longest: Option<Duration>) -> io::Result<Option<(i32, Origin)>> {
        if let Some(longest) = longest {
            // Not a little too short, again and again.
            let ms = i32::try_from(longest.as_millis() + 1).unwrap_or(i32::MAX);
            let mut queue = libc::pollfd {
                fd: self.queue.as_fd().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one entry, which lives as long as the call. An interrupted call counts as late.
            if unsafe { libc::poll(&raw mut queue, 1, ms) } <= 0 {
                return Ok(None);
            }
        }
        self.next().map(Some)
    }

    fn next(&self) -> io::Result<(i32, Origin)> {
        loop {
            let info = match self.queue.read_signal() {
                Ok(Some(info)) => info,
                Ok(None) | Err(nix::Error::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let signal = info.ssi_signo.cast_signed();
            let origin = match info.ssi_code {
                _ if signal == libc::SIGCHLD => Origin::Child,
                libc::SI_KERNEL => Origin::Kernel,
                _ => Origin::Process(info.ssi_pid.cast_signed()),
            };
            return Ok((signal, origin));
        }
    }

    /// Stops this process by the signal; returns when it is continued.
    pub fn stop_by(&self, signal: i32) -> io::Result<()> {
        if signal == libc::SIGSTOP {
            return raise(signal);
        }
        let given = disposition(signal, libc::SIG_DFL)?;
        raise(signal)?;
        // It was pending until here.
        let one: SigSet = Signal::try_from(signal).into_iter().collect();
        one.thread_unblock()?;
        one.thread_block()?;
        disposition(signal, given)?;
        Ok(())
    }
}

/// Sends a signal to the child. One that is gone needs none.
pub fn send(pid: i32, signal: i32) {
    // SAFETY: no memory is involved; `pid` is a child that was not waited for.
    unsafe { libc::kill(pid, signal) };
}

/// True if the program does nothing about the signal, and it is one that ends.
pub fn would_end(pid: i32, signal: i32) -> bool {
    use Signal::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    const ENDING: [Signal; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM];
    if !ENDING.iter().any(|it| *it as i32 == signal) {
        return false;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let holds = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.unwrap_or(0) >> (signal - 1) & 1 == 1
    };
    !["SigIgn:", "SigCgt:", "SigBlk:"].into_iter().any(holds)
}

/// The next change of the child's state, if there is one.
pub fn changed(pid: i32) -> io::Result<Option<ExitStatus>> {
    let mut status = 0;
    let flags = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
    // SAFETY: `status` lives as long as the call.
    let got = unsafe { libc::waitpid(pid, &raw mut status, flags) };
    match got {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => Ok(Some(ExitStatus::from_raw(status))),
    }
}

/// True if a shell gave our group its terminal and waits for us.
pub fn in_foreground() -> bool {
    let group = File::open("/dev/tty").ok().and_then(|tty| unistd::tcgetpgrp(tty).ok());
    group == Some(unistd::getpgrp())
}

/// Ends this process by the signal, without a second core file.
pub fn die_by(signal: i32) {
    let _ = prctl::set_dumpable(false);
    let _ = disposition(signal, libc::SIG_DFL);
    let one: SigSet = Signal::try_from(signal).into_iter().collect();
    let _ = one.thread_unblock();
    let _ = raise(signal);
}

fn raise(signal: i32) -> io::Result<()> {
    // SAFETY: no memory is involved, and this process has no handlers.
    match unsafe { libc::raise(signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets `SIG_DFL`, `SIG_IGN` or what was there before; returns what was.
fn disposition(signal: i32, to: libc::sighandler_t) -> io::Result<libc::sighandler_t> {
    // SAFETY: `to` is one of the two constants or came from this function,
    // so no handler of ours can run at a wrong moment.
    match unsafe { libc::signal(signal, to) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        before => Ok(before),
    }
}
