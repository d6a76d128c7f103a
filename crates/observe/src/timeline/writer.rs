//! Appends looks to a timeline, whose size it bounds: when the file exceeds its limit, every second
//! look of its older half goes. So the last hours stay as they were taken, and the older a look is,
//! the longer the time to the next.
//!
//! Neighbour: [`super::Timeline`] reads. Invariants: one writer at a time has the file, by a lock
//! (flock(2)) that ends with it; each look is written whole or taken back; a reader sees the file
//! before thinning or after it.

use super::frame::{self, FrameKind};
use super::{BEGIN, Timeline, WHOLE_EVERY};
use crate::file;
use crate::snapshot::{Snapshot, Source};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Looks that stay, whatever they take.
const LEAST_LOOKS: usize = 16;

/// Why a timeline was not written.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error("{path} is being written by another process: end that one, or write another file")]
    Busy { path: PathBuf },
    #[error("{path} has looks at {of}, and goes on with these alone: write another file")]
    OfAnother { path: PathBuf, of: String },
    #[error("cannot write {path}: {error}")]
    Write { path: PathBuf, error: io::Error },
}

/// A timeline that is being written.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    bytes: u64,
    most: u64,
    looks: usize,
    /// The text of the last look, and looks since one that is whole.
    before: Option<(Vec<u8>, usize)>,
}

impl Writer {
    /// Begins a timeline of at most `most` bytes, or goes on with one of the same source, behind its
    /// last complete look.
    ///
    /// # Errors
    /// The file cannot be written, is something else or of another source, or has a writer.
    pub fn open(path: &Path, most: u64, source: &Source) -> Result<Writer, Error> {
        let failed = |error| Error::Write { path: path.into(), error };
        let mut file = lock(path)?;
        let (mut bytes, mut looks) = (BEGIN.len() as u64, 0);
        if file.metadata().map_err(failed)?.len() == 0 {
            file.write_all(BEGIN).map_err(failed)?;
        } else {
            let timeline = Timeline::open(path)?;
            if let Some(last) = timeline.len().checked_sub(1) {
                let last = timeline.look(last)?.source;
                if subject(&last) != subject(source) {
                    return Err(Error::OfAnother { path: path.into(), of: subject(&last) });
                }
            }
            (bytes, looks) = (timeline.end as u64, timeline.len());
            file.set_len(bytes).map_err(failed)?;
            file.seek(SeekFrom::Start(bytes)).map_err(failed)?;
        }
        Ok(Writer { path: path.into(), file, bytes, most, looks, before: None })
    }

    /// Appends a look, and thins the timeline out if it exceeds its limit.
    ///
    /// # Errors
    /// The file cannot be written; it is as it was.
    pub fn push(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        let text = serde_json::to_vec(snapshot).map_err(|e| self.failed(e.into()))?;
        let before = self.before.as_ref().filter(|(_, since)| *since < WHOLE_EVERY);
        let since = before.map_or(1, |(_, since)| since + 1);
        let before = before.map(|(text, _)| text.as_slice());
        let frame = frame::pack(&text, before, snapshot.taken_at_ms).map_err(|e| self.failed(e))?;
        if let Err(error) = self.file.write_all(&frame).and_then(|()| self.file.sync_data()) {
            // A next look must not stand behind half of this one.
            let end = self.bytes;
            let _ = self.file.set_len(end).and_then(|()| self.file.seek(SeekFrom::Start(end)));
            return Err(self.failed(error));
        }
        self.before = Some((text, since));
        self.bytes += frame.len() as u64;
        self.looks += 1;
        while self.bytes > self.most && self.looks > LEAST_LOOKS {
            self.thin()?;
        }
        Ok(())
    }

    /// Bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Looks in the file.
    #[must_use]
    pub fn looks(&self) -> usize {
        self.looks
    }

    /// Leaves out every second look of the older half, and what is damaged. A frame whose dictionary
    /// stays is copied as it is: to pack one takes ten times as long as to unpack it.
    fn thin(&mut self) -> Result<(), Error> {
        let timeline = Timeline::open(&self.path)?;
        let directory = self.path.parent().filter(|d| !d.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let mut new = tempfile::Builder::new()
            .prefix(".slabyard-")
            .permissions(self.file.metadata().map_err(|e| self.failed(e))?.permissions())
            .tempfile_in(directory)
            .map_err(|e| self.failed(e))?;
        new.as_file().try_lock().map_err(|e| self.failed(e.into()))?;
        let mut bytes = BEGIN.len() as u64;
        new.write_all(BEGIN).map_err(|e| self.failed(e))?;
        // The last look that stays: its number in the old file, and its text.
        let (mut looks, mut before) = (0, None::<(usize, Vec<u8>)>);
        let mut all = timeline.looks();
        for at in 0..timeline.len() {
            let Some(Ok(text)) = all.next_text() else { continue };
            if at < timeline.len() / 2 && at % 2 == 1 {
                continue;
            }
            let (header, old) = timeline.frame(at);
            let follows = before.as_ref().filter(|_| looks % WHOLE_EVERY != 0);
            let stays = match (follows, header.kind) {
                (None, FrameKind::Whole) => true,
                (Some((last, _)), FrameKind::Follows) => last + 1 == at,
                _ => false,
            };
            let follows = follows.map(|(_, text)| text.as_slice());
            let frame = if stays {
                old.to_vec()
            } else {
                frame::pack(text, follows, header.taken_at_ms).map_err(|e| self.failed(e))?
            };
            new.write_all(&frame).map_err(|e| self.failed(e))?;
            bytes += frame.len() as u64;
            looks += 1;
            before = Some((at, text.to_vec()));
        }
        new.as_file().sync_data().map_err(|e| self.failed(e))?;
        // Behind a symbolic link the file itself is replaced.
        let path = std::fs::canonicalize(&self.path).map_err(|e| self.failed(e))?;
        self.file = new.persist(path).map_err(|e| self.failed(e.error))?;
        self.bytes = bytes;
        self.looks = looks;
        self.before = before.map(|(_, text)| (text, (looks - 1) % WHOLE_EVERY + 1));
        Ok(())
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::Write { path: self.path.clone(), error }
    }
}

/// The file, which no other writer has, and which is the one of this name.
fn lock(path: &Path) -> Result<File, Error> {
    let failed = |error| Error::Write { path: path.into(), error };
    loop {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Busy { path: path.into() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // A writer may have replaced the file between the two calls.
        let (ours, named) = (file.metadata().map_err(failed)?, std::fs::metadata(path));
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())) {
            return Ok(file);
        }
    }
}

/// Whom looks are at, of which one timeline has one: a service that starts anew goes on.
fn subject(source: &Source) -> String {
    match (&source.program, source.kind.is_yard()) {
        (Some(program), true) => format!("the program {program}"),
        (None, true) => "a program".into(),
        (_, false) => "a kernel".into(),
    }
}
