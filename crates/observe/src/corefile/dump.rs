//! A process's memory, read from its core file.

use super::elf::{Headers, Notes, Segment, not_core};
use super::error::Error;
use crate::process::memory::{Fault, Memory, MemoryPart};
use object::ReadCache;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A core file, open.
pub(super) struct CoreDump {
    file: File,
    /// By address.
    segments: Vec<Segment>,
    /// Milliseconds since the epoch.
    pub(super) written_at_ms: Option<u64>,
    pub(super) notes: Notes,
}

impl CoreDump {
    pub(super) fn open(path: &Path) -> Result<CoreDump, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let facts = file.metadata().map_err(io)?;
        if !facts.is_file() {
            return Err(not_core(path, "it is no regular file"));
        }
        let cache = ReadCache::new(file.try_clone().map_err(io)?);
        let headers = Headers::parse(path, &cache)?;
        let (segments, wants) = headers.segments()?;
        if wants > facts.len() {
            return Err(Error::Truncated { path: path.to_owned(), has: facts.len(), wants });
        }
        let notes = headers.notes()?;
        let written = facts.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let written_at_ms = written.and_then(|d| u64::try_from(d.as_millis()).ok());
        Ok(CoreDump { file, segments, written_at_ms, notes })
    }
}

impl Memory for CoreDump {
    fn read(&self, parts: &[MemoryPart], into: &mut [u8]) -> Result<(), Fault> {
        let mut rest = into;
        for part in parts {
            let (mut now, later) = rest.split_at_mut(part.bytes);
            rest = later;
            let mut at = part.address;
            // A part may go over segments that lie side by side.
            while !now.is_empty() {
                let after = self.segments.partition_point(|s| s.memory.start <= at);
                let segment = after.checked_sub(1).map(|i| &self.segments[i]);
                let Some(segment) = segment.filter(|s| s.memory.contains(&at)) else {
                    return Err(Fault::Absent(at));
                };
                let here = usize::try_from(segment.memory.end - at).unwrap_or(usize::MAX);
                let (bytes, others) = now.split_at_mut(here.min(now.len()));
                let offset = segment.offset + (at - segment.memory.start);
                self.file.read_exact_at(bytes, offset)?;
                at += bytes.len() as u64;
                now = others;
            }
        }
        Ok(())
    }

    fn mappings(&self) -> Result<Vec<Range<u64>>, Fault> {
        let writable = self.segments.iter().filter(|s| s.writable);
        Ok(writable.map(|s| s.memory.clone()).collect())
    }
}
