//! Records the calls to malloc of one process, which tells of them in rings
//! ([`slabyard_abi::recording`]).
//!
//! ```text
//! ring of a CPU -> spool, a file without a name -> events in one order -> Writer
//!      while the process runs: copied                 when it has ended
//! ```
//!
//! What is done while the process runs takes CPUs from it: entries are copied and call sites
//! named, which needs the process; [`Spool`] puts the rest off. An allocation becomes a
//! [`Kmalloc`](Kind::Kmalloc) whose `allocated` is the size of malloc's class for
//! it, a free a [`Kfree`](Kind::Kfree); names are those of call sites. Requests above the largest
//! class have pages of their own, and no class: `allocated` is 0.
//! The file of the rings is read and written by `pread` and `pwrite`, so that a process that
//! does to it what it likes does nothing to us. Memory: the rings, and a buffer for each. Disk: where the spool
//! is as large as it may become, or its disk full, the process waits until the events have been written.

use super::error::Error;
use super::reader::now;
use super::sites::Sites;
use super::spool::{Piece, Spool};
use crate::event::{ANY_NODE, Event, Kind};
use crate::trace::{Header, Writer};
use rustix::fs::MemfdFlags;
use slabyard::cache::classes::{ROWS, class_for};
use slabyard_abi::recording::{
    Call, ENTRY, MAGIC, MOST_RINGS, PAGE, SITES, SITES_AT, VERSION, bytes, header, ring, ring_at,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Entries of a ring: 6 MiB, of which a process pays what it fills between two looks.
const ENTRIES: usize = 1 << 18;
/// Between two looks: less where rings fill, more where they do not.
const LOOKS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));
/// What a thread has begun to write is written by then.
const BEHIND_NS: u64 = 2_000_000;
/// How long the processor's counter is watched to know its speed.
const WATCH: Duration = Duration::from_millis(40);
/// zstd's level.
const LEVEL: i32 = 1;
/// Bytes of the spool, unless the file is to be smaller.
const MOST_SPOOL: u64 = 2 << 30;
/// Events between two signs to the process, and to who waits.
const SIGN: u64 = 1 << 16;

/// The rings of a process that does not run yet.
pub struct Rings {
    file: File,
    rings: usize,
    read: Vec<u64>,
    /// Call sites that were named.
    named: u64,
    signs: u64,
    ticks: fn() -> u64,
    clock: Clock,
    room: PathBuf,
}

/// The processor's counter as nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ticks: u64,
    ns: u64,
    /// Nanoseconds of 2^32 ticks.
    each: u64,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Far {
    /// Calls told so far.
    pub calls: u64,
    /// Of these in the file.
    pub written: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The rings wait, or have ended, and what was copied is being written.
    pub writes: bool,
}

/// How much of the rings is in the spool.
struct Copied {
    /// All before this time, by the processor's counter.
    until: u64,
    /// All that was there when it was looked at.
    all: bool,
}

/// What was recorded of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfProcess {
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
    /// Makes them, for a machine of so many CPUs. `ticks` reads the processor's counter; `room` is
    /// where there is disk for what is not written yet.
    ///
    /// # Errors
    /// The system has no memory for them.
    pub fn new(cpus: usize, ticks: fn() -> u64, room: &Path) -> io::Result<Rings> {
        let rings = cpus.clamp(1, MOST_RINGS);
        let file = File::from(rustix::fs::memfd_create("slabyard-rings", MemfdFlags::CLOEXEC)?);
        file.set_len(bytes(rings, ENTRIES) as u64)?;
        let words = [
            (header::MAGIC, MAGIC),
            (header::VERSION, VERSION),
            (header::RINGS, rings as u64),
            (header::ENTRIES, ENTRIES as u64),
        ];
        for (at, word) in words {
            file.write_all_at(&word.to_ne_bytes(), at as u64 * 8)?;
        }
        let (clock, room) = (Clock::watch(ticks), room.to_owned());
        Ok(Rings { file, rings, read: vec![0; rings], named: 0, signs: 0, ticks, clock, room })
    }

    /// The file's name, for the process, which must be one of the same user's.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Records until `over` says that the process has ended and nothing is left; it is asked on while
    /// events are written, when what it says changes nothing. `pid` is whose
    /// mappings tell of what a call site is a part.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record<W: Write>(
        mut self,
        pid: u32,
        out: W,
        header: &Header,
        most_bytes: u64,
        mut over: impl FnMut(Far) -> bool,
    ) -> Result<(OfProcess, Writer<W>), Error> {
        let mut writer = Writer::new(out, header)?.with_level(LEVEL);
        let mut spool = Spool::new(&self.room, self.rings, most_bytes.min(MOST_SPOOL))
            .map_err(|error| Error::at(&self.room, error))?;
        let mut sites = Sites::new(pid);
        let (mut done, mut far) = (OfProcess::default(), Far::default());
        let (mut look, mut last) = (LOOKS.0, false);
        loop {
            last = last || over(far);
            let until = (self.ticks)().saturating_sub(self.clock.ticks_of(BEHIND_NS));
            let mut copied = Copied { until: if last { u64::MAX } else { until }, all: true };
            let mut fullest = 0;
            for ring in 0..self.rings {
                let n = self.drain(ring, &mut spool, &mut copied)?;
                far.calls += n;
                fullest = fullest.max(n);
            }
            self.sign()?;
            self.name_sites(&mut sites, &mut writer)?;
            if last {
                // What is called from now on is no part of it.
                self.put(header::OVER * 8, 1)?;
            }
            if last || !copied.all {
                let told = |far| {
                    over(far);
                };
                let until = copied.until;
                self.write(&mut spool, until, most_bytes, &sites, &mut writer, &mut done, told)?;
                (far.written, far.bytes) = (done.events, writer.bytes());
            }
            if last && copied.all || done.full {
                self.put(header::OVER * 8, 1)?;
                break;
            }
            look = match fullest {
                n if n > ENTRIES as u64 / 4 => look / 2,
                n if n < ENTRIES as u64 / 16 => look * 3 / 2,
                _ => look,
            };
            look = look.clamp(LOOKS.0, LOOKS.1);
            // With much to do there is no time to sleep.
            if copied.all && fullest < ENTRIES as u64 / 2 {
                thread::sleep(look);
            }
        }
        done.lost = self.word(header::LOST * 8)?;
        writer.lost(done.lost);
        Ok((done, writer))
    }

    /// Copies what a ring has since it was read last, as far as the spool takes it; their number.
    fn drain(&mut self, ring: usize, spool: &mut Spool, copied: &mut Copied) -> Result<u64, Error> {
        let at = ring_at(ring, ENTRIES);
        let written = self.word(at + ring::WRITTEN * 8)?;
        let read = self.read[ring];
        let end = read + written.wrapping_sub(read).min(ENTRIES as u64);
        let mut nth = read;
        while nth < end {
            let place = nth as usize & (ENTRIES - 1);
            let entries = ((end - nth) as usize).min(ENTRIES - place);
            let from = (at + PAGE + place * ENTRY) as u64;
            let n = spool.copy(&self.file, Piece { ring, from, entries })?;
            nth += n as u64;
            if n < entries {
                let next = from + (n * ENTRY) as u64;
                copied.until = copied.until.min(self.word(next as usize)?);
                copied.all = false;
                break;
            }
        }
        if nth != read {
            self.read[ring] = nth;
            self.put(at + ring::READ * 8, nth)?;
        }
        Ok(nth - read)
    }

    /// Names the call sites that are new: later the process may have ended, or unloaded what they
    /// are a part of.
    fn name_sites<W: Write>(
        &mut self,
        sites: &mut Sites,
        writer: &mut Writer<W>,
    ) -> Result<(), Error> {
        let taken = self.word(header::SITES * 8)?;
        if taken != self.named {
            let mut table = vec![0; SITES * 8];
            let read = self.file.read_exact_at(&mut table, SITES_AT as u64);
            read.map_err(|error| Error::at("the rings", error))?;
            let table = table.as_chunks::<8>().0.iter().map(|site| u64::from_ne_bytes(*site));
            sites.learn(table, writer.names());
            self.named = taken;
        }
        Ok(())
    }

    /// Writes what was copied and is before `until`.
    #[allow(clippy::too_many_arguments)]
    fn write<W: Write>(
        &mut self,
        spool: &mut Spool,
        until: u64,
        most_bytes: u64,
        sites: &Sites,
        writer: &mut Writer<W>,
        done: &mut OfProcess,
        mut told: impl FnMut(Far),
    ) -> Result<(), Error> {
        let (clock, start) = (self.clock, self.clock.ns);
        let mut calls = spool.ordered(until)?;
        let all = calls.left() + done.events;
        while let Some(call) = calls.next()? {
            let event = event(call, clock, sites);
            let time = event.time.saturating_sub(start);
            done.took_ns = done.took_ns.max(time);
            done.events += 1;
            writer.push(&Event { time, ..event })?;
            if done.events.is_multiple_of(SIGN) {
                self.sign()?;
                told(Far { calls: all, written: done.events, bytes: writer.bytes(), writes: true });
                done.full = writer.bytes() >= most_bytes;
                if done.full {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Lets the process know that it is worth waiting.
    fn sign(&mut self) -> Result<(), Error> {
        self.signs += 1;
        self.put(header::ALIVE * 8, self.signs)
    }

    fn word(&self, at: usize) -> Result<u64, Error> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at as u64).map_err(|e| Error::at("the rings", e))?;
        Ok(u64::from_ne_bytes(word))
    }

    fn put(&self, at: usize, word: u64) -> Result<(), Error> {
        let put = self.file.write_all_at(&word.to_ne_bytes(), at as u64);
        put.map_err(|error| Error::at("the rings", error))
    }
}

fn event(call: Call, clock: Clock, sites: &Sites) -> Event {
    let class = class_for(call.bytes.max(1) as usize).map_or(0, |class| ROWS[class].0);
    let (kind, requested, allocated) = match call.freed {
        true => (Kind::Kfree, 0, 0),
        false => (Kind::Kmalloc, call.bytes as u32, class),
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

impl Clock {
    fn watch(ticks: fn() -> u64) -> Clock {
        let (from, from_ns) = (ticks(), now());
        thread::sleep(WATCH);
        let (to, to_ns) = (ticks(), now());
        let took = u128::from(to_ns - from_ns) << 32;
        let each = took / u128::from(to.wrapping_sub(from).max(1));
        Clock { ticks: to, ns: to_ns, each: each as u64 }
    }

    fn ns(self, ticks: u64) -> u64 {
        let since = u128::from(ticks.saturating_sub(self.ticks));
        self.ns + ((since * u128::from(self.each)) >> 32) as u64
    }

    fn ticks_of(self, ns: u64) -> u64 {
        ((u128::from(ns) << 32) / u128::from(self.each.max(1))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_told_as_nanoseconds() {
        let clock = Clock { ticks: 1000, ns: 50, each: 1 << 31 };
        assert_eq!((clock.ns(1000), clock.ns(3000), clock.ns(0)), (50, 1050, 50));
        assert_eq!(clock.ticks_of(1000), 2000);
    }

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
    fn recorded(mut rings: Rings, room: u64) -> (OfProcess, Vec<Event>, Vec<String>) {
        rings.put(SITES_AT + 9 * 8, 0x4000).unwrap();
        rings.put(header::SITES * 8, 1).unwrap();
        rings.clock.ticks = 0;
        let mut spool = Spool::new(&rings.room, 2, room * ENTRY as u64).unwrap();
        let (mut sites, mut done) = (Sites::new(u32::MAX), OfProcess::default());
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        rings.name_sites(&mut sites, &mut writer).unwrap();
        loop {
            let mut copied = Copied { until: u64::MAX, all: true };
            for ring in 0..2 {
                rings.drain(ring, &mut spool, &mut copied).unwrap();
            }
            let until = copied.until;
            rings
                .write(&mut spool, until, 1 << 30, &sites, &mut writer, &mut done, |_| {})
                .unwrap();
            if copied.all {
                break;
            }
        }
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
            assert_eq!(frees[6], (Kind::Kfree, 0, 0));
            assert_eq!(frees[7], (Kind::Kmalloc, 100, 112));
            assert_eq!((done.events, done.lost), (10, 0));
            assert!(events.iter().all(|event| names[event.name as usize] == "0x4000"));
        }
    }
}
