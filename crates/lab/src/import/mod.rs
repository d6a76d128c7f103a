//! Reads the traces of other recorders.
//!
//! [`open`] reads everything that [`crate::trace::open`] reads, and three more formats: `perf.data`
//! with `kmem` events, as `perf record -a -e 'kmem:*'` writes it (module `perf`); `trace.dat` of
//! trace-cmd (`trace_cmd`); and heaptrack's files (`heaptrack`). A file named `.toml` is a load ([`load`]). The text output of `perf script`
//! and `trace-cmd report` is already a trace format of [`crate::trace`].

mod heaptrack;
mod perf;
mod trace_cmd;
mod tracing;

use crate::load;
use crate::packed::ZSTD;
use crate::trace::{self, Error, Source, Stream, Trace};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;

/// Reads a trace of any recorder.
///
/// # Errors
/// It is none, or cannot be read.
pub fn open(path: &Path) -> Result<Trace, Error> {
    match foreign(path).map_err(|error| error.in_file(path))? {
        Some(trace) => Ok(trace),
        None => trace::open(path),
    }
}

/// As before; of a long trace of ours the events stay in the file ([`Source::open_long`]).
///
/// # Errors
/// It is none, or cannot be read.
pub fn open_long(path: &Path, least: u64) -> Result<Source, Error> {
    match Source::open_long(path, least)? {
        Some(source) => Ok(source),
        None => open(path).map(Source::from),
    }
}

/// As before, chunk by chunk where the file lets us.
///
/// # Errors
/// It is none, or cannot be read.
pub fn stream(path: &Path) -> Result<Stream, Error> {
    match foreign(path).map_err(|error| error.in_file(path))? {
        Some(trace) => Ok(Stream::of(trace)),
        None => Stream::open(path),
    }
}

/// True for a file that brings the caches of its replay itself, though it is none of ours.
#[must_use]
pub fn holds_caches(path: &Path) -> bool {
    load::is_load(path)
        || File::open(path).is_ok_and(|file| of_heaptrack(file).is_ok_and(|found| found.is_some()))
}

/// A reader of heaptrack's text, if the file has it.
fn of_heaptrack(mut file: File) -> io::Result<Option<Box<dyn BufRead>>> {
    let mut magic = Vec::new();
    Read::take(&mut file, ZSTD.len() as u64).read_to_end(&mut magic)?;
    file.rewind()?;
    if magic.starts_with(heaptrack::BEGIN) {
        return Ok(Some(Box::new(BufReader::new(file))));
    }
    if magic != ZSTD {
        return Ok(None);
    }
    let mut text = BufReader::with_capacity(1 << 18, zstd::Decoder::new(file)?);
    // A stream that is damaged is told by whoever reads it in the end.
    let is = text.fill_buf().is_ok_and(|text| text.starts_with(heaptrack::BEGIN));
    Ok(if is { Some(Box::new(text)) } else { None })
}

/// The trace, if it is one of those that only this module knows.
fn foreign(path: &Path) -> Result<Option<Trace>, Error> {
    if load::is_load(path) {
        return load::open(path).map(Some);
    }
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut magic = Vec::new();
    Read::take(&mut file, tracing::MAGIC.len() as u64).read_to_end(&mut magic)?;
    file.rewind()?;
    if magic.starts_with(perf::MAGIC) {
        return perf::read(BufReader::new(file)).map(Some);
    }
    if magic == tracing::MAGIC {
        return trace_cmd::read(file).map(Some);
    }
    of_heaptrack(file)?.map(heaptrack::read).transpose()
}
