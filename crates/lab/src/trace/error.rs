//! What can be wrong with a trace file: an error ends the reading; damage is skipped and reported.

use super::rows;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a trace cannot be read or written.
#[derive(Debug, Error)]
pub enum Error {
    /// The file of a failed `open` or `save`.
    #[error("{}: {error}", path.display())]
    File {
        /// As it was given.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// The system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// No byte in it.
    #[error("the file is empty")]
    Empty,
    /// Neither of the formats.
    #[error(
        "not a trace: neither a trace file of slabyard, nor a CSV (plain or zstd) that begins with `{}`, nor kmem events as `perf script` or `trace-cmd report` prints them",
        rows::HEADING
    )]
    NotATrace,
    /// From a later slabyard.
    #[error(
        "the trace is of version {found}; this slabyard reads versions up to {newest}: use a newer one"
    )]
    Newer {
        /// The file's.
        found: u32,
        /// Ours.
        newest: u32,
    },
    /// It ends within its header.
    #[error("the file ends within its header: it was cut off")]
    HeaderCut,
    /// The header is not what was written.
    #[error("the file's header is damaged ({0}): without it nothing can be read")]
    Header(&'static str),
    /// Neither its header nor its page events tell how large a page is.
    #[error("the trace does not tell its page size")]
    Unmapped,
    /// A file of another recorder.
    #[error("the file of {recorder} cannot be read: {what}")]
    Foreign {
        /// The program that wrote it, by its name.
        recorder: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// A text that describes a load, and what is wrong with it.
    #[error("not a load: {0}")]
    Load(String),
    /// It breaks a rule of rows.
    #[error(transparent)]
    Csv(#[from] rows::Error),
    /// An event to be written has an index without a name.
    #[error("event {event} names index {name}, but the trace has {names} names")]
    NoSuchName {
        /// Number of the event.
        event: u64,
        /// Its index.
        name: u32,
        /// How many there are.
        names: usize,
    },
    /// More than the format holds.
    #[error("the trace has more names, or longer ones, than a trace file can hold")]
    TooMuch,
}

impl Error {
    /// This, of the file that it is about.
    pub(crate) fn in_file(self, path: &Path) -> Error {
        Error::File { path: path.to_owned(), error: Box::new(self) }
    }
}

/// A part of a file that could not be read and was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where in the file it begins: in bytes, or of a CSV the line.
    pub at: u64,
    /// Events that are missing because of it; None if nothing says how many.
    pub events: Option<u64>,
    /// What is wrong.
    pub what: Harm,
}

/// What is wrong with a part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Harm {
    /// The chunks were found by walking through the file.
    #[error("the file ends without its index: it was cut off, or its writer was stopped")]
    NoIndex,
    /// As before, but there is something in its place.
    #[error("the index is damaged; the chunks were found by walking through the file")]
    Index,
    /// A chunk's header is not what was written.
    #[error("a chunk's header is damaged")]
    ChunkHeader,
    /// A chunk's checksum is not that of its bytes.
    #[error("a chunk is damaged: its checksum is wrong")]
    Checksum,
    /// A chunk's bytes are as written, but do not make sense.
    #[error("a chunk makes no sense: {0}")]
    Content(&'static str),
    /// The file ends within a chunk.
    #[error("the file ends within a chunk: it was cut off")]
    Cut,
    /// The chunk that should be here is not.
    #[error("a chunk is missing")]
    Missing,
    /// A CSV's row, with those behind it up to the next that is one.
    #[error("{0}")]
    Rows(rows::RowError),
    /// A CSV ends within a row or within its compressed stream.
    #[error("the file ends here, within a row: it was cut off ({0})")]
    RowsCut(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let is_csv = matches!(self.what, Harm::Rows(_) | Harm::RowsCut(_));
        let unit = if is_csv { "line" } else { "at byte" };
        write!(f, "{unit} {}: {}", self.at, self.what)?;
        match self.events {
            Some(0) => write!(f, "; no event is missing for it"),
            Some(1) => write!(f, "; 1 event is missing"),
            Some(n) => write!(f, "; {n} events are missing"),
            None => write!(f, "; how many events are missing is not known"),
        }
    }
}
