//! The journal of a running sweep, `OUT.part`: the rows that are done, so that a sweep that was killed
//! goes on where it was.
//!
//! ```text
//! slabyard sweep journal 1            what it is
//! 3f..c0 {"shard": ..., "text": ...}  whose it is: checksum, and JSON
//! 0,36,9a..,...                       a row, as CSV, in the order in which rows were done
//! ```
//!
//! Neighbours: `super::plan` says whose rows count, [`super::table`] writes the result. Invariants:
//! only one process at a time has it, by a lock that ends with the process; rows count up to the first
//! line that is torn or damaged, and what follows is done again; it goes only when the result is written.

use super::plan::Plan;
use super::row::Row;
use super::shard::Shard;
use crate::Error;
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use twox_hash::XxHash3_64;

const MAGIC: &str = "slabyard sweep journal 1\n";

/// A power cut loses at most what was done in this time.
const SYNC_EVERY: Duration = Duration::from_secs(2);

/// An open journal.
pub struct Journal {
    file: File,
    path: PathBuf,
    rows: BTreeMap<usize, Row>,
    synced: Instant,
    /// Up to here it is whole.
    length: u64,
}

/// The sweep and the part of it whose rows these are.
#[derive(Serialize, Deserialize, PartialEq)]
struct Owner {
    shard: String,
    text: String,
}

/// What becomes of a journal that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It goes on, if it is of the same sweep.
    Resume,
    /// It is emptied.
    Discard,
}

/// Where the journal of a result is.
#[must_use]
pub fn beside(output: &Path) -> PathBuf {
    let mut name = OsString::from(output);
    name.push(".part");
    name.into()
}

impl Journal {
    /// Opens the journal of a result, or begins one.
    ///
    /// # Errors
    /// [`Error::Usage`]: it is of another sweep, or another process has it; [`Error::Cannot`]: the file
    /// cannot be read or written.
    pub fn open(
        plan: &Plan,
        shard: Shard,
        output: &Path,
        before: Before,
    ) -> Result<Journal, Error> {
        let path = beside(output);
        let mut file = lock(&path, output)?;
        let owner = Owner { shard: shard.to_string(), text: plan.text.clone() };
        let mut bytes = Vec::new();
        if before == Before::Resume {
            file.read_to_end(&mut bytes).with_context(|| cannot("read", &path))?;
        }
        let mut journal =
            Journal { file, path, rows: BTreeMap::new(), synced: Instant::now(), length: 0 };
        let text = String::from_utf8_lossy(&bytes);
        match text.strip_prefix(MAGIC).and_then(|rest| rest.split_once('\n')) {
            // It was killed before it had begun.
            None if MAGIC.as_bytes().starts_with(&bytes) || text.starts_with(MAGIC) => {
                journal.begin(&owner)?;
            }
            None => return Err(journal.strange()),
            Some((header, rows)) => {
                let told = header.split_once(' ').filter(|(sum, json)| *sum == checksum(json));
                let told = told.and_then(|(_, json)| serde_json::from_str::<Owner>(json).ok());
                let told = told.ok_or_else(|| journal.strange())?;
                if told != owner {
                    return Err(journal.of_another(&told, &owner, output));
                }
                journal.length = (text.len() - rows.len()) as u64;
                journal.take(plan, shard, rows);
                journal.cut().with_context(|| cannot("write", &journal.path))?;
            }
        }
        Ok(journal)
    }

    fn begin(&mut self, owner: &Owner) -> Result<(), Error> {
        let json = serde_json::to_string(owner).context("the journal's head")?;
        self.length = 0;
        self.write(&format!("{MAGIC}{} {json}\n", checksum(&json)))?;
        self.sync()
    }

    /// Takes the rows up to the first that is torn or damaged.
    fn take(&mut self, plan: &Plan, shard: Shard, text: &str) {
        for line in text.split_inclusive('\n') {
            let row = line.strip_suffix('\n').and_then(|line| plan.row_of_line(line).ok());
            let Some(row) = row.filter(|row| row.point() % shard.of == shard.nth - 1) else {
                return;
            };
            self.length += line.len() as u64;
            self.rows.insert(row.point(), row);
        }
    }

    /// Points that are done.
    #[must_use]
    pub fn rows(&self) -> &BTreeMap<usize, Row> {
        &self.rows
    }

    /// Keeps a row.
    ///
    /// # Errors
    /// Where it cannot be written; then what was done before is kept.
    pub fn push(&mut self, row: Row) -> Result<(), Error> {
        self.write(&format!("{}\n", row.line()))?;
        self.rows.insert(row.point(), row);
        if self.synced.elapsed() >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// Brings what is written onto the disk.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.synced = Instant::now();
        self.file.sync_data().with_context(|| cannot("write", &self.path))?;
        Ok(())
    }

    /// Removes it: the result is written.
    ///
    /// # Errors
    /// Where it cannot be removed.
    pub fn remove(&self) -> Result<(), Error> {
        fs::remove_file(&self.path).with_context(|| cannot("remove", &self.path))?;
        Ok(())
    }

    /// Appends; what was written in part goes again.
    fn write(&mut self, text: &str) -> Result<(), Error> {
        let written = self.cut().and_then(|()| self.file.write_all(text.as_bytes()));
        if let Err(error) = written {
            let _ = self.cut();
            let why = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    ": free some room on this disk"
                }
                _ => "",
            };
            let done = self.rows.len();
            return Err(Error::Cannot(anyhow::Error::from(error).context(format!(
                "{}{why}; the {done} points that are done are kept, and the same command goes on",
                cannot("write", &self.path)
            ))));
        }
        self.length += text.len() as u64;
        Ok(())
    }

    fn cut(&mut self) -> io::Result<()> {
        if self.file.metadata()?.len() > self.length {
            self.file.set_len(self.length)?;
        }
        self.file.seek(SeekFrom::Start(self.length)).map(drop)
    }

    fn strange(&self) -> Error {
        Error::Usage(format!(
            "{} is damaged, or is no journal of a sweep: look at it; --restart writes over it",
            self.path.display()
        ))
    }

    fn of_another(&self, there: &Owner, here: &Owner, output: &Path) -> Error {
        let lines = |owner: &Owner| -> Vec<String> {
            let shard = format!("shard {}", owner.shard);
            owner.text.lines().map(str::to_owned).chain([shard]).collect()
        };
        let (there, here) = (lines(there), lines(here));
        let only = |a: &[String], b: &[String]| {
            let all: Vec<&str> =
                a.iter().filter(|line| !b.contains(line)).map(String::as_str).collect();
            if all.is_empty() { "nothing".to_owned() } else { all.join("; ") }
        };
        Error::Usage(format!(
            "{} is the journal of another sweep that has not ended: it has {}, and this one has {}; \
             give another -o than {}, or discard its rows with --restart",
            self.path.display(),
            only(&there, &here),
            only(&here, &there),
            output.display()
        ))
    }
}

/// Opens and locks the file of this name, which another process may remove meanwhile.
fn lock(path: &Path, output: &Path) -> Result<File, Error> {
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).with_context(|| cannot("write", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Usage(format!(
                    "another sweep is writing {}: wait until it has ended, or give another -o",
                    output.display()
                )));
            }
            Err(TryLockError::Error(error)) => {
                return Err(anyhow!(error)
                    .context(format!("cannot lock {}", path.display()))
                    .into());
            }
        }
        let ours = file.metadata().with_context(|| cannot("read", path))?;
        if fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (ours.dev(), ours.ino())) {
            return Ok(file);
        }
    }
}

fn checksum(text: &str) -> String {
    format!("{:016x}", XxHash3_64::oneshot(text.as_bytes()))
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} {}", path.display())
}
