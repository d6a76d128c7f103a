//! Reads the report that a process wrote at its end; `abi::report` describes the format.
//!
//! Neighbour: [`crate::snapshot`] defines the result. Invariants: a truncated file is always an
//! error; lines and keys of later versions are skipped; line numbers in errors are counted from 1;
//! every name in a report is defined in [`crate::fields`] or `abi::stats`.

use crate::snapshot::{Cache, Snapshot, Source, SourceKind};
use crate::value::Value;
use slabyard_abi::counters::{CacheCounters, PressureCounter, YardCounters};
use slabyard_abi::report::{MAGIC, VERSION};
use slabyard_abi::stats::{CACHE_WORDS, WordName};
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a report was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum ReadError {
    /// The first word is another one.
    #[error("not a report: the first line does not begin with `{MAGIC}`")]
    NotAReport,
    /// A later build wrote it.
    #[error("the report has version {found}, this build reads up to {VERSION}")]
    Newer { found: u32 },
    #[error("line {line}: the report is truncated")]
    Truncated { line: usize },
    /// A line is not as it was written.
    #[error("line {line}: damaged: {what}")]
    Damaged { line: usize, what: Damage },
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Damage {
    /// Not UTF-8, or with control characters.
    #[error("it is not text")]
    NotText,
    /// The version is no number.
    #[error("the version is not a number above 0")]
    Version,
    /// A word that is no pair.
    #[error("`{0}` is not KEY=NUMBER")]
    Pair(String),
    /// A key that came before.
    #[error("`{0}` comes twice")]
    Twice(String),
    /// A cache without a name.
    #[error("the cache has no name")]
    NoName,
    /// The count of lines does not fit.
    #[error("`end` counts {counted} lines, there are {lines}")]
    Count { counted: usize, lines: usize },
    #[error("`end` without a count")]
    End,
    #[error("there are lines after `end`")]
    AfterEnd,
}

/// Reads a whole report. It does not say when it was written: the snapshot's time is
/// now.
///
/// # Errors
/// [`ReadError`] with the line that does not fit.
///
/// ```
/// use slabyard_observe::report::parse;
/// let snapshot = parse(b"slabyard-report 1\nprocess pid=7\nyard live=64\nend 2\n").unwrap();
/// assert_eq!(snapshot.source.pid, Some(7));
/// assert_eq!(snapshot.total("live"), Some(&64.into()));
/// assert_eq!(snapshot.total("committed"), None);
/// ```
pub fn parse(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let mut lines = Lines { rest: bytes, line: 0 };
    header(&mut lines)?;
    let mut snapshot = Snapshot::new(Source::of(SourceKind::Report));
    let mut seen = LineKinds::default();
    loop {
        let text = lines.next()?;
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        let line = lines.line;
        let damaged = |what| ReadError::Damaged { line, what };
        match kind {
            "process" => {
                seen.once("process", line)?;
                snapshot.source.pid = pid(rest).map_err(damaged)?;
            }
            "yard" => {
                seen.once("yard", line)?;
                let is_known = |key: &str| YardCounters::NAMES.contains(&key);
                let told = numbers(rest, is_known).map_err(damaged)?;
                let value =
                    |key: &str, n| if key == "engine" { Value::engine(n) } else { n.into() };
                snapshot.totals.extend(told.map(|(key, n)| (key.to_owned(), value(key, n))));
            }
            "pressure" => {
                seen.once("pressure", line)?;
                let is_known = |key: &str| PressureCounter::NAMES.contains(&key);
                let told = numbers(rest, is_known).map_err(damaged)?;
                snapshot.totals.extend(told.map(|(key, n)| (key.to_owned(), n.into())));
            }
            "cache" => snapshot.caches.push(cache(rest).map_err(damaged)?),
            "counts" => counts(rest, &mut snapshot).map_err(damaged)?,
            "end" => {
                // The first line and this one are not counted.
                end(rest, line - 2).map_err(damaged)?;
                if !lines.rest.is_empty() {
                    return Err(ReadError::Damaged { line: line + 1, what: Damage::AfterEnd });
                }
                return Ok(snapshot);
            }
            _ => {}
        }
    }
}

fn header(lines: &mut Lines) -> Result<(), ReadError> {
    // Looked at before the line's end, so that any other file is named as such.
    let magic = MAGIC.as_bytes();
    let head = &lines.rest[..lines.rest.len().min(magic.len())];
    if !magic.starts_with(head) {
        return Err(ReadError::NotAReport);
    }
    let text = lines.next()?;
    let version = text.strip_prefix(MAGIC).ok_or(ReadError::NotAReport)?;
    let version = version.strip_prefix(' ').ok_or(ReadError::NotAReport)?;
    match digits(version).and_then(|v| u32::try_from(v).ok()) {
        None | Some(0) => Err(ReadError::Damaged { line: 1, what: Damage::Version }),
        Some(found) if found > VERSION => Err(ReadError::Newer { found }),
        Some(_) => Ok(()),
    }
}

fn pid(rest: &str) -> Result<Option<u32>, Damage> {
    let mut pid = None;
    for pair in rest.split_ascii_whitespace() {
        if let Some(value) = pair.strip_prefix("pid=") {
            if pid.is_some() {
                return Err(Damage::Twice("pid".into()));
            }
            let value = digits(value).and_then(|v| u32::try_from(v).ok());
            pid = Some(value.ok_or_else(|| Damage::Pair(pair.into()))?);
        }
    }
    Ok(pid)
}

fn cache(rest: &str) -> Result<Cache, Damage> {
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    if name.is_empty() || name.contains('=') {
        return Err(Damage::NoName);
    }
    let mut cache = Cache::new(name);
    let is_known = |key: &str| CacheCounters::NAMES.contains(&key);
    numbers(rest, is_known)?.for_each(|(key, n)| cache.set(key, n));
    Ok(cache)
}

/// What a cache that came before counted.
fn counts(rest: &str, snapshot: &mut Snapshot) -> Result<(), Damage> {
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let cache = snapshot.caches.iter_mut().find(|cache| cache.name == name);
    let cache = cache.ok_or(Damage::NoName)?;
    numbers(rest, is_count)?.for_each(|(key, n)| cache.set(key, n));
    Ok(())
}

fn is_count(key: &str) -> bool {
    (0..CACHE_WORDS).any(|nth| WordName(nth).to_string() == key)
}

/// The pairs whose key is known. A later writer's key may hold a value that is no
/// number.
fn numbers(
    rest: &str,
    is_known: impl Fn(&str) -> bool,
) -> Result<impl Iterator<Item = (&str, u64)>, Damage> {
    let mut numbers = BTreeMap::new();
    for pair in rest.split_ascii_whitespace() {
        let damaged = || Damage::Pair(pair.into());
        let (key, value) = pair.split_once('=').ok_or_else(damaged)?;
        if !is_known(key) {
            continue;
        }
        if numbers.insert(key, digits(value).ok_or_else(damaged)?).is_some() {
            return Err(Damage::Twice(key.into()));
        }
    }
    Ok(numbers.into_iter())
}

fn end(rest: &str, lines: usize) -> Result<(), Damage> {
    let counted = digits(rest).and_then(|n| usize::try_from(n).ok()).ok_or(Damage::End)?;
    if counted == lines { Ok(()) } else { Err(Damage::Count { counted, lines }) }
}

/// Decimal digits only: `str::parse` would take a sign as well.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Lines that surely are whole: each ends with a line feed.
struct Lines<'a> {
    rest: &'a [u8],
    line: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Result<&'a str, ReadError> {
        self.line += 1;
        let line = self.line;
        let Some(at) = self.rest.iter().position(|b| *b == b'\n') else {
            return Err(ReadError::Truncated { line });
        };
        let (text, rest) = (&self.rest[..at], &self.rest[at + 1..]);
        self.rest = rest;
        // A name with control characters could steer the reader's terminal.
        match std::str::from_utf8(text) {
            Ok(text) if !text.contains(char::is_control) => Ok(text),
            _ => Err(ReadError::Damaged { line, what: Damage::NotText }),
        }
    }
}

/// Line kinds that come once.
#[derive(Default)]
struct LineKinds(Vec<&'static str>);

impl LineKinds {
    fn once(&mut self, kind: &'static str, line: usize) -> Result<(), ReadError> {
        if self.0.contains(&kind) {
            return Err(ReadError::Damaged { line, what: Damage::Twice(kind.into()) });
        }
        self.0.push(kind);
        Ok(())
    }
}
