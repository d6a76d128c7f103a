//! Events that can be read repeatedly: from memory, or from a trace file, one block at a time.
//!
//! [`super::Source`] holds everything else that is known about a trace; [`crate::prepare`] makes
//! the passes. Invariant: each pass yields the same events, or ends with an error.

use super::error::Error;
use super::reader::Reader;
use crate::event::Event;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Events of a block; those of a file have up to a chunk more.
const BLOCK: usize = 1 << 16;

/// Events to pass over.
#[derive(Clone, Copy, Debug)]
pub enum Events<'a> {
    /// In memory.
    Held(&'a [Event]),
    /// In a file.
    Stored(&'a Stored),
}

/// The events of a file of ours that is open.
#[derive(Clone, Debug)]
pub struct Stored {
    file: Arc<File>,
    /// Events of a block, to which a chunk more is added.
    pub(super) block: usize,
    pub(super) nr_events: u64,
    pub(super) span: RangeInclusive<u64>,
}

impl Stored {
    /// Of a file whose events are not known yet.
    pub(super) fn new(file: File) -> Stored {
        Stored { file: Arc::new(file), block: BLOCK, nr_events: 0, span: 0..=0 }
    }

    /// Begins a pass.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn pass(&self) -> Result<Pass<'static>, Error> {
        let reader = Box::new(self.reader()?);
        Ok(Pass(PassSource::Stored { reader, least: self.block, block: Vec::new() }))
    }

    pub(super) fn reader(&self) -> Result<Reader<SharedFile>, Error> {
        Reader::new(SharedFile { file: Arc::clone(&self.file), at: 0 })
    }
}

impl<'a> Events<'a> {
    /// How many there are.
    #[must_use]
    pub fn len(self) -> u64 {
        match self {
            Events::Held(events) => events.len() as u64,
            Events::Stored(stored) => stored.nr_events,
        }
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The least and the greatest time.
    #[must_use]
    pub fn span(self) -> RangeInclusive<u64> {
        match self {
            // Times of several CPUs may cross by a little.
            Events::Held(events) => {
                let first = events.iter().map(|event| event.time).min().unwrap_or(0);
                let last = events.iter().map(|event| event.time).max().unwrap_or(0);
                first..=last
            }
            Events::Stored(stored) => stored.span.clone(),
        }
    }

    /// Begins a pass.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn pass(self) -> Result<Pass<'a>, Error> {
        match self {
            Events::Held(events) => Ok(Pass(PassSource::Held(events.chunks(BLOCK)))),
            Events::Stored(stored) => stored.pass(),
        }
    }
}

/// One pass over events.
pub struct Pass<'a>(PassSource<'a>);

enum PassSource<'a> {
    Held(std::slice::Chunks<'a, Event>),
    Stored { reader: Box<Reader<SharedFile>>, least: usize, block: Vec<Event> },
}

impl Pass<'_> {
    /// The next block of events, or `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read on.
    pub fn next_block(&mut self) -> Result<Option<&[Event]>, Error> {
        match &mut self.0 {
            PassSource::Held(blocks) => Ok(blocks.next()),
            PassSource::Stored { reader, least, block } => {
                block.clear();
                while block.len() < *least && reader.next_chunk(block)?.is_some() {}
                Ok((!block.is_empty()).then_some(&**block))
            }
        }
    }
}

/// An open file, with a place of its own in it.
#[derive(Debug)]
pub struct SharedFile {
    file: Arc<File>,
    at: u64,
}

impl Read for SharedFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for SharedFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
