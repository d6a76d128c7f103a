//! Traces: events with what is known of the machine that they come from, and the
//! file that holds them.
//!
//! [`open`] reads a whole trace in whichever format it is; [`Reader`] and
//! [`Writer`] pass through a file of ours chunk by chunk, in bounded memory. The
//! format is described in `docs/trace-format.md`; `format` has its constants and
//! numbers, `chunk` the coding of events. The CSV is read by [`csv`].
//! Nothing here knows what the events mean to an allocator.

mod chunk;
pub mod csv;
mod error;
mod format;
mod frames;
mod names;
mod reader;
mod writer;

pub use error::{Damage, Error, Harm};
pub use format::{CHUNK_EVENTS, MAGIC, VERSION};
pub use frames::Frames;
pub use names::{NO_NAME, Names};
pub use reader::{Chunk, Reader};
pub use writer::Writer;

use crate::event::Event;
use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek, Write};
use std::path::Path;

/// What is known of the machine and of the trace. A field that nothing tells is
/// None or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The kernel's release, such as `6.18.44`.
    pub release: String,
    /// Bytes of a page, a power of two.
    pub page_size: Option<u32>,
    /// CPUs of the machine; of a CSV, one more than the largest number seen.
    pub cpus: Option<u32>,
    /// Address of page frame 0, its low 48 bits.
    pub page_offset: Option<u64>,
    /// Where the trace comes from, in words.
    pub source: String,
}

impl Header {
    /// Binary logarithm of the page size.
    pub fn page_shift(&self) -> Option<u32> {
        self.page_size.filter(|size| size.is_power_of_two()).map(u32::trailing_zeros)
    }

    /// How an address becomes a page frame.
    pub fn frames(&self) -> Option<Frames> {
        Some(Frames { page_offset: self.page_offset?, page_shift: self.page_shift()? })
    }

    /// These facts; where one is not known, that of `other`.
    #[must_use]
    pub fn or(self, other: &Header) -> Header {
        let or =
            |mine: String, theirs: &String| if mine.is_empty() { theirs.clone() } else { mine };
        Header {
            release: or(self.release, &other.release),
            page_size: self.page_size.or(other.page_size),
            cpus: self.cpus.or(other.cpus),
            page_offset: self.page_offset.or(other.page_offset),
            source: or(self.source, &other.source),
        }
    }

    /// What the events themselves tell: CPUs that were seen, page size and base.
    pub fn detect(events: &[Event]) -> Header {
        let frames = Frames::detect(events);
        Header {
            page_size: frames.map(|f| 1 << f.page_shift),
            page_offset: frames.map(|f| f.page_offset),
            cpus: events.iter().map(|e| u32::from(e.cpu) + 1).max(),
            ..Header::default()
        }
    }
}

/// zstd's level for files that are written once and kept.
const KEPT: i32 = 19;

/// A whole trace in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order of the file.
    pub events: Vec<Event>,
    /// What [`Event::name`] is an index of.
    pub names: Names,
    /// What is known of the machine.
    pub header: Header,
    /// Events that the recorder lost.
    pub lost: u64,
    /// Parts of the file that were skipped.
    pub damaged: Vec<Damage>,
}

impl Trace {
    /// Events that happened and are not here, as far as is known: lost ones, and
    /// those of damaged chunks.
    pub fn missing(&self) -> u64 {
        self.damaged.iter().filter_map(|d| d.events).fold(self.lost, u64::saturating_add)
    }

    /// Writes the trace in our format. What is missing is written as lost.
    pub fn write<W: Write>(&self, out: W) -> Result<W, Error> {
        let writer = Writer::new(out, &self.header)?;
        let mut writer = writer.with_names(self.names.clone()).with_level(KEPT);
        writer.lost(self.missing());
        for event in &self.events {
            writer.push(event)?;
        }
        writer.finish()
    }

    /// Writes the trace to a file in our format.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let save = || Ok(self.write(File::create(path)?)?.sync_data()?);
        save().map_err(|e| in_file(path, e))
    }
}

/// Reads a trace: ours or a CSV, plain or compressed, told apart by the first
/// bytes. What of it cannot be read is in [`Trace::damaged`].
pub fn open(path: &Path) -> Result<Trace, Error> {
    open_file(path).map_err(|e| in_file(path, e))
}

/// What a conversion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Events written.
    pub events: u64,
    /// Bytes of the new file.
    pub bytes: u64,
}

/// Turns any trace that [`open`] reads into a file of ours. `known` is what the
/// caller knows of the machine; it goes before what the trace tells.
pub fn convert(from: &Path, to: &Path, known: &Header) -> Result<Converted, Error> {
    let mut trace = open(from)?;
    trace.header = known.clone().or(&trace.header);
    trace.save(to)?;
    let bytes = fs::metadata(to).map_err(|e| in_file(to, e.into()))?.len();
    Ok(Converted { events: trace.events.len() as u64, bytes })
}

fn in_file(path: &Path, error: Error) -> Error {
    Error::File { path: path.to_owned(), error: Box::new(error) }
}

fn open_file(path: &Path) -> Result<Trace, Error> {
    let mut file = File::open(path)?;
    let first = first_bytes(&mut file)?;
    if is_ours(&first) && file.rewind().is_ok() {
        // Chunk by chunk; what cannot go back, as a pipe, is read whole.
        return Reader::new(file)?.read_all();
    }
    read_on(first, file)
}

/// Reads a trace from a stream, as [`open`] does from a file.
pub fn read(mut input: impl Read) -> Result<Trace, Error> {
    let first = first_bytes(&mut input)?;
    read_on(first, input)
}

fn first_bytes(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    Read::take(input, MAGIC.len() as u64).read_to_end(&mut first)?;
    Ok(first)
}

fn is_ours(first: &[u8]) -> bool {
    !first.is_empty() && MAGIC.starts_with(first)
}

fn read_on(mut first: Vec<u8>, mut input: impl Read) -> Result<Trace, Error> {
    if first.is_empty() {
        Err(Error::Empty)
    } else if is_ours(&first) {
        input.read_to_end(&mut first)?;
        Reader::new(Cursor::new(first))?.read_all()
    } else if csv::begins(&first) {
        let rows = Cursor::new(first).chain(input);
        Ok(csv::read_left(BufReader::with_capacity(1 << 18, rows))?)
    } else {
        Err(Error::NotATrace)
    }
}
