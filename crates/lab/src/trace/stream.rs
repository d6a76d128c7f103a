//! Reads a trace of any format piece by piece: a trace file with one chunk in memory at a time,
//! other formats as a whole.
//!
//! [`super::Reader`] reads the chunks, [`super::Trace`] the other formats; [`crate::edit`] reads
//! its input here.

use super::attached::Attached;
use super::error::{Damage, Error};
use super::header::Header;
use super::names::Names;
use super::reader::Reader;
use super::whole::Trace;
use super::{first_bytes, is_ours, open};
use crate::event::Event;
use std::fs::File;
use std::io::Seek;
use std::path::Path;

/// A trace being read.
pub struct Stream(StreamSource);

enum StreamSource {
    Ours { reader: Box<Reader<File>>, attached: Vec<Attached> },
    Whole { trace: Box<Trace>, read: bool },
}

impl Stream {
    /// Opens a file.
    ///
    /// # Errors
    /// It is no trace, or cannot be read.
    pub fn open(path: &Path) -> Result<Stream, Error> {
        let reader = || -> Result<Option<Reader<File>>, Error> {
            let mut file = File::open(path)?;
            let ours = file.metadata()?.is_file() && is_ours(&first_bytes(&mut file)?);
            if !ours {
                return Ok(None);
            }
            file.rewind()?;
            Ok(Some(Reader::new(file)?))
        };
        match reader().map_err(|error| error.in_file(path))? {
            Some(mut reader) => {
                let attached = reader.attached()?;
                Ok(Stream(StreamSource::Ours { reader: Box::new(reader), attached }))
            }
            None => Ok(Stream::of(open(path)?)),
        }
    }

    /// A trace that is in memory.
    #[must_use]
    pub fn of(trace: Trace) -> Stream {
        Stream(StreamSource::Whole { trace: Box::new(trace), read: false })
    }

    /// What is known of the machine.
    #[must_use]
    pub fn header(&self) -> &Header {
        match &self.0 {
            StreamSource::Ours { reader, .. } => reader.header(),
            StreamSource::Whole { trace, .. } => &trace.header,
        }
    }

    /// The names of the events so far.
    #[must_use]
    pub fn names(&self) -> &Names {
        match &self.0 {
            StreamSource::Ours { reader, .. } => reader.names(),
            StreamSource::Whole { trace, .. } => &trace.names,
        }
    }

    /// Snapshots and lists that the file holds beside its events.
    #[must_use]
    pub fn attached(&self) -> &[Attached] {
        match &self.0 {
            StreamSource::Ours { attached, .. } => attached,
            StreamSource::Whole { trace, .. } => &trace.attached,
        }
    }

    /// What was skipped so far.
    #[must_use]
    pub fn damaged(&self) -> &[Damage] {
        match &self.0 {
            StreamSource::Ours { reader, .. } => reader.damaged(),
            StreamSource::Whole { trace, .. } => &trace.damaged,
        }
    }

    /// All events of a trace of which none was read yet. They are in memory from now on.
    ///
    /// # Errors
    /// The file cannot be read on.
    pub fn held(&mut self) -> Result<&[Event], Error> {
        let none = StreamSource::Whole { trace: Box::default(), read: true };
        let trace = match std::mem::replace(&mut self.0, none) {
            StreamSource::Ours { reader, attached } => Trace { attached, ..reader.read_all()? },
            StreamSource::Whole { trace, .. } => *trace,
        };
        *self = Stream::of(trace);
        match &self.0 {
            StreamSource::Whole { trace, .. } => Ok(&trace.events),
            StreamSource::Ours { .. } => unreachable!("it was made whole"),
        }
    }

    /// Puts the next events in place of those in `events`; returns how many were lost before or
    /// among them, or `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read on.
    pub fn next(&mut self, events: &mut Vec<Event>) -> Result<Option<u64>, Error> {
        events.clear();
        match &mut self.0 {
            StreamSource::Ours { reader, .. } => {
                Ok(reader.next_chunk(events)?.map(|chunk| chunk.lost))
            }
            StreamSource::Whole { read: true, .. } => Ok(None),
            StreamSource::Whole { trace, read } => {
                *read = true;
                std::mem::swap(events, &mut trace.events);
                Ok(Some(trace.lost))
            }
        }
    }
}
