//! What the thread watches: the kernel's pressure stall information (PSI), and the memory of the
//! process's cgroup. In cgroup version 1 it watches an eventfd with a usage threshold, in version 2
//! the events and the usage.
//!
//! Neighbours: [`super::files`] makes the system calls, [`super::cgroup`] finds the cgroup;
//! [`super`] waits and drains. `crates/malloc/tests/malloc/cgroup.rs` runs this file on made-up
//! file trees. Invariant: a source that cannot be opened is reported once, on standard error, while
//! this thread still has standard error open; without any source nothing is watched.

use super::cgroup::Cgroup;
use super::files::{self, O_RDONLY, O_RDWR, O_WRONLY, Path};
use crate::errno::errno;
use crate::say;
use core::fmt::Write;
use slabyard_abi::pressure::{Level, Pressure, events, number, times};

const EINTR: i32 = 4;
const POLLIN: i16 = 1;
const POLLPRI: i16 = 2;
const POLLERR: i16 = 8;
const POLLNVAL: i16 = 0x20;

/// Milliseconds between two reads of the cgroup's usage while it is above the level, or where no
/// event reports it.
const LOOK_MS: i32 = 100;
/// Milliseconds after which this thread looks whether it must end, where the bell fails.
const IDLE_MS: i32 = 10_000;
/// Bytes by which usage must grow above the level until it is another event.
const GROWTH: u64 = 1 << 20;
/// While usage is above the level, one read in this many counts as an event as well.
const LOOKS_ABOVE: u32 = 10;
/// Files at most: the bell, its other end, stalls, events or eventfd, usage, control.
const MOST: usize = 6;

#[repr(C)]
#[derive(Clone, Copy)]
struct PollFd {
    fd: i32,
    events: i16,
    returned: i16,
}

unsafe extern "C" {
    fn poll(fds: *mut PollFd, n: usize, timeout_ms: i32) -> i32;
}

/// What says that memory is short: one or both.
#[derive(Clone, Copy)]
pub struct PressureReasons {
    /// Tasks stalled for memory.
    pub stalled: bool,
    /// The cgroup used too much.
    pub cgroup: bool,
}

/// What a wait found.
pub enum WaitOutcome {
    /// Memory is not short.
    Nothing,
    /// The system refuses to wait: look again a while later.
    Refused,
    /// Memory is short.
    Short(PressureReasons),
    /// Nothing is watched any more.
    Gone,
}

/// The cgroup's memory.
struct Usage {
    fd: i32,
    /// From here on memory is short.
    level: u64,
    /// Least usage since the last drain, while it is above the level; 0 below. At first the
    /// level, so that one which passed it before the watch is seen, too.
    seen: u64,
    /// Looks since then.
    looks_above: u32,
    /// True where no event reports that usage passed the level.
    looks: bool,
}

/// The open files.
pub struct Sources {
    bell: [i32; 2],
    polled: [PollFd; 3],
    usage: Option<Usage>,
    /// `memory.events` of version 2: events so far.
    events: u64,
}

impl Sources {
    /// Opens what is wanted, in a table of files of this thread's own, and closes all others.
    /// `process` is the process's directory in proc(5).
    pub fn open(wanted: &Pressure<'_>, process: &str) -> Option<Sources> {
        if !files::part() {
            say!("memory pressure is not watched: the system refuses a table of files");
            return None;
        }
        let Some(bell) = files::pipe() else {
            say!("memory pressure is not watched: the system refuses a pipe");
            return None;
        };
        let none = PollFd { fd: -1, events: 0, returned: 0 };
        let mut sources = Sources { bell, polled: [none; 3], usage: None, events: 0 };
        sources.polled[0] = PollFd { fd: bell[0], events: POLLIN, returned: 0 };
        if let Some(psi) = wanted.psi {
            match stalls(psi.trigger, process) {
                Some(fd) => sources.polled[1] = PollFd { fd, events: POLLPRI, returned: 0 },
                None => say!("stalls for memory are not watched: the system refuses the trigger"),
            }
        }
        if let Some(level) = wanted.cgroup
            && let Err(why) = sources.open_cgroup(level, process)
        {
            say!("the cgroup's memory is not watched: {why}");
        }
        let kept = sources.files();
        let any = sources.is_watching();
        if !files::close_others(&kept.0[..kept.1]) {
            // Else this copy of the table would keep the program's files open.
            say!("memory pressure is not watched: the system refuses to close files");
            return None;
        }
        any.then_some(sources)
    }

    /// The pipe's end by which other threads end this one.
    pub fn bell(&self) -> i32 {
        self.bell[1]
    }

    fn is_watching(&self) -> bool {
        self.polled[1..].iter().any(|it| it.fd >= 0) || self.usage.is_some()
    }

    /// The open files, ascending, and how many they are.
    fn files(&self) -> ([i32; MOST], usize) {
        let polled = self.polled.iter().map(|it| it.fd);
        let usage = self.usage.iter().map(|it| it.fd);
        let (mut all, mut n) = ([0; MOST], 0);
        for fd in polled.chain(usage).chain([self.bell[1]]).filter(|fd| *fd >= 0) {
            (all[n], n) = (fd, n + 1);
        }
        all[..n].sort_unstable();
        (all, n)
    }

    /// Waits until something happens, or it is time to look.
    pub fn wait(&mut self) -> WaitOutcome {
        if !self.is_watching() {
            return WaitOutcome::Gone;
        }
        let looks = self.usage.as_ref().is_some_and(|it| it.looks || it.seen >= it.level);
        let timeout_ms = if looks { LOOK_MS } else { IDLE_MS };
        // SAFETY: our own array. A signal that the C library sends itself is no event.
        let n = unsafe { poll(self.polled.as_mut_ptr(), self.polled.len(), timeout_ms) };
        let is_refused = n < 0 && errno() != EINTR;
        if n < 0 {
            self.polled.iter_mut().for_each(|it| it.returned = 0);
        }
        let [_, psi, events] = self.polled.map(|it| it.returned);
        if psi & (POLLERR | POLLNVAL) != 0 {
            // Its cgroup is gone.
            files::close(self.polled[1].fd);
            self.polled[1].fd = -1;
        }
        let stalled = psi & POLLPRI != 0 && self.polled[1].fd >= 0;
        let told = self.told(events);
        let cgroup = self.is_above() || told;
        match (stalled || cgroup, is_refused) {
            (true, _) => WaitOutcome::Short(PressureReasons { stalled, cgroup }),
            (false, true) => WaitOutcome::Refused,
            (false, false) => WaitOutcome::Nothing,
        }
    }

    /// After a drain: growth counts from here.
    pub fn drained(&mut self) {
        if let Some(usage) = &mut self.usage {
            usage.seen = number_in(usage.fd);
        }
    }

    /// True if the cgroup passed the level, has grown above it since, or has been above it for some
    /// looks: what the program freed meanwhile is to go back, too.
    fn is_above(&mut self) -> bool {
        let Some(usage) = &mut self.usage else { return false };
        let now = number_in(usage.fd);
        if now < usage.level {
            (usage.seen, usage.looks_above) = (0, 0);
            return false;
        }
        let grew = now >= usage.seen.saturating_add(GROWTH);
        usage.seen = usage.seen.min(now);
        usage.looks_above += 1;
        if !grew && usage.looks_above < LOOKS_ABOVE {
            return false;
        }
        usage.looks_above = 0;
        true
    }

    /// True if the third file says that memory is short: an eventfd says only that it is time to
    /// look; `memory.events` whether usage reached `memory.high` or `memory.max` again. That is read
    /// at each look, as not every system with such a file lets wait for it.
    fn told(&mut self, returned: i16) -> bool {
        let it = self.polled[2];
        if it.fd < 0 {
            return false;
        }
        if it.events == POLLIN {
            if returned != 0 {
                files::empty(it.fd);
            }
            return false;
        }
        let events = events_in(it.fd);
        let new = events.is_some_and(|n| n > self.events);
        self.events = events.unwrap_or(self.events);
        if events.is_none() && returned & (POLLERR | POLLNVAL) != 0 {
            // Its cgroup is gone.
            files::close(it.fd);
            self.polled[2].fd = -1;
        }
        new
    }

    fn open_cgroup(&mut self, level: Level, process: &str) -> Result<(), &'static str> {
        let found =
            Cgroup::find(process).ok_or("no cgroup of this process with memory is mounted")?;
        let (usage, limit) = match found.version {
            1 => ("memory.usage_in_bytes", "memory.limit_in_bytes"),
            _ => ("memory.current", "memory.max"),
        };
        let fd = found.open(usage, O_RDONLY).ok_or("its usage cannot be read")?;
        let limit = found.open(limit, O_RDONLY).map_or(0, |fd| {
            let limit = number_in(fd);
            files::close(fd);
            limit
        });
        let level = match level {
            Level::Bytes(bytes) => bytes,
            // Version 1 says the largest number of pages where there is no limit.
            Level::Percent(_) if limit == 0 || limit >= 1 << 60 => 0,
            Level::Percent(percent) => (u128::from(limit) * u128::from(percent) / 100) as u64,
        };
        if level == 0 && found.version == 1 {
            files::close(fd);
            return Err("it has no limit; a level in bytes needs none");
        }
        if found.version == 1 {
            let told = self.threshold(&found, fd, level, limit);
            self.usage = Some(Usage { fd, level, seen: level, looks_above: 0, looks: !told });
            return Ok(());
        }
        if let Some(events) = found.open("memory.events", O_RDONLY) {
            self.events = events_in(events).unwrap_or(0);
            self.polled[2] = PollFd { fd: events, events: POLLPRI, returned: 0 };
        } else if level == 0 {
            files::close(fd);
            return Err("it has no limit, and its events cannot be read");
        }
        if level > 0 {
            self.usage = Some(Usage { fd, level, seen: level, looks_above: 0, looks: true });
        } else {
            files::close(fd);
        }
        Ok(())
    }

    /// Registers thresholds of version 1: the level, and two above it, as an event comes once when
    /// usage passes one. (`Documentation/admin-guide/cgroup-v1/memory.rst`, section 9.)
    fn threshold(&mut self, found: &Cgroup, usage: i32, level: u64, limit: u64) -> bool {
        let Some(control) = found.open("cgroup.event_control", O_WRONLY) else { return false };
        let Some(event) = files::event() else { return false };
        let room = limit.saturating_sub(level);
        let levels = [level, level + room / 2, level + room / 4 * 3];
        let mut done = false;
        for level in levels {
            let mut line = Path::new();
            let _ = write!(line, "{event} {usage} {level}");
            done |= files::write(control, line.text());
        }
        files::close(control);
        if done {
            self.polled[2] = PollFd { fd: event, events: POLLIN, returned: 0 };
        } else {
            files::close(event);
        }
        done
    }
}

/// Opens the file of stalls and sets the trigger. Without the right to any window the kernel takes
/// multiples of two seconds alone.
fn stalls(trigger: &[u8], process: &str) -> Option<i32> {
    let own = Cgroup::find_version(process, 2);
    let own = own.and_then(|it| it.open("memory.pressure", O_RDWR));
    let fd = own.or_else(|| files::open(c"/proc/pressure/memory", O_RDWR))?;
    if with_zero(trigger, |text| files::write(fd, text)) {
        return Some(fd);
    }
    const UNPRIVILEGED: u64 = 2_000_000;
    let [stall, window] = times(trigger)?;
    let wider = window.next_multiple_of(UNPRIVILEGED);
    let kind = core::str::from_utf8(&trigger[..4]).ok()?;
    let mut line = Path::new();
    let _ = write!(line, "{kind} {} {wider}", stall.saturating_mul(wider) / window);
    if wider != window && with_zero(line.text(), |text| files::write(fd, text)) {
        return Some(fd);
    }
    files::close(fd);
    None
}

/// The kernel takes the trigger's last byte for the zero at its end.
fn with_zero(text: &[u8], f: impl FnOnce(&[u8]) -> bool) -> bool {
    let mut buffer = [0; 64];
    match buffer.get_mut(..text.len()) {
        Some(to) if text.len() < 64 => to.copy_from_slice(text),
        _ => return false,
    }
    f(&buffer[..=text.len()])
}

/// The number that a file holds; 0 for `max`.
fn number_in(fd: i32) -> u64 {
    let mut buffer = [0; 32];
    let n = files::read(fd, &mut buffer, 0);
    let digits = buffer[..n].iter().take_while(|c| c.is_ascii_digit()).count();
    number(&buffer[..digits]).unwrap_or(0)
}

/// How often usage reached `memory.high` and `memory.max`, by `memory.events`.
fn events_in(fd: i32) -> Option<u64> {
    let mut buffer = [0; 256];
    let n = files::read(fd, &mut buffer, 0);
    (n > 0).then(|| events(&buffer[..n]))
}
