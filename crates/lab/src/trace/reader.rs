//! Reads a trace file chunk by chunk, with one chunk in memory at a time.
//!
//! The chunks are found through the index at the file's end or, in a file without an index, by
//! walking the chunk headers. A damaged chunk is skipped and reported in [`Reader::damaged`].

use super::attached::Attached;
use super::chunk::{self, ChunkHeader};
use super::error::{Damage, Error, Harm};
use super::format::{
    ATTACHED_MAGIC, Bytes, CHUNK_HEADER, CHUNK_MAGIC, FOOTER, FOOTER_MAGIC, HEADER_START,
    INDEX_HEADER, INDEX_MAGIC, MAGIC, MOST_HEADER, VERSION, get_header, word32, word64,
};
use super::header::Header;
use super::names::Names;
use super::whole::Trace;
use crate::event::Event;
use std::io::{self, Read, Seek, SeekFrom};

/// What is known of a chunk before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where in the file it begins, in bytes.
    pub at: u64,
    /// Number of its first event.
    pub first: u64,
    /// How many it has.
    pub events: u32,
    /// Events that the recorder lost before or among these.
    pub lost: u64,
    /// Earliest and latest time in it.
    pub times: (u64, u64),
    /// Bytes of its body.
    body: u32,
    /// Not events, but something attached to the trace.
    attached: bool,
}

/// A trace file being read.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    header: Header,
    names: Names,
    chunks: Vec<Chunk>,
    /// The next chunk to be read.
    next: usize,
    damaged: Vec<Damage>,
    /// The body as it is in the file.
    folded: Vec<u8>,
}

impl<R: Read + Seek> Reader<R> {
    /// Reads the header and finds the chunks.
    pub fn new(mut input: R) -> Result<Reader<R>, Error> {
        let size = input.seek(SeekFrom::End(0))?;
        let (header, start, version) = read_header(&mut input, size)?;
        let mut reader = Reader {
            input,
            header,
            names: Names::new(),
            chunks: Vec::new(),
            next: 0,
            damaged: Vec::new(),
            folded: Vec::new(),
        };
        match reader.read_index(start, size, version)? {
            Ok(chunks) => reader.chunks = chunks,
            Err(what) => {
                let missing = reader.walk(start, size)?;
                reader.damaged.push(Damage { at: size, events: missing, what });
            }
        }
        Ok(reader)
    }

    /// What is known of the machine.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The names of the chunks read so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The chunks, in the file's order.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Events in all chunks, damaged ones included.
    pub fn events(&self) -> u64 {
        self.chunks.iter().map(|c| u64::from(c.events)).sum()
    }

    /// Events that the recorder lost.
    pub fn lost(&self) -> u64 {
        self.chunks.iter().fold(0, |sum, c| sum.saturating_add(c.lost))
    }

    /// What was skipped so far.
    pub fn damaged(&self) -> &[Damage] {
        &self.damaged
    }

    /// Goes to the first chunk with an event of this time or later.
    pub fn seek(&mut self, time: u64) {
        let later = |c: &Chunk| c.events > 0 && c.times.1 >= time;
        self.next = self.chunks.iter().position(later).unwrap_or(self.chunks.len());
    }

    /// The next chunk that is whole, its events appended to `events`. None at the
    /// end.
    pub fn next_chunk(&mut self, events: &mut Vec<Event>) -> Result<Option<Chunk>, Error> {
        while let Some(&chunk) = self.chunks.get(self.next) {
            self.next += 1;
            if chunk.attached {
                continue;
            }
            let before = events.len();
            match self.read_chunk(chunk, events)? {
                Ok(()) => return Ok(Some(chunk)),
                Err(what) => {
                    events.truncate(before);
                    let missing = Some(chunk.events.into());
                    self.damaged.push(Damage { at: chunk.at, events: missing, what });
                }
            }
        }
        Ok(None)
    }

    /// What is attached to the trace, as far as it is whole; [`Reader::damaged`] has what is
    /// not.
    pub fn attached(&mut self) -> Result<Vec<Attached>, Error> {
        let mut found = Vec::new();
        for at in 0..self.chunks.len() {
            let chunk = self.chunks[at];
            if !chunk.attached {
                continue;
            }
            let wrong = Harm::Content("an attachment has no name");
            let read = match self.read_body(chunk)? {
                Ok(body) => Attached::get(&body, chunk.times.0).ok_or(wrong),
                Err(what) => Err(what),
            };
            match read {
                Ok(attached) => found.push(attached),
                Err(what) => {
                    self.damaged.push(Damage { at: chunk.at, events: Some(0), what });
                }
            }
        }
        Ok(found)
    }

    /// All that is left, in memory.
    pub fn read_all(mut self) -> Result<Trace, Error> {
        let mut events = Vec::new();
        while self.next_chunk(&mut events)?.is_some() {}
        let attached = self.attached()?;
        let lost = self.lost();
        let mut damaged = self.damaged;
        damaged.sort_by_key(|d| d.at);
        Ok(Trace { events, names: self.names, header: self.header, lost, damaged, attached })
    }

    fn read_chunk(
        &mut self,
        chunk: Chunk,
        events: &mut Vec<Event>,
    ) -> Result<Result<(), Harm>, Error> {
        let body = match self.read_body(chunk)? {
            Ok(body) => body,
            Err(what) => return Ok(Err(what)),
        };
        let done = chunk::decode(&body, chunk.events, &mut self.names, events);
        Ok(done.map_err(Harm::Content))
    }

    /// A chunk's body, unfolded, if it is what was written.
    fn read_body(&mut self, chunk: Chunk) -> Result<Result<Vec<u8>, Harm>, Error> {
        let mut head = [0; CHUNK_HEADER];
        self.input.seek(SeekFrom::Start(chunk.at))?;
        self.input.read_exact(&mut head)?;
        let Some(header) = ChunkHeader::get(&head) else {
            return Ok(Err(Harm::ChunkHeader));
        };
        if Chunk::at(chunk.at, &header) != chunk {
            return Ok(Err(Harm::Content("its header is not what the index says")));
        }
        self.folded.resize(header.body as usize, 0);
        self.input.read_exact(&mut self.folded)?;
        if crc32fast::hash(&self.folded) != header.checksum {
            return Ok(Err(Harm::Checksum));
        }
        let body = zstd::bulk::decompress(&self.folded, header.unfolded as usize);
        let body = body.ok().filter(|b| b.len() == header.unfolded as usize);
        Ok(body.ok_or(Harm::Content("it does not unfold")))
    }

    /// The chunks by the index; what is wrong if there is none.
    fn read_index(
        &mut self,
        start: u64,
        size: u64,
        version: u32,
    ) -> io::Result<Result<Vec<Chunk>, Harm>> {
        if size < start + (INDEX_HEADER + FOOTER) as u64 {
            return Ok(Err(Harm::NoIndex));
        }
        let end = size - FOOTER as u64;
        let footer = read_at(&mut self.input, end, FOOTER)?;
        if footer[12..] != FOOTER_MAGIC {
            return Ok(Err(Harm::NoIndex));
        }
        let at = word64(&footer, 0);
        let room = start..=end - INDEX_HEADER as u64;
        if crc32fast::hash(&footer[..8]) != word32(&footer, 8) || !room.contains(&at) {
            return Ok(Err(Harm::Index));
        }
        let Ok(bytes) = usize::try_from(end - at) else {
            return Ok(Err(Harm::Index));
        };
        let index = read_at(&mut self.input, at, bytes)?;
        let (head, body) = index.split_at(INDEX_HEADER);
        let whole = head[..4] == INDEX_MAGIC
            && word32(head, 4) as usize == body.len()
            && word32(head, 8) == crc32fast::hash(body);
        let chunks = if whole { parse_index(body, start, at, version) } else { None };
        Ok(chunks.ok_or(Harm::Index))
    }

    /// The chunks by their headers, from one to the next; over what is damaged to
    /// the next that can be read. Some(0) if it came to an index, behind which no
    /// chunk can be; None if there may have been more.
    fn walk(&mut self, start: u64, size: u64) -> io::Result<Option<u64>> {
        let mut at = start;
        let mut events = 0u64;
        while at < size {
            let head = read_at(&mut self.input, at, CHUNK_HEADER.min((size - at) as usize))?;
            if head.starts_with(&INDEX_MAGIC) {
                return Ok(Some(0));
            }
            let Some(header) = ChunkHeader::get(&head) else {
                let what = if head.len() < CHUNK_HEADER { Harm::Cut } else { Harm::ChunkHeader };
                // How many are missing shows at the next chunk.
                self.damaged.push(Damage { at, events: None, what });
                at = self.find_chunk(at + 1, size)?;
                continue;
            };
            self.count_missing(at, header.first, events);
            let end = at + (CHUNK_HEADER as u64) + u64::from(header.body);
            if end > size {
                let missing = Some(header.events.into());
                self.damaged.push(Damage { at, events: missing, what: Harm::Cut });
                return Ok(None);
            }
            events = header.first.saturating_add(header.events.into());
            self.chunks.push(Chunk::at(at, &header));
            at = end;
        }
        Ok(None)
    }

    /// Says of the damage just before `at` how many events it took.
    fn count_missing(&mut self, at: u64, first: u64, expected: u64) {
        let missing = first.checked_sub(expected);
        match self.damaged.last_mut().filter(|d| d.events.is_none()) {
            Some(damage) => damage.events = missing,
            None if missing != Some(0) => {
                self.damaged.push(Damage { at, events: missing, what: Harm::Missing });
            }
            None => {}
        }
    }

    /// The first place, not before `at`, with a chunk's header; `size` if there is none.
    fn find_chunk(&mut self, mut at: u64, size: u64) -> io::Result<u64> {
        const BLOCK: usize = 1 << 16;
        while at < size {
            let bytes = BLOCK.min((size - at) as usize);
            let block = read_at(&mut self.input, at, bytes)?;
            let mut places: Vec<usize> = [CHUNK_MAGIC, ATTACHED_MAGIC]
                .iter()
                .flat_map(|magic| memchr::memmem::find_iter(&block, magic))
                .collect();
            places.sort_unstable();
            for place in places {
                let place = at + place as u64;
                let bytes = CHUNK_HEADER.min((size - place) as usize);
                if ChunkHeader::get(&read_at(&mut self.input, place, bytes)?).is_some() {
                    return Ok(place);
                }
            }
            // The magic may lie across the block's end.
            at += if bytes < BLOCK { bytes } else { BLOCK - (CHUNK_MAGIC.len() - 1) } as u64;
        }
        Ok(size)
    }
}

impl Chunk {
    fn at(at: u64, header: &ChunkHeader) -> Chunk {
        let ChunkHeader { first, events, lost, times, body, attached, .. } = *header;
        Chunk { at, first, events, lost, times, body, attached }
    }
}

/// The header, where it ends, and the file's version.
fn read_header<R: Read + Seek>(input: &mut R, size: u64) -> Result<(Header, u64, u32), Error> {
    let head = read_at(input, 0, HEADER_START.min(size as usize))?;
    let magic = &head[..head.len().min(MAGIC.len())];
    if head.is_empty() {
        return Err(Error::Empty);
    }
    if !MAGIC.starts_with(magic) {
        return Err(Error::NotATrace);
    }
    if head.len() < HEADER_START {
        return Err(Error::HeaderCut);
    }
    let version = word32(&head, 8);
    if version > VERSION {
        return Err(Error::Newer { found: version, newest: VERSION });
    }
    if version == 0 {
        return Err(Error::Header("there is no version 0"));
    }
    let fields = word32(&head, 12);
    if fields > MOST_HEADER {
        return Err(Error::Header("its length makes no sense"));
    }
    let end = HEADER_START + fields as usize;
    if size < end as u64 + 4 {
        return Err(Error::HeaderCut);
    }
    let all = read_at(input, 0, end + 4)?;
    if crc32fast::hash(&all[..end]) != word32(&all, end) {
        return Err(Error::Header("its checksum is wrong"));
    }
    Ok((get_header(&all[HEADER_START..end])?, end as u64 + 4, version))
}

/// The chunks that an index lists; they fill the file from `start` to `end`.
fn parse_index(body: &[u8], start: u64, end: u64, version: u32) -> Option<Vec<Chunk>> {
    let mut index = Bytes(body);
    let count = index.get()?;
    let mut chunks = Vec::new();
    let (mut at, mut first) = (start, 0u64);
    for _ in 0..count {
        let body = index.get_as()?;
        let events = index.get_as()?;
        let lost = index.get()?;
        let earliest = index.get()?;
        let times = (earliest, earliest.checked_add(index.get()?)?);
        chunks.push(Chunk { at, first, events, lost, times, body, attached: false });
        first = first.checked_add(events.into())?;
        at = at.checked_add(CHUNK_HEADER as u64 + u64::from(body))?;
        if at > end {
            return None;
        }
    }
    if version >= 2 {
        for _ in 0..index.get()? {
            chunks.get_mut(index.get_as::<usize>()?)?.attached = true;
        }
    }
    (at == end && index.0.is_empty()).then_some(chunks)
}

fn read_at<R: Read + Seek>(input: &mut R, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut read = vec![0; bytes];
    input.seek(SeekFrom::Start(at))?;
    input.read_exact(&mut read)?;
    Ok(read)
}
