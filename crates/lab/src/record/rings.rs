//! The rings into which a process writes its calls to malloc, one for each CPU, in an unnamed file
//! shared by the process and the recorder ([`slabyard_abi::recording`]).
//!
//! [`super::process`] empties the rings into [`super::spool`]. Invariant: the recorder accesses the
//! file by `pread` and `pwrite`, so a process cannot harm the recorder by what it does to the file.

use super::clock::Clock;
use super::error::Error;
use super::spool::{Spool, SpooledRun};
use rustix::fs::MemfdFlags;
use slabyard_abi::recording::{
    ENTRY, MAGIC, MOST_RINGS, PAGE, SITES, SITES_AT, VERSION, bytes, header, ring, ring_at,
};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Entries of a ring: 6 MiB, of which a process pays for what it fills between two reads.
pub(super) const ENTRIES: usize = 1 << 18;

/// The rings of a process that is not yet running.
pub struct Rings {
    file: File,
    rings: usize,
    pub(super) read: Vec<u64>,
    /// Call sites that were named.
    named: u64,
    signs: u64,
    ticks: fn() -> u64,
    pub(super) clock: Clock,
    /// Where there is disk for what is not written yet.
    pub(super) room: PathBuf,
}

/// How much of the rings is in the spool.
pub(super) struct Copied {
    /// All before this time, by the processor's counter.
    pub(super) until: u64,
    /// All entries that were in the ring when it was read.
    pub(super) all: bool,
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

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.rings
    }

    /// The time this many nanoseconds ago, by the processor's counter.
    pub(super) fn ticks_before(&self, ns: u64) -> u64 {
        (self.ticks)().saturating_sub(self.clock.ticks_of(ns))
    }

    /// Copies what a ring has since it was read last, as far as the spool takes it; their number.
    pub(super) fn drain(
        &mut self,
        ring: usize,
        spool: &mut Spool,
        copied: &mut Copied,
    ) -> Result<u64, Error> {
        let at = ring_at(ring, ENTRIES);
        let written = self.word(at + ring::WRITTEN * 8)?;
        let read = self.read[ring];
        let end = read + written.wrapping_sub(read).min(ENTRIES as u64);
        let mut nth = read;
        while nth < end {
            let place = nth as usize & (ENTRIES - 1);
            let entries = ((end - nth) as usize).min(ENTRIES - place);
            let from = (at + PAGE + place * ENTRY) as u64;
            let n = spool.copy(&self.file, SpooledRun { ring, from, entries })?;
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

    /// The table of call sites, if the process has added to it since.
    pub(super) fn new_sites(&mut self) -> Result<Option<Vec<u64>>, Error> {
        let taken = self.word(header::SITES * 8)?;
        if taken == self.named {
            return Ok(None);
        }
        let mut table = vec![0; SITES * 8];
        let read = self.file.read_exact_at(&mut table, SITES_AT as u64);
        read.map_err(|error| Error::at("the rings", error))?;
        self.named = taken;
        Ok(Some(table.as_chunks::<8>().0.iter().map(|site| u64::from_ne_bytes(*site)).collect()))
    }

    /// Later calls are no part of the recording.
    pub(super) fn close(&self) -> Result<(), Error> {
        self.put(header::OVER * 8, 1)
    }

    /// Calls that found no room.
    pub(super) fn lost(&self) -> Result<u64, Error> {
        self.word(header::LOST * 8)
    }

    /// Lets the process know that it is worth waiting.
    pub(super) fn sign(&mut self) -> Result<(), Error> {
        self.signs += 1;
        self.put(header::ALIVE * 8, self.signs)
    }

    pub(super) fn word(&self, at: usize) -> Result<u64, Error> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at as u64).map_err(|e| Error::at("the rings", e))?;
        Ok(u64::from_ne_bytes(word))
    }

    pub(super) fn put(&self, at: usize, word: u64) -> Result<(), Error> {
        let put = self.file.write_all_at(&word.to_ne_bytes(), at as u64);
        put.map_err(|error| Error::at("the rings", error))
    }
}
