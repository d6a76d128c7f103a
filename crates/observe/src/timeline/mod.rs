//! Timelines: snapshots of one source, taken at intervals for hours or days, in one file.
//!
//! The file is a line of text, then frames ([`frame`]), a look each, in the order of time; every
//! [`WHOLE_EVERY`]th is whole, and the others take what changed. So a day of looks at a kernel, one
//! a minute, is a few MiB.
//!
//! Neighbours: [`writer`] appends, and keeps the file below its limit; [`crate::snapshot`] is one
//! look; [`crate::source`] takes the last look of a timeline, or that behind `#`, as a source.
//! Invariants: what a writer that was killed left incomplete is at the end alone, is not read, and
//! is overwritten by the next; damage in the middle costs the looks to the next whole one; behind a
//! damaged header nothing is found.

mod frame;
mod writer;

pub use writer::{Error as WriteError, Writer};

use crate::file::{self, Error};
use crate::snapshot::{self, Snapshot};
use frame::{FrameKind, HEADER, Header};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What the file begins with.
const BEGIN: &[u8; 20] = b"slabyard timeline 1\n";
/// One frame in so many is whole.
pub const WHOLE_EVERY: usize = 64;
/// Far more than the limit of any watch.
const MOST_BYTES: u64 = 4 << 30;

/// A timeline that was read.
#[derive(Debug)]
pub struct Timeline {
    path: PathBuf,
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    end: usize,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    header: Header,
    /// Where its packed bytes begin.
    at: usize,
}

/// True for a file that begins as a timeline.
#[must_use]
pub fn looks_like(path: &Path) -> bool {
    let mut begin = [0; BEGIN.len()];
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file
        && File::open(path).and_then(|mut f| f.read_exact(&mut begin)).is_ok()
        && begin == *BEGIN
}

/// The look that `FILE#LOOK` names; without `#LOOK` the last.
///
/// # Errors
/// The file is damaged there or cannot be read, or it has no such look.
pub fn sample(path: &Path) -> Result<Snapshot, Error> {
    let (path, wanted) = file::dump_of(path);
    let timeline = Timeline::open(&path)?;
    let at = match &wanted {
        None => timeline.len().checked_sub(1),
        Some(wanted) => timeline.find(wanted),
    };
    match at {
        Some(at) => timeline.look(at),
        None => {
            let wanted = wanted.unwrap_or_else(|| "at all".into());
            Err(Error::NoLook { path, wanted, holds: timeline.holds() })
        }
    }
}

impl Timeline {
    /// Reads a timeline; an incomplete last look is left out.
    ///
    /// # Errors
    /// It cannot be read, is something else, or a header in it is damaged.
    pub fn open(path: &Path) -> Result<Timeline, Error> {
        let failed = |error| Error::Read { path: path.into(), error };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        if !bytes.starts_with(BEGIN) {
            return Err(Error::NotATimeline { path: path.into() });
        }
        let mut timeline =
            Timeline { path: path.into(), bytes, frames: Vec::new(), end: BEGIN.len() };
        while let Some(header) = timeline.bytes[timeline.end..].first_chunk::<HEADER>() {
            let Some(header) = Header::parse(header) else {
                let what = format!("behind look {}, at byte {}", timeline.len(), timeline.end);
                return Err(Error::Damaged { path: path.into(), what });
            };
            let at = timeline.end + HEADER;
            let end = at + header.packed as usize;
            if end > timeline.bytes.len() {
                break;
            }
            timeline.frames.push(Frame { header, at });
            timeline.end = end;
        }
        Ok(timeline)
    }

    /// Looks that it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True without any look.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// When each look was taken, in milliseconds since 1970.
    pub fn times(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
        self.frames.iter().map(|frame| frame.header.taken_at_ms)
    }

    /// Bytes at the end that a writer did not complete, because it was killed or is writing now.
    #[must_use]
    pub fn incomplete_bytes(&self) -> usize {
        self.bytes.len() - self.end
    }

    /// One look, counted from 0.
    ///
    /// # Errors
    /// It, or what it follows, is damaged.
    ///
    /// # Panics
    /// There is no such look.
    pub fn look(&self, at: usize) -> Result<Snapshot, Error> {
        let is_whole = |at: &usize| self.frames[*at].header.kind == FrameKind::Whole;
        let from = (0..=at).rev().find(is_whole).unwrap_or(0);
        let mut looks = Looks { timeline: self, next: from, before: None };
        for _ in from..at {
            looks.next_text();
        }
        looks.next().unwrap_or_else(|| unreachable!("a look that is there"))
    }

    /// All looks, in the order of time; those that are damaged are errors.
    #[must_use]
    pub fn looks(&self) -> Looks<'_> {
        Looks { timeline: self, next: 0, before: None }
    }

    /// The header of a frame, and all its bytes.
    fn frame(&self, at: usize) -> (Header, &[u8]) {
        let Frame { header, at } = self.frames[at];
        (header, &self.bytes[at - HEADER..at + header.packed as usize])
    }

    /// The look of a number from 1, or the last one before a time.
    fn find(&self, wanted: &str) -> Option<usize> {
        if let Ok(number) = wanted.parse::<usize>() {
            return number.checked_sub(1).filter(|at| *at < self.len());
        }
        let time = wanted.parse::<jiff::Timestamp>().ok().or_else(|| {
            let civil: jiff::civil::DateTime = wanted.parse().ok()?;
            civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
        })?;
        let ms = u64::try_from(time.as_millisecond()).ok()?;
        self.times().rposition(|taken| taken <= ms)
    }

    /// What it has, for a message.
    fn holds(&self) -> String {
        let Some((first, last)) = self.times().next().zip(self.times().next_back()) else {
            return "no look yet".into();
        };
        let [first, last] = [first, last].map(snapshot::time);
        format!("looks 1 to {}, from {first} to {last}", self.len())
    }
}

/// The looks of a timeline one after the other.
#[derive(Debug)]
pub struct Looks<'a> {
    timeline: &'a Timeline,
    next: usize,
    /// The text of the look before, if it is not damaged.
    before: Option<Vec<u8>>,
}

impl Looks<'_> {
    /// The next look's JSON.
    fn next_text(&mut self) -> Option<Result<&[u8], Error>> {
        let Timeline { path, bytes, frames, .. } = self.timeline;
        let Frame { header, at } = *frames.get(self.next)?;
        self.next += 1;
        let packed = &bytes[at..at + header.packed as usize];
        let text = frame::unpack(&header, packed, self.before.as_deref());
        let number = self.next;
        Some(match text {
            Ok(text) => Ok(self.before.insert(text)),
            Err(error) => {
                self.before = None;
                let what = format!("look {number} of {}: {error}", frames.len());
                Err(Error::Damaged { path: path.clone(), what })
            }
        })
    }
}

impl Iterator for Looks<'_> {
    type Item = Result<Snapshot, Error>;

    fn next(&mut self) -> Option<Result<Snapshot, Error>> {
        let path = &self.timeline.path;
        Some(self.next_text()?.and_then(|text| file::read(text, path)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.timeline.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Looks<'_> {}

#[cfg(test)]
mod tests;
