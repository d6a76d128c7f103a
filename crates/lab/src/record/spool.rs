//! Stores ring entries that were copied from a process and not yet converted to events, in an
//! unnamed file of pieces, each from one ring. The entries are read back in order of time.
//!
//! [`process`](super::process) fills the spool while the process runs, and empties it afterwards.
//! Invariants: the pieces of a ring are in the order of its entries, whose times increase; a piece
//! is released when its last entry was read; the file is empty when there are no pieces.

use super::error::Error;
use slabyard_abi::recording::{Call, ENTRY};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Entries that are copied at once.
const AT_ONCE: usize = 1 << 13;
/// Entries that are read at once of all rings together, and of one at the least.
const BUFFERS: usize = 1 << 17;
const BUFFER: usize = 1 << 6;

/// The file, and what is where in it.
pub struct Spool {
    file: File,
    rings: Vec<OfRing>,
    buffer: Vec<u8>,
    bytes: u64,
    most_bytes: u64,
}

/// Some entries of a ring, one behind the other: where they are in the file.
#[derive(Clone, Copy, Debug)]
pub struct SpooledRun {
    pub ring: usize,
    pub from: u64,
    pub entries: usize,
}

#[derive(Default)]
struct OfRing {
    pieces: VecDeque<SpooledRun>,
    /// Read, and not yet given: the last one first.
    calls: Vec<Call>,
}

impl Spool {
    /// An empty one for so many rings, in a directory, or if none is writable, where the OS has its
    /// temporary files.
    pub fn new(room: &Path, rings: usize, most_bytes: u64) -> io::Result<Spool> {
        let file = tempfile::tempfile_in(room).or_else(|_| tempfile::tempfile())?;
        let rings = (0..rings).map(|_| OfRing::default()).collect();
        let buffer = vec![0; AT_ONCE * ENTRY];
        Ok(Spool { file, rings, buffer, bytes: 0, most_bytes })
    }

    /// Copies a piece of the rings' file; how many of its entries. Fewer: there is no more room until
    /// something was given.
    ///
    /// # Errors
    /// The rings cannot be read, or an empty spool not be written.
    pub fn copy(&mut self, rings: &File, piece: SpooledRun) -> Result<usize, Error> {
        let mut copied = 0;
        while copied < piece.entries {
            let n = (piece.entries - copied).min(AT_ONCE);
            let bytes = (n * ENTRY) as u64;
            // One piece is taken at the least.
            if self.bytes > 0 && self.bytes + bytes > self.most_bytes {
                break;
            }
            let buffer = &mut self.buffer[..n * ENTRY];
            let from = piece.from + (copied * ENTRY) as u64;
            rings.read_exact_at(buffer, from).map_err(|error| Error::at("the rings", error))?;
            match self.file.write_all_at(buffer, self.bytes) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull && self.bytes > 0 => break,
                Err(error) => return Err(Error::at("a temporary file for the calls", error)),
            }
            let ring = &mut self.rings[piece.ring];
            match ring.pieces.back_mut() {
                Some(last) if last.from + (last.entries * ENTRY) as u64 == self.bytes => {
                    last.entries += n;
                }
                _ => {
                    let new = SpooledRun { ring: piece.ring, from: self.bytes, entries: n };
                    ring.pieces.push_back(new);
                }
            }
            self.bytes += bytes;
            copied += n;
        }
        Ok(copied)
    }

    /// Gives what is before `until`, in order; of the same time that of the lower ring first.
    pub fn ordered(&mut self, until: u64) -> Result<MergedEntries<'_>, Error> {
        let mut first = BinaryHeap::new();
        for ring in 0..self.rings.len() {
            if let Some(ticks) = self.next_ticks(ring)? {
                first.push(Reverse((ticks, ring)));
            }
        }
        Ok(MergedEntries { spool: self, first, until })
    }

    /// The time of a ring's next entry.
    fn next_ticks(&mut self, ring: usize) -> Result<Option<u64>, Error> {
        if self.rings[ring].calls.is_empty() {
            self.fill(ring)?;
        }
        Ok(self.rings[ring].calls.last().map(|call| call.ticks))
    }

    fn fill(&mut self, ring: usize) -> Result<(), Error> {
        let most = (BUFFERS / self.rings.len()).clamp(BUFFER, AT_ONCE);
        let OfRing { pieces, calls } = &mut self.rings[ring];
        let Some(piece) = pieces.front_mut() else { return Ok(()) };
        let n = piece.entries.min(most);
        let bytes = &mut self.buffer[..n * ENTRY];
        let read = self.file.read_exact_at(bytes, piece.from);
        read.map_err(|error| Error::at("a temporary file for the calls", error))?;
        calls.extend(bytes.as_chunks::<ENTRY>().0.iter().rev().map(|entry| {
            let mut words = [0; ENTRY / 8];
            for (word, bytes) in words.iter_mut().zip(entry.as_chunks::<8>().0) {
                *word = u64::from_ne_bytes(*bytes);
            }
            Call::of(words)
        }));
        piece.from += (n * ENTRY) as u64;
        piece.entries -= n;
        if piece.entries == 0 {
            pieces.pop_front();
        }
        Ok(())
    }

    /// Entries that are not given yet.
    fn left(&self) -> u64 {
        let of = |ring: &OfRing| {
            ring.calls.len() + ring.pieces.iter().map(|piece| piece.entries).sum::<usize>()
        };
        self.rings.iter().map(|ring| of(ring) as u64).sum()
    }

    /// Reads all pieces of the file into memory, of which there are few, and makes the file empty.
    fn clear(&mut self) -> Result<(), Error> {
        for ring in 0..self.rings.len() {
            // What is read is put before what was read before, whose last one is the next.
            while !self.rings[ring].pieces.is_empty() {
                let before = std::mem::take(&mut self.rings[ring].calls);
                self.fill(ring)?;
                self.rings[ring].calls.extend(before);
            }
        }
        self.bytes = 0;
        self.file.set_len(0).map_err(|error| Error::at("a temporary file for the calls", error))
    }
}

/// Entries of all rings, in one order.
pub struct MergedEntries<'a> {
    spool: &'a mut Spool,
    first: BinaryHeap<Reverse<(u64, usize)>>,
    until: u64,
}

impl MergedEntries<'_> {
    /// Entries that are not given yet, also those that will not be before `until`.
    pub fn left(&self) -> u64 {
        self.spool.left()
    }

    /// The next one. After the last the spool's file is empty: what is later is in memory.
    pub fn next(&mut self) -> Result<Option<Call>, Error> {
        let Some(mut top) = self.first.peek_mut() else {
            self.spool.clear()?;
            return Ok(None);
        };
        let Reverse((ticks, ring)) = *top;
        if ticks >= self.until && self.until != u64::MAX {
            drop(top);
            self.spool.clear()?;
            return Ok(None);
        }
        let call = self.spool.rings[ring].calls.pop();
        match self.spool.next_ticks(ring)? {
            Some(ticks) => *top = Reverse((ticks, ring)),
            None => {
                std::collections::binary_heap::PeekMut::pop(top);
            }
        }
        Ok(call)
    }
}
