//! Reads one CPU's ring buffer in a thread of its own, which sleeps until the kernel has collected
//! enough events or the next read is due.
//!
//! Invariants: a [`Batch`] is complete up to its `until`: all events of the CPU before that time
//! are in it or in earlier batches. Event times increase within each CPU.

use super::error::Error;
use super::kmem::{Decoder, Layouts};
use super::layout::Page;
use super::ring;
use super::tracefs::TraceInstance;
use crate::event::Event;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::time::{ClockId, Timespec, clock_gettime};
use slabyard_observe::kernel::Symbols;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

/// Events of a batch, about.
const BATCH: usize = 1 << 15;
/// Time between two reads of a CPU that has few events.
const LOOK_NS: i64 = 40_000_000;
/// The kernel's clock for the events may be behind that of system calls by so much.
const BEHIND_NS: u64 = 1_000_000;

/// What a reader sends.
pub struct Batch {
    pub cpu: u16,
    pub events: Vec<Event>,
    /// Names with the numbers after those that were sent before.
    pub names: Vec<Box<str>>,
    /// Nothing before this time will come.
    pub until: u64,
    /// Events that the kernel could not keep, before these.
    pub lost: u64,
}

/// What a reader works with.
pub struct Reader {
    pub cpu: u16,
    pub path: PathBuf,
    pub file: File,
    pub page: Page,
    pub layouts: Arc<Layouts>,
    pub symbols: Arc<Symbols>,
}

/// The time now, of the clock that events have.
pub fn now() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    tv_sec as u64 * 1_000_000_000 + tv_nsec as u64
}

/// Opens a CPU's buffer.
pub fn open(instance: &TraceInstance, cpu: u16) -> Result<(PathBuf, File), Error> {
    let path = instance.join(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(&path).map_err(|error| Error::at(&path, error))?;
    Ok((path, file))
}

impl Reader {
    /// Reads until `stop` is set and nothing is left, or nobody takes batches any more.
    pub fn run(mut self, stop: &AtomicBool, to: &SyncSender<Batch>) -> Result<(), Error> {
        let (layouts, symbols) = (self.layouts.clone(), self.symbols.clone());
        let mut decoder = Decoder::new(&layouts, &symbols, self.cpu);
        let mut page = vec![0; self.page.size];
        loop {
            let last = stop.load(Ordering::Acquire);
            let looked = now().saturating_sub(BEHIND_NS);
            let mut events = Vec::new();
            let mut lost = 0;
            while self.next(&mut page)? {
                let mut until = 0;
                lost += ring::walk(&self.page, &page, |time, bytes| {
                    until = time;
                    events.extend(decoder.event(time, bytes));
                })
                .map_err(|what| Error::Page { cpu: self.cpu, what })?;
                if events.len() >= BATCH {
                    let events = std::mem::take(&mut events);
                    if !self.send(to, &mut decoder, events, until, &mut lost) {
                        return Ok(());
                    }
                }
            }
            let until = if last { u64::MAX } else { looked };
            if !self.send(to, &mut decoder, events, until, &mut lost) || last {
                return Ok(());
            }
            let wait = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
            let _ = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&wait));
        }
    }

    fn send(
        &self,
        to: &SyncSender<Batch>,
        decoder: &mut Decoder,
        events: Vec<Event>,
        until: u64,
        lost: &mut u64,
    ) -> bool {
        let lost = std::mem::take(lost);
        let names = decoder.new_names();
        to.send(Batch { cpu: self.cpu, events, names, until, lost }).is_ok()
    }

    /// The next page; false if there is none now.
    fn next(&mut self, page: &mut [u8]) -> Result<bool, Error> {
        loop {
            match self.file.read(page) {
                Ok(0) => return Ok(false),
                Ok(n) if n < page.len() => {
                    return Err(Error::Page { cpu: self.cpu, what: "it is cut off" });
                }
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A CPU that is not there.
                Err(error) if error.raw_os_error() == Some(19) => return Ok(false),
                Err(error) => return Err(Error::at(&self.path, error)),
            }
        }
    }
}
