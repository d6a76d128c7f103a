//! Records the calls to malloc of one process, which tells of them in rings
//! ([`slabyard_abi::recording`]).
//!
//! An allocation becomes a [`Kmalloc`](Kind::Kmalloc) whose `allocated` is the size of malloc's class for
//! it, a free a [`Kfree`](Kind::Kfree); names are those of call sites. Requests above the largest
//! class have pages of their own, and no class: `allocated` is 0.
//! The file of the rings is read and written by `pread` and `pwrite`, so that a process that
//! does to it what it likes does nothing to us. Memory: the rings, and what is not yet in order.

use super::error::Error;
use super::merge::Merge;
use super::reader::{Batch, now};
use super::sites::Sites;
use crate::event::{ANY_NODE, Event, Kind};
use crate::trace::{Header, Names, Writer};
use rustix::fs::MemfdFlags;
use slabyard::cache::classes::{ROWS, class_for};
use slabyard_abi::recording::{
    Call, ENTRY, MAGIC, MOST_RINGS, PAGE, VERSION, bytes, header, ring, ring_at,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Entries of a ring: 8 MiB, of which a process pays what it fills between two looks.
const ENTRIES: usize = 1 << 18;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// What a thread has begun to write is written by then.
const BEHIND_NS: u64 = 2_000_000;
/// How long the processor's counter is watched to know its speed.
const WATCH: Duration = Duration::from_millis(40);
/// zstd's level.
const LEVEL: i32 = 1;

/// The rings of a process that does not run yet.
pub struct Rings {
    file: File,
    rings: usize,
    read: Vec<u64>,
    clock: Clock,
}

/// The processor's counter as nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ticks: u64,
    ns: u64,
    /// Nanoseconds of 2^32 ticks.
    each: u64,
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
    /// Makes them, for a machine of so many CPUs. `ticks` reads the processor's counter.
    ///
    /// # Errors
    /// The system has no memory for them.
    pub fn new(cpus: usize, ticks: fn() -> u64) -> io::Result<Rings> {
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
        Ok(Rings { file, rings, read: vec![0; rings], clock: Clock::watch(ticks) })
    }

    /// The file's name, for the process, which must be one of the same user's.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Records until `over` says that the process has ended and nothing is left. `pid` is whose
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
        mut over: impl FnMut(u64, u64) -> bool,
    ) -> Result<(OfProcess, Writer<W>), Error> {
        let mut writer = Writer::new(out, header)?.with_level(LEVEL);
        let mut merge = Merge::new((0..self.rings).map(|ring| ring as u16));
        let mut sites = Sites::new(pid);
        let (mut names, mut done) = (Names::new(), OfProcess::default());
        let start = self.clock.ns;
        let mut ordered: Vec<Event> = Vec::new();
        loop {
            let last = over(done.events, writer.bytes());
            let until = now().saturating_sub(BEHIND_NS);
            let mut found = 0;
            for ring in 0..self.rings {
                let events = self.drain(ring, &mut sites)?;
                found += events.len();
                let until = if last { u64::MAX } else { until };
                let new = sites.new_names(ring);
                merge.add(
                    Batch { cpu: ring as u16, events, names: new, until, lost: 0 },
                    &mut names,
                );
            }
            merge.complete(&mut ordered);
            std::mem::swap(writer.names(), &mut names);
            for event in ordered.drain(..) {
                let time = event.time.saturating_sub(start);
                done.took_ns = done.took_ns.max(time);
                done.events += 1;
                writer.push(&Event { time, ..event })?;
            }
            std::mem::swap(writer.names(), &mut names);
            done.full = writer.bytes() >= most_bytes;
            if last || done.full {
                break;
            }
            // With much to do there is no time to sleep.
            if found < ENTRIES / 8 {
                thread::sleep(LOOK);
            }
        }
        done.lost = self.word(header::LOST * 8)?;
        writer.lost(done.lost);
        *writer.names() = names;
        Ok((done, writer))
    }

    /// What a ring has since it was read last.
    fn drain(&mut self, ring: usize, sites: &mut Sites) -> Result<Vec<Event>, Error> {
        let at = ring_at(ring, ENTRIES);
        let written = self.word(at + ring::WRITTEN * 8)?;
        let read = self.read[ring];
        let n = written.wrapping_sub(read).min(ENTRIES as u64);
        let mut events = Vec::with_capacity(n as usize);
        let mut bytes = vec![0; (n as usize).min(1 << 14) * ENTRY];
        let mut nth = read;
        while nth < read + n {
            let place = nth as usize & (ENTRIES - 1);
            let piece = ((read + n - nth) as usize).min(ENTRIES - place).min(1 << 14);
            let bytes = &mut bytes[..piece * ENTRY];
            let from = (at + PAGE + place * ENTRY) as u64;
            self.file.read_exact_at(bytes, from).map_err(|e| Error::at("the rings", e))?;
            for entry in bytes.chunks_exact(ENTRY) {
                let mut words = [0; 4];
                for (word, bytes) in words.iter_mut().zip(entry.as_chunks::<8>().0) {
                    *word = u64::from_ne_bytes(*bytes);
                }
                events.push(self.event(Call::of(words), ring, sites));
            }
            nth += piece as u64;
        }
        self.read[ring] = read + n;
        let word = self.read[ring].to_ne_bytes();
        let at = (at + ring::READ * 8) as u64;
        self.file.write_all_at(&word, at).map_err(|e| Error::at("the rings", e))?;
        Ok(events)
    }

    fn event(&self, call: Call, ring: usize, sites: &mut Sites) -> Event {
        let requested = u32::try_from(call.bytes).unwrap_or(u32::MAX);
        let class = class_for(call.bytes.max(1) as usize).map_or(0, |class| ROWS[class].0);
        let (kind, requested, allocated) = match call.freed {
            true => (Kind::Kfree, 0, 0),
            false => (Kind::Kmalloc, requested, class),
        };
        Event {
            time: self.clock.ns(call.ticks),
            address: call.address,
            name: sites.number(ring, call.site),
            pid: call.thread,
            requested,
            allocated,
            gfp: 0,
            cpu: call.cpu,
            node: ANY_NODE,
            order: 0,
            kind,
            accounted: false,
        }
    }

    fn word(&self, at: usize) -> Result<u64, Error> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at as u64).map_err(|e| Error::at("the rings", e))?;
        Ok(u64::from_ne_bytes(word))
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_told_as_nanoseconds() {
        let clock = Clock { ticks: 1000, ns: 50, each: 1 << 31 };
        assert_eq!((clock.ns(1000), clock.ns(3000), clock.ns(0)), (50, 1050, 50));
    }

    #[test]
    fn what_a_process_writes_is_read_in_order_and_once() {
        let mut rings = Rings::new(2, now).unwrap();
        let mut sites = Sites::new(std::process::id());
        let call = |ticks, freed| Call {
            ticks,
            address: 0x7000,
            bytes: 100,
            site: 0x4000,
            thread: 3,
            cpu: 1,
            freed,
        };
        let at = ring_at(1, ENTRIES);
        let put = |rings: &Rings, nth: u64, call: Call| {
            let place = (at + PAGE) as u64 + (nth & (ENTRIES as u64 - 1)) * ENTRY as u64;
            for (word, offset) in call.words().iter().zip(0..) {
                rings.file.write_all_at(&word.to_ne_bytes(), place + offset * 8).unwrap();
            }
            let written = (nth + 1).to_ne_bytes();
            rings.file.write_all_at(&written, (at + ring::WRITTEN * 8) as u64).unwrap();
        };
        // Across the end of the ring.
        rings.read[1] = ENTRIES as u64 - 1;
        put(&rings, ENTRIES as u64 - 1, call(now(), false));
        put(&rings, ENTRIES as u64, call(now(), true));
        let events = rings.drain(1, &mut sites).unwrap();
        let told: Vec<_> = events.iter().map(|e| (e.kind, e.requested, e.allocated)).collect();
        assert_eq!(told, [(Kind::Kmalloc, 100, 112), (Kind::Kfree, 0, 0)]);
        assert!(events[0].time <= events[1].time && events[0].name == events[1].name);
        assert_eq!(rings.drain(1, &mut sites).unwrap(), []);
        assert_eq!(rings.word(at + ring::READ * 8).unwrap(), ENTRIES as u64 + 1);
    }
}
