//! Writes a trace file chunk by chunk, with the attachments between the chunks. What is written so
//! far is readable even if the writer never finishes.

use super::attached::Attached;
use super::chunk::{self, ChunkHeader};
use super::error::Error;
use super::format::{
    CHUNK_EVENTS, FOOTER_MAGIC, INDEX_MAGIC, MOST_BYTES, MOST_EVENTS, put, put_header,
};
use super::header::Header;
use super::names::{MOST_NAMES, NO_NAME, Names};
use crate::event::Event;
use std::io::Write;

/// zstd's level unless another is requested. On three kernel traces it takes 4 % off the size of
/// level 3 for a fifth of its speed, and writes 2 million events a second; level 19 takes off
/// another 5 to 13 % and writes half a million.
const LEVEL: i32 = 12;

/// A trace file in the making.
pub struct Writer<W> {
    out: W,
    names: Names,
    /// Names with a smaller index are in the file.
    written_names: usize,
    events: Vec<Event>,
    chunk_events: usize,
    level: i32,
    /// Lost since the last chunk.
    lost: u64,
    chunks: Vec<ChunkHeader>,
    written_events: u64,
    /// Bytes written.
    at: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub fn new(mut out: W, header: &Header) -> Result<Writer<W>, Error> {
        let bytes = put_header(header);
        out.write_all(&bytes)?;
        Ok(Writer {
            out,
            names: Names::new(),
            written_names: NO_NAME as usize + 1,
            events: Vec::new(),
            chunk_events: CHUNK_EVENTS,
            level: LEVEL,
            lost: 0,
            chunks: Vec::new(),
            written_events: 0,
            at: bytes.len() as u64,
        })
    }

    /// Begins with these names instead of none.
    #[must_use]
    pub fn with_names(mut self, names: Names) -> Writer<W> {
        self.names = names;
        self
    }

    /// Makes chunks of so many events: fewer lose less with a damaged chunk, and
    /// take more bytes.
    #[must_use]
    pub fn with_chunk_events(mut self, events: usize) -> Writer<W> {
        self.chunk_events = events.clamp(1, MOST_EVENTS as usize);
        self
    }

    /// Compresses with this level of zstd, 1 to 22.
    #[must_use]
    pub fn with_level(mut self, level: i32) -> Writer<W> {
        self.level = level.clamp(1, 22);
        self
    }

    /// The names, to add to them.
    pub fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    /// Counts events that the recorder lost at this place.
    pub fn lost(&mut self, events: u64) {
        self.lost = self.lost.saturating_add(events);
    }

    /// Adds an event.
    pub fn push(&mut self, event: &Event) -> Result<(), Error> {
        let lacks = |name: &u32| *name != NO_NAME && self.names.get(*name).is_empty();
        if let Some(name) = [event.name, event.site].into_iter().find(lacks) {
            let number = self.written_events + self.events.len() as u64;
            let names = self.names.len();
            return Err(Error::NoSuchName { event: number, name, names });
        }
        self.events.push(*event);
        if self.events.len() == self.chunk_events {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the events so far as a chunk, full or not.
    pub fn flush(&mut self) -> Result<(), Error> {
        let known = self.written_names == self.names.len();
        if self.events.is_empty() && self.lost == 0 && known {
            return Ok(());
        }
        let mut used = vec![false; self.written_names];
        used.resize(self.names.len(), true);
        for event in &self.events {
            used[event.name as usize] = true;
            used[event.site as usize] = true;
        }
        let named = self.names.iter().filter(|&(i, name)| used[i as usize] && !name.is_empty());
        let named: Vec<u32> = named.map(|(i, _)| i).collect();

        let body = chunk::encode(&self.events, &self.names, &named);
        if self.names.len() > MOST_NAMES as usize || body.len() > MOST_BYTES as usize {
            return Err(Error::TooMuch);
        }
        let folded = zstd::bulk::compress(&body, self.level)?;
        let times = self.events.iter().map(|e| e.time);
        let header = ChunkHeader {
            attached: false,
            body: folded.len() as u32,
            unfolded: body.len() as u32,
            events: self.events.len() as u32,
            checksum: crc32fast::hash(&folded),
            first: self.written_events,
            lost: self.lost,
            times: (times.clone().min().unwrap_or(0), times.max().unwrap_or(0)),
        };
        self.put_block(header, &folded)?;
        self.written_events += self.events.len() as u64;
        self.written_names = self.names.len();
        self.events.clear();
        self.lost = 0;
        Ok(())
    }

    /// Writes the events so far, and then what is attached to the trace at this point.
    pub fn attach(&mut self, attached: &Attached) -> Result<(), Error> {
        self.flush()?;
        let body = attached.put();
        if body.len() > MOST_BYTES as usize {
            return Err(Error::TooMuch);
        }
        let folded = zstd::bulk::compress(&body, LEVEL)?;
        let header = ChunkHeader {
            attached: true,
            body: folded.len() as u32,
            unfolded: body.len() as u32,
            events: 0,
            checksum: crc32fast::hash(&folded),
            first: self.written_events,
            lost: 0,
            times: (attached.time, attached.time),
        };
        self.put_block(header, &folded)
    }

    /// Bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    fn put_block(&mut self, header: ChunkHeader, body: &[u8]) -> Result<(), Error> {
        let head = header.put();
        self.out.write_all(&head)?;
        self.out.write_all(body)?;
        // A block is there whole, or not at all: nobody may come back to write the rest.
        self.out.flush()?;
        self.at += (head.len() + body.len()) as u64;
        self.chunks.push(header);
        Ok(())
    }

    /// Writes what is left, and the index.
    pub fn finish(mut self) -> Result<W, Error> {
        self.flush()?;
        let mut index = Vec::new();
        put(&mut index, self.chunks.len() as u64);
        for chunk in &self.chunks {
            let span = chunk.times.1 - chunk.times.0;
            for n in [chunk.body.into(), chunk.events.into(), chunk.lost, chunk.times.0, span] {
                put(&mut index, n);
            }
        }
        let attached = (0u64..).zip(&self.chunks).filter(|(_, chunk)| chunk.attached);
        let attached: Vec<u64> = attached.map(|(at, _)| at).collect();
        put(&mut index, attached.len() as u64);
        attached.iter().for_each(|&at| put(&mut index, at));
        let mut end = INDEX_MAGIC.to_vec();
        end.extend((index.len() as u32).to_le_bytes());
        end.extend(crc32fast::hash(&index).to_le_bytes());
        end.extend(index);
        let mut footer = self.at.to_le_bytes().to_vec();
        footer.extend(crc32fast::hash(&footer).to_le_bytes());
        footer.extend(FOOTER_MAGIC);
        end.extend(footer);
        self.out.write_all(&end)?;
        self.out.flush()?;
        Ok(self.out)
    }
}
