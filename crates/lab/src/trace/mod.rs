//! Traces: events with facts about the machine on which they were recorded, and the file that holds
//! them.
//!
//! [`open`] reads a whole trace in any format; [`Reader`] and [`Writer`] process a trace file chunk
//! by chunk, in bounded memory. The format is described in `docs/trace-format.md`; `format` has its
//! constants and number encodings, `chunk` encodes events, `attached` holds the rest of a trace.
//! [`csv`] parses the CSV form, whose rows `rows` defines; `script` parses the output of `perf
//! script` and `trace-cmd report`. Both return a [`Trace`]. [`unnamed`] names the caches where a
//! kernel did not. `times` finds damaged time stamps. Nothing here knows what the events mean to an
//! allocator.

mod attached;
mod chunk;
pub mod csv;
mod error;
mod format;
mod frames;
mod header;
mod names;
mod passes;
mod reader;
mod rows;
mod script;
mod source;
mod stream;
pub(crate) mod times;
pub mod unnamed;
mod whole;
mod writer;

pub use attached::{Attached, END, LISTS, LOAD, MALLOC, RECORDING, SHRINK, SHRUNK, START};
pub use error::{Damage, Error, Harm};
pub use format::{CHUNK_EVENTS, MAGIC, VERSION};
pub use frames::Frames;
pub use header::Header;
pub use names::{NO_NAME, Names};
pub use passes::{Events, Pass, Stored};
pub use reader::{Chunk, Reader};
pub use source::{LONG, Source};
pub use stream::Stream;
pub use whole::Trace;
pub use writer::Writer;

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::path::Path;

/// Reads a trace: ours or a CSV, plain or compressed, recognised by the first bytes. What of it
/// cannot be read is in [`Trace::damaged`].
pub fn open(path: &Path) -> Result<Trace, Error> {
    open_file(path).map_err(|e| e.in_file(path))
}

/// What is attached to the trace of a file, without its events; nothing if it is a CSV.
///
/// # Errors
/// The file is none of ours, or cannot be read.
pub fn attached(path: &Path) -> Result<Vec<Attached>, Error> {
    let read = || {
        let mut file = File::open(path)?;
        let first = first_bytes(&mut file)?;
        if !is_ours(&first) {
            return Ok(Vec::new());
        }
        file.rewind()?;
        Reader::new(file)?.attached()
    };
    read().map_err(|error: Error| error.in_file(path))
}

/// What a conversion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Events written.
    pub events: u64,
    /// Bytes of the new file.
    pub bytes: u64,
}

/// Turns any trace that [`open`] reads into a file of ours. `known` is what the caller knows of the
/// machine; it overrides what the trace says.
pub fn convert(from: &Path, to: &Path, known: &Header) -> Result<Converted, Error> {
    let mut trace = open(from)?;
    trace.header = known.clone().or(&trace.header);
    trace.save(to)?;
    let bytes = fs::metadata(to).map_err(|e| Error::from(e).in_file(to))?.len();
    Ok(Converted { events: trace.events.len() as u64, bytes })
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

/// Bytes in which a line of an event is looked for.
const SOME_LINES: u64 = 1 << 16;

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
        // Text that other recorders print is known by a line of it.
        Read::take(&mut input, SOME_LINES).read_to_end(&mut first)?;
        if !script::begins(&first) {
            return Err(Error::NotATrace);
        }
        script::read(BufReader::with_capacity(1 << 18, Cursor::new(first).chain(input)))
    }
}
