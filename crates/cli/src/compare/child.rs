//! Starts one measured process in a process group of its own, samples it while it runs, and waits
//! for it, which returns its resource usage.
//!
//! Invariants: when the process ends or its handle is dropped, its whole group is killed; it does
//! not read our standard input, so no keystroke reaches it; if we are killed, so is the process.
#![allow(unsafe_code)]

use super::tree::{self, MeanUse};
use super::yard::Yard;
use crate::failure::Failure;
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Between two looks for a signal, where nothing else asks for one.
const TICK: Duration = Duration::from_millis(100);
/// Longer than anybody waits.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// What a process has, once it was asked to end because we are.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// The signals that end a comparison.
pub struct Stop(Signals);

impl Stop {
    /// Takes them from now on.
    pub fn new() -> io::Result<Stop> {
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map(Stop)
    }

    /// Fails if one came since it was last asked.
    pub fn check(&mut self) -> Result<(), Failure> {
        match self.0.pending().next() {
            Some(signal) => Err(Failure::Stopped(signal)),
            None => Ok(()),
        }
    }
}

/// How a process ended, and what it used.
#[derive(Clone, Copy, Debug)]
pub struct ProcessEnd {
    /// Its exit code or signal.
    pub status: ExitStatus,
    /// From the start to the end.
    pub took: Duration,
    /// Its processor time, and that of the children that it waited for.
    pub cpu: Duration,
    /// Most resident bytes of it, or of the largest of these children.
    pub peak: u64,
}

/// A process that runs.
pub struct Child {
    pid: i32,
    end: OwnedFd,
    started: Instant,
    waited: bool,
    leftovers: Leftovers,
}

/// What becomes of the processes that one leaves running in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// They are ended: what is measured next is to have the machine.
    Ended,
    /// They go on: what prepares a run may start a server.
    Kept,
}

/// Resident memory, looked at in steady intervals.
pub struct Watch {
    interval: Duration,
    page_bytes: u64,
    next: Instant,
    last: Instant,
    /// The resident memory at each look.
    pub looks: MeanUse,
    /// What it holds, where that is looked at, too.
    pub yard: Option<Yard>,
}

impl Watch {
    /// Begins to watch.
    pub fn new(interval: Duration, yard: Option<Yard>) -> Watch {
        let now = Instant::now();
        // SAFETY: asks for a number; no memory is involved.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page_bytes = u64::try_from(page_bytes).unwrap_or(4096);
        Watch {
            interval,
            page_bytes,
            next: now + interval,
            last: now,
            looks: MeanUse::default(),
            yard,
        }
    }

    /// Looks if it is time to.
    fn look(&mut self, pid: i32) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        if let Some(bytes) = tree::resident(pid, self.page_bytes) {
            self.looks.add(bytes, (now - self.last).as_secs_f64());
        }
        if let Some(yard) = &mut self.yard {
            yard.look(pid);
        }
        self.last = now;
        while self.next <= now {
            self.next += self.interval;
        }
    }
}

impl Child {
    /// Starts a program in a process group of its own.
    pub fn start(command: &mut Command, leftovers: Leftovers) -> Result<Child, Failure> {
        let parent = std::process::id();
        let die_with_us = move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // We may have been killed before that.
            let orphan = nix::unistd::getppid().as_raw() != parent.cast_signed();
            if orphan { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        };
        // By this it is a fork, too: what starts on borrowed memory (vfork) counts our resident
        // bytes into its own peak.
        // SAFETY: runs between fork and exec; two system calls, which neither allocate nor lock.
        unsafe { command.pre_exec(die_with_us) };
        command.process_group(0);
        let started = Instant::now();
        let mut child = command
            .spawn()
            .map_err(|error| Failure::Start { program: command.get_program().to_owned(), error })?;
        let pid = child.id().cast_signed();
        match pidfd(pid) {
            Ok(end) => Ok(Child { pid, end, started, waited: false, leftovers }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(cannot_wait(error))
            }
        }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for its end. Who stops us stops this.
    pub fn end_of(
        &mut self,
        watch: Option<(i32, &mut Watch)>,
        stop: &mut Stop,
    ) -> Result<ProcessEnd, Failure> {
        let never = Instant::now() + NEVER;
        let ended = self.wait(never, watch, stop)?;
        ended.ok_or_else(|| cannot_wait(io::ErrorKind::TimedOut.into()))
    }

    /// Waits for its end, or until then: `None` if it still runs.
    pub fn wait(
        &mut self,
        until: Instant,
        mut watch: Option<(i32, &mut Watch)>,
        stop: &mut Stop,
    ) -> Result<Option<ProcessEnd>, Failure> {
        loop {
            let now = Instant::now();
            let look = watch.as_ref().map(|(_, watch)| watch.next);
            let soonest = look.map_or(until, |look| look.min(until));
            let time = soonest.saturating_duration_since(now).min(TICK);
            if self.is_over(time).map_err(cannot_wait)? {
                return self.reap().map(Some).map_err(cannot_wait);
            }
            if let Err(stopped) = stop.check() {
                self.end(LAST_GRACE, None)?;
                return Err(stopped);
            }
            if let Some((pid, watch)) = &mut watch {
                watch.look(*pid);
            }
            if Instant::now() >= until {
                return Ok(None);
            }
        }
    }

    /// Asks it to end by SIGTERM, and its group; true beside its end if that did not help
    /// in time, so that SIGKILL did.
    pub fn end(
        &mut self,
        grace: Duration,
        mut stop: Option<&mut Stop>,
    ) -> Result<(ProcessEnd, bool), Failure> {
        let _ = killpg(Pid::from_raw(self.pid), Signal::SIGTERM);
        let until = Instant::now() + grace;
        let mut killed = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.is_over(left.min(TICK)).map_err(cannot_wait)? {
                return Ok((self.reap().map_err(cannot_wait)?, killed));
            }
            // What is not over yet is killed as it is dropped.
            stop.as_mut().map_or(Ok(()), |stop| stop.check())?;
            if left.is_zero() {
                killed = true;
                let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
            }
        }
    }

    fn is_over(&self, time: Duration) -> io::Result<bool> {
        let mut poll = libc::pollfd { fd: self.end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // Not a busy loop for the last part of a millisecond.
        let ms = i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: one entry, which lives as long as the call.
        match unsafe { libc::poll(&raw mut poll, 1, ms) } {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
            ready => Ok(ready > 0),
        }
    }

    /// Ends what is left of its group, and takes its end: as long as nobody took it, its id and
    /// the group's are no stranger's.
    fn reap(&mut self) -> io::Result<ProcessEnd> {
        let took = self.started.elapsed();
        if self.leftovers == Leftovers::Ended {
            let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
        let mut status = 0;
        // SAFETY: all zeros are a value of this structure of numbers.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both live as long as the call.
        while unsafe { libc::wait4(self.pid, &raw mut status, 0, &raw mut used) } == -1 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        self.waited = true;
        let time = |t: libc::timeval| {
            Duration::from_secs(t.tv_sec.cast_unsigned())
                + Duration::from_micros(t.tv_usec.cast_unsigned())
        };
        Ok(ProcessEnd {
            status: ExitStatus::from_raw(status),
            took,
            cpu: time(used.ru_utime) + time(used.ru_stime),
            peak: used.ru_maxrss.cast_unsigned() * 1024,
        })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.waited {
            let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
            let _ = self.reap();
        }
    }
}

fn cannot_wait(error: io::Error) -> Failure {
    anyhow::Error::from(error).context("cannot wait for the program").into()
}

/// A descriptor that says when the process ends (Linux 5.3).
fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: a child that was not waited for; no memory is involved.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(fd) {
        // SAFETY: the system has just made it, and nobody else has it.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
