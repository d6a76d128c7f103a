//! Records one process's calls to malloc, which the process writes into rings
//! ([`slabyard_abi::recording`]).
//!
//! ```text
//! ring of a CPU -> spool, a file without a name -> events in one order -> Writer
//!      while the process runs: copied                 when it has ended
//! ```
//!
//! Work during the run takes CPU time from the process, so only work that needs the live process is
//! done then: copying entries and naming call sites. [`Spool`] stores the entries for later. An
//! allocation becomes a [`Kmalloc`](EventKind::Kmalloc) whose `allocated` is the size of its malloc
//! class, a free becomes a [`Kfree`](EventKind::Kfree); both are named after their call sites.
//! Requests above the largest class get pages of their own and have no class: `allocated` is 0.
//! Memory use: the rings, and one buffer for each ring. Disk use: when the spool has reached its
//! largest size, or its disk is full, the process waits while the spooled events move to the trace
//! file.

use super::clock::Clock;
use super::error::Error;
use super::rings::{Copied, ENTRIES, Rings};
use super::sites::Sites;
use super::spool::Spool;
use crate::event::{ANY_NODE, Event, EventKind};
use crate::trace::{Header, Writer};
use slabyard::cache::classes::{ROWS, class_for};
use slabyard_abi::recording::Call;
use std::io::Write;
use std::thread;
use std::time::Duration;

/// Between two looks: less where rings fill, more where they do not.
const LOOKS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));
/// What a thread has begun to write is written by then.
const BEHIND_NS: u64 = 2_000_000;
/// zstd's level.
const LEVEL: i32 = 1;
/// Bytes of the spool, unless the file is to be smaller.
const MOST_SPOOL: u64 = 2 << 30;
/// Events between two signs to the process, and to who waits.
const SIGN: u64 = 1 << 16;

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessProgress {
    /// Calls reported so far.
    pub calls: u64,
    /// Of these in the file.
    pub written: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The rings wait, or have ended, and what was copied is being written.
    pub writes: bool,
}

/// The end of a recording: what was written, and what was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessRecorded {
    /// Events in the file.
    pub events: u64,
    /// Calls that found no room.
    pub lost: u64,
    /// Nanoseconds from the start to the last event.
    pub took_ns: u64,
    /// The file would have become larger than it may.
    pub full: bool,
}

impl Rings {
    /// Records until `over` says that the process has ended and nothing is left; it is asked on while
    /// events are written, when what it says changes nothing. `pid` is whose
    /// mappings tell of what a call site is a part.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record<W: Write>(
        self,
        pid: u32,
        out: W,
        header: &Header,
        most_bytes: u64,
        mut over: impl FnMut(ProcessProgress) -> bool,
    ) -> Result<(ProcessRecorded, Writer<W>), Error> {
        let writer = Writer::new(out, header)?.with_level(LEVEL);
        let mut recording = Recording::new(self, pid, writer, most_bytes)?;
        let (mut pause, mut last) = (LOOKS.0, false);
        loop {
            last = last || over(recording.progress);
            let (copied, fullest) = recording.copy(last)?;
            if last || !copied.all {
                recording.write(copied.until, &mut |progress| {
                    over(progress);
                })?;
            }
            if last && copied.all || recording.done.full {
                recording.rings.close()?;
                return recording.finish();
            }
            pause = next_pause(pause, fullest);
            // With much to do there is no time to sleep.
            if copied.all && fullest < ENTRIES as u64 / 2 {
                thread::sleep(pause);
            }
        }
    }
}

/// The pause before the next look: shorter where rings fill, longer where they do not.
fn next_pause(pause: Duration, fullest: u64) -> Duration {
    let pause = match fullest {
        n if n > ENTRIES as u64 / 4 => pause / 2,
        n if n < ENTRIES as u64 / 16 => pause * 3 / 2,
        _ => pause,
    };
    pause.clamp(LOOKS.0, LOOKS.1)
}

/// A recording under way.
struct Recording<W: Write> {
    rings: Rings,
    spool: Spool,
    sites: Sites,
    writer: Writer<W>,
    /// The file does not become larger.
    most_bytes: u64,
    done: ProcessRecorded,
    progress: ProcessProgress,
}

impl<W: Write> Recording<W> {
    fn new(rings: Rings, pid: u32, writer: Writer<W>, most_bytes: u64) -> Result<Self, Error> {
        let spool = Spool::new(&rings.room, rings.count(), most_bytes.min(MOST_SPOOL))
            .map_err(|error| Error::at(&rings.room, error))?;
        Ok(Recording {
            rings,
            spool,
            sites: Sites::new(pid),
            writer,
            most_bytes,
            done: ProcessRecorded::default(),
            progress: ProcessProgress::default(),
        })
    }

    /// Copies what the rings have into the spool, for the last time perhaps; how much of it, and the
    /// entries of the fullest ring.
    fn copy(&mut self, last: bool) -> Result<(Copied, u64), Error> {
        let until = if last { u64::MAX } else { self.rings.ticks_before(BEHIND_NS) };
        let mut copied = Copied { until, all: true };
        let mut fullest = 0;
        for ring in 0..self.rings.count() {
            let n = self.rings.drain(ring, &mut self.spool, &mut copied)?;
            self.progress.calls += n;
            fullest = fullest.max(n);
        }
        self.rings.sign()?;
        self.name_sites()?;
        if last {
            self.rings.close()?;
        }
        Ok((copied, fullest))
    }

    /// Names the call sites that are new: later the process may have ended, or unloaded what they
    /// are a part of.
    fn name_sites(&mut self) -> Result<(), Error> {
        if let Some(table) = self.rings.new_sites()? {
            self.sites.learn(table.into_iter(), self.writer.names());
        }
        Ok(())
    }

    /// Writes what was copied and is before `until`; reports its progress to `told` now and then.
    fn write(&mut self, until: u64, told: &mut dyn FnMut(ProcessProgress)) -> Result<(), Error> {
        let Recording { rings, spool, sites, writer, done, .. } = self;
        let clock = rings.clock;
        let mut calls = spool.ordered(until)?;
        let all = calls.left() + done.events;
        while let Some(call) = calls.next()? {
            let event = event(call, clock, sites);
            let time = event.time.saturating_sub(clock.ns);
            done.took_ns = done.took_ns.max(time);
            done.events += 1;
            writer.push(&Event { time, ..event })?;
            if done.events.is_multiple_of(SIGN) {
                rings.sign()?;
                let (written, bytes) = (done.events, writer.bytes());
                told(ProcessProgress { calls: all, written, bytes, writes: true });
                done.full = bytes >= self.most_bytes;
                if done.full {
                    break;
                }
            }
        }
        (self.progress.written, self.progress.bytes) = (self.done.events, self.writer.bytes());
        Ok(())
    }

    fn finish(mut self) -> Result<(ProcessRecorded, Writer<W>), Error> {
        self.done.lost = self.rings.lost()?;
        self.writer.lost(self.done.lost);
        Ok((self.done, self.writer))
    }
}

fn event(call: Call, clock: Clock, sites: &Sites) -> Event {
    let class = class_for(call.bytes.max(1) as usize).map_or(0, |class| ROWS[class].0);
    let (kind, requested, allocated) = match call.freed {
        true => (EventKind::Kfree, 0, 0),
        false => (EventKind::Kmalloc, call.bytes as u32, class),
    };
    Event {
        time: clock.ns(call.ticks),
        address: call.address,
        name: sites.name(call.site),
        pid: call.thread,
        requested,
        allocated,
        gfp: 0,
        cpu: call.cpu,
        node: ANY_NODE,
        order: 0,
        kind,
        accounted: false,
        site: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::reader::now;
    use slabyard_abi::recording::{ENTRY, PAGE, SITES_AT, header, ring, ring_at};
    use std::path::Path;

    fn rings(room: &Path) -> Rings {
        Rings::new(2, now, room).unwrap()
    }

    /// As the library writes.
    fn put(rings: &Rings, ring: usize, nth: u64, call: Call) {
        let at = ring_at(ring, ENTRIES);
        let place = at + PAGE + (nth as usize & (ENTRIES - 1)) * ENTRY;
        for (word, offset) in call.words().iter().zip(0..) {
            rings.put(place + offset * 8, *word).unwrap();
        }
        rings.put(at + ring::WRITTEN * 8, nth + 1).unwrap();
    }

    fn call(ticks: u64, freed: bool) -> Call {
        Call { ticks, address: 0x7000, bytes: 100, site: 9, thread: 3, cpu: 1, freed }
    }

    /// The events of a whole recording, whose spool has room for so many entries.
    fn recorded(mut rings: Rings, room: u64) -> (ProcessRecorded, Vec<Event>, Vec<String>) {
        rings.put(SITES_AT + 9 * 8, 0x4000).unwrap();
        rings.put(header::SITES * 8, 1).unwrap();
        rings.clock.ticks = 0;
        let writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        let mut recording = Recording::new(rings, u32::MAX, writer, 1 << 30).unwrap();
        recording.spool = Spool::new(&recording.rings.room, 2, room * ENTRY as u64).unwrap();
        recording.name_sites().unwrap();
        loop {
            let mut copied = Copied { until: u64::MAX, all: true };
            for ring in 0..2 {
                recording.rings.drain(ring, &mut recording.spool, &mut copied).unwrap();
            }
            recording.write(copied.until, &mut |_| {}).unwrap();
            if copied.all {
                break;
            }
        }
        let (done, writer) = (recording.done, recording.writer);
        let file = std::io::Cursor::new(writer.finish().unwrap());
        let trace = crate::trace::Reader::new(file).unwrap().read_all().unwrap();
        let names = trace.names.iter().map(|(_, name)| name.to_owned()).collect();
        (done, trace.events, names)
    }

    #[test]
    fn what_a_process_writes_is_read_in_order_and_once() {
        let room = std::env::temp_dir();
        // More than the spool takes at once, too.
        for spool in [1 << 20, 4] {
            let mut rings = rings(&room);
            // Across the end of the ring.
            rings.read[1] = ENTRIES as u64 - 3;
            for (nth, ticks) in (ENTRIES as u64 - 3..).zip([3, 4, 8, 30, 31]) {
                put(&rings, 1, nth, call(ticks, ticks == 8));
            }
            for (nth, ticks) in (0..).zip([1, 5, 6, 7, 40]) {
                put(&rings, 0, nth, Call { cpu: 0, ..call(ticks, false) });
            }
            let (done, events, names) = recorded(rings, spool);
            let cpus: Vec<_> = events.iter().map(|event| event.cpu).collect();
            assert_eq!(cpus, [0, 1, 1, 0, 0, 0, 1, 1, 1, 0], "{spool}");
            let frees: Vec<_> = events.iter().map(|e| (e.kind, e.requested, e.allocated)).collect();
            assert_eq!(frees[6], (EventKind::Kfree, 0, 0));
            assert_eq!(frees[7], (EventKind::Kmalloc, 100, 112));
            assert_eq!((done.events, done.lost), (10, 0));
            assert!(events.iter().all(|event| names[event.name as usize] == "0x4000"));
        }
    }
}
