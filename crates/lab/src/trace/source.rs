//! A trace as the source of a replay: the events of a long trace stay in the file.
//!
//! [`super::passes`] reads the events; [`super::Trace`] is a trace held whole in memory. Invariant:
//! everything reported about the events (their number, their times, damage) describes the events
//! that a pass yields.

use super::attached::{Attached, MALLOC};
use super::error::{Damage, Error};
use super::header::Header;
use super::names::Names;
use super::passes::{Events, Stored};
use super::reader::Reader;
use super::whole::Trace;
use super::{first_bytes, is_ours, read_on};
use crate::event::Event;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, Write};
use std::ops::RangeInclusive;
use std::path::Path;

/// A trace with at least this many events stays in its file. The steps of shorter ones are made
/// once, and are in memory then, which is faster for the many replays of a check.
pub const LONG: u64 = 4 << 20;

/// Bytes of a stream that are read in memory.
const SHORT: u64 = 16 << 20;

/// A trace to be passed over.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// What [`Event::name`] is an index of.
    pub names: Names,
    /// What is known of the machine.
    pub header: Header,
    /// Events that the recorder lost.
    pub lost: u64,
    /// Parts of the file that were skipped.
    pub damaged: Vec<Damage>,
    /// What is attached to it, as the snapshots of its recording.
    pub attached: Vec<Attached>,
    held: Vec<Event>,
    stored: Option<Stored>,
    nr_events: u64,
    span: (u64, u64),
}

impl Source {
    /// Opens a file of ours of at least so many events, and reads through all of it once; `None`
    /// for all others, which are read whole.
    ///
    /// # Errors
    /// It is one of ours, and cannot be read.
    pub fn open_long(path: &Path, least: u64) -> Result<Option<Source>, Error> {
        let open = || -> Result<Option<Source>, Error> {
            let mut file = File::open(path)?;
            if !file.metadata()?.is_file() || !is_ours(&first_bytes(&mut file)?) {
                return Ok(None);
            }
            file.rewind()?;
            Source::of_file(file, least)
        };
        open().map_err(|error| error.in_file(path))
    }

    /// Reads a trace from a stream; one of ours that is long goes through a file without a name.
    ///
    /// # Errors
    /// It is none, or cannot be read, or the file not written.
    pub fn read_long(mut input: impl Read, least: u64) -> Result<Source, Error> {
        let first = first_bytes(&mut input)?;
        if !is_ours(&first) || least == u64::MAX {
            return read_on(first, input).map(Source::from);
        }
        Source::spool(first, input, least)
    }

    /// The rest of a stream that began with `first`: a short one is read in memory, one that is longer
    /// goes through a file without a name.
    fn spool(first: Vec<u8>, mut input: impl Read, least: u64) -> Result<Source, Error> {
        let mut begin = first;
        Read::take(&mut input, SHORT).read_to_end(&mut begin)?;
        if (begin.len() as u64) < SHORT {
            return Ok(Reader::new(Cursor::new(begin))?.read_all()?.into());
        }
        let mut file = tempfile::tempfile()?;
        file.write_all(&begin)?;
        drop(begin);
        io::copy(&mut input, &mut file)?;
        match Source::of_file(file.try_clone()?, least)? {
            Some(source) => Ok(source),
            None => Ok(Reader::new(file)?.read_all()?.into()),
        }
    }

    fn of_file(file: File, least: u64) -> Result<Option<Source>, Error> {
        let mut stored = Stored::new(file);
        let mut reader = stored.reader()?;
        // Where the kernel has its memory must be found in all events, and calls of a process's
        // malloc are placed in memory.
        if reader.events() < least || reader.header().frames().is_none() {
            return Ok(None);
        }
        let attached = reader.attached()?;
        if attached.iter().any(|attached| attached.name == MALLOC) {
            return Ok(None);
        }
        let (mut nr_events, mut first, mut last) = (0, u64::MAX, 0);
        let mut events = Vec::new();
        while reader.next_chunk(&mut events)?.is_some() {
            nr_events += events.len() as u64;
            for event in events.drain(..) {
                first = first.min(event.time);
                last = last.max(event.time);
            }
        }
        let span = (first.min(last), last);
        (stored.nr_events, stored.span) = (nr_events, span.0..=span.1);
        let mut damaged = reader.damaged().to_vec();
        damaged.sort_by_key(|damage| damage.at);
        Ok(Some(Source {
            names: reader.names().clone(),
            header: reader.header().clone(),
            lost: reader.lost(),
            damaged,
            attached,
            held: Vec::new(),
            stored: Some(stored),
            nr_events,
            span,
        }))
    }

    /// In the order of the file, whether they are in memory or read again at each pass.
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        self.stored.as_ref().map_or(Events::Held(&self.held), Events::Stored)
    }

    /// How many events there are.
    #[must_use]
    pub fn nr_events(&self) -> u64 {
        self.nr_events
    }

    /// The least and the greatest time.
    #[must_use]
    pub fn span(&self) -> RangeInclusive<u64> {
        self.span.0..=self.span.1
    }

    /// What is attached under a name.
    #[must_use]
    pub fn attachment(&self, name: &str) -> Option<&Attached> {
        self.attached.iter().find(|attached| attached.name == name)
    }

    /// Takes the events out, for who needs all of them in memory.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn take_whole(&mut self) -> Result<Trace, Error> {
        let mut events = std::mem::take(&mut self.held);
        if let Some(stored) = self.stored.take() {
            let mut pass = stored.pass()?;
            while let Some(block) = pass.next_block()? {
                events.extend_from_slice(block);
            }
        }
        let Source { names, header, lost, damaged, attached, .. } = self.clone();
        Ok(Trace { events, names, header, lost, damaged, attached })
    }

    /// Passes over the events of the file in blocks of so many, for tests.
    #[must_use]
    pub fn in_blocks_of(mut self, events: usize) -> Source {
        self.stored.iter_mut().for_each(|stored| stored.block = events);
        self
    }
}

impl From<Trace> for Source {
    fn from(trace: Trace) -> Source {
        let Trace { events: held, names, header, lost, damaged, attached } = trace;
        let (nr_events, span) = (held.len() as u64, Events::Held(&held).span().into_inner());
        Source { names, header, lost, damaged, attached, held, stored: None, nr_events, span }
    }
}
