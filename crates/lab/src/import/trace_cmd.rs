//! Reads `trace.dat`, as `trace-cmd record -e kmem` writes it: versions 6 and 7, plain or
//! compressed by zstd.
//!
//! ```text
//! 6: tracing data | printk, processes | CPUs | options | "flyrecord", place and bytes of each CPU's data
//! 7: magic, version, order of bytes, word, page size | compression | place of the options
//!    section: id 2, compressed 2, name 4, bytes 8, then these | options name the places of the others
//!    compressed: bytes 4, bytes unfolded 4, data; a CPU's data: chunks 4, each the same
//! ```
//!
//! The format is described in `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)`. The data of each CPU
//! are pages of the kernel's ring buffer. [`tracing`](super::tracing) reads the descriptions of the
//! events; the recorder's [`walk`] and [`Decoder`] read the events. Invariant: the sizes of the
//! file's parts are compared with the file's length, and with fixed bounds, before memory is
//! allocated for them.

use super::tracing::{Bytes, MAGIC, Tracing};
use crate::plain::plain;
use crate::record::{Decoder, Layouts, Page, walk};
use crate::trace::{Error, Header, Names, Trace, times, unnamed};
use slabyard_observe::kernel::Symbols;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Most bytes of what describes the events, and of a section unfolded.
const MOST_HEAD: u64 = 256 << 20;
/// Most bytes of a chunk of a CPU's data unfolded.
const MOST_CHUNK: usize = 64 << 20;
/// Bytes of a page of a ring buffer.
const PAGES: std::ops::RangeInclusive<u32> = 1 << 10..=1 << 20;
const MOST_CPUS: u32 = 1 << 14;

/// Numbers of sections and of the options that name their places.
mod section {
    pub const OPTIONS: u16 = 0;
    pub const BUFFER: u16 = 3;
    pub const HEADER: u16 = 16;
    pub const EVENTS: u16 = 18;
    pub const FUNCTIONS: u16 = 19;
}

/// Numbers of options.
mod option {
    pub const DONE: u16 = 0;
    pub const STATISTICS: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const UNAME: u16 = 5;
    pub const CPUS: u16 = 8;
    pub const TICKS: u16 = 14;
}

/// Reads all events of `kmem`, in order of time.
pub fn read(file: File) -> Result<Trace, Error> {
    let bytes = file.metadata()?.len();
    let input = Input { file, bytes };
    let mut found = FileLayout::read(&input)?;
    let layouts = Layouts::of_texts(|event| found.tracing.formats.get(event).cloned())
        .map_err(|error| foreign(error.to_string()))?;
    if found.tracing.formats.is_empty() {
        return Err(foreign("it describes no events of kmem: record with -e kmem"));
    }
    let page = Page::parse(&found.tracing.header_page)
        .ok_or_else(|| foreign("its description of a page makes no sense"))?;
    let symbols = Symbols::parse(std::mem::take(&mut found.tracing.kallsyms));
    let (mut names, mut events, mut lost) = (Names::new(), Vec::new(), 0u64);
    for data in &found.data {
        let mut decoder = Decoder::new(&layouts, &symbols, data.cpu);
        let mut numbers = vec![0];
        data.pages(&input, found.page_size, |bytes| {
            let missing = walk(&page, bytes, |time, bytes| {
                let Some(event) = decoder.event(found.ns(time), bytes) else { return };
                numbers.extend(decoder.new_names().iter().map(|name| names.intern(name)));
                events.push(event.renamed(|name| numbers[name as usize]));
            });
            let wrong = |what| foreign(format!("a page of CPU {}: {what}", data.cpu));
            lost = lost.saturating_add(missing.map_err(wrong)?);
            Ok(())
        })?;
    }
    events.sort_by_key(|event| event.time);
    if let Some(event) = times::astray(&events) {
        return Err(foreign(times::told(event)));
    }
    let first = events.first().map_or(0, |event| event.time);
    events.iter_mut().for_each(|event| event.time -= first);
    let header = Header {
        release: found.release.clone(),
        page_size: Some(found.tracing.page_size),
        cpus: found.cpus,
        page_offset: None,
        source: "trace-cmd record".into(),
    };
    let header = header.or(&Header::detect(&events));
    // The kernel's own count has those too that no page tells of.
    let lost = lost.max(found.lost);
    let mut trace = Trace { events, names, header, lost, ..Trace::default() };
    unnamed::name_all(&mut trace);
    Ok(trace)
}

fn foreign(what: impl Into<String>) -> Error {
    Error::Foreign { recorder: "trace-cmd", what: what.into() }
}

fn senseless(what: &str) -> Error {
    foreign(format!("{what} makes no sense: the file is damaged or cut off"))
}

struct Input {
    file: File,
    bytes: u64,
}

impl Input {
    fn at(&self, place: u64, bytes: u64, what: &str) -> Result<Vec<u8>, Error> {
        let end = place.checked_add(bytes).filter(|end| *end <= self.bytes);
        if end.is_none() {
            return Err(foreign(format!(
                "{what} ends behind the end of the file: it is damaged or cut off"
            )));
        }
        let mut read = vec![0; bytes as usize];
        self.file.read_exact_at(&mut read, place)?;
        Ok(read)
    }

    /// A section of version 7, unfolded.
    fn section(&self, place: u64, id: u16, what: &str) -> Result<Vec<u8>, Error> {
        let (folded, bytes) = self.section_header(place, id, what)?;
        if bytes > MOST_HEAD {
            return Err(senseless(what));
        }
        let body = self.at(place + 16, bytes, what)?;
        if !folded {
            return Ok(body);
        }
        let mut body = Bytes(&body);
        unfold(&mut body, MOST_HEAD as usize).ok_or_else(|| senseless(what))
    }

    /// If a section is compressed, and its bytes.
    fn section_header(&self, place: u64, id: u16, what: &str) -> Result<(bool, u64), Error> {
        let header = self.at(place, 16, what)?;
        let mut header = Bytes(&header);
        let mut read = || {
            let (found, flags) = (header.word16()?, header.word16()?);
            header.word32()?;
            (found == id).then_some((flags & 1 != 0, header.word64()?))
        };
        read().ok_or_else(|| senseless(what))
    }
}

/// Compressed bytes behind their number and the number of what they unfold to.
fn unfold(bytes: &mut Bytes<'_>, most: usize) -> Option<Vec<u8>> {
    let (folded, unfolded) = (bytes.word32()? as usize, bytes.word32()? as usize);
    let folded = bytes.take(folded)?;
    if unfolded > most {
        return None;
    }
    zstd::bulk::decompress(folded, unfolded).ok().filter(|bytes| bytes.len() == unfolded)
}

/// Where a CPU's pages are.
struct Data {
    cpu: u16,
    place: u64,
    bytes: u64,
    folded: bool,
}

impl Data {
    /// Gives each page to `take`.
    fn pages(
        &self,
        input: &Input,
        page_size: usize,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let what = format!("the data of CPU {}", self.cpu);
        // Told before anything is read: a file that is cut off has less.
        if self.place.checked_add(self.bytes).is_none_or(|end| end > input.bytes) {
            return input.at(self.place, self.bytes, &what).map(|_| ());
        }
        let end = self.place + self.bytes;
        let mut place = self.place;
        if !self.folded {
            while place < end {
                let bytes = (end - place).min(page_size as u64);
                take(&input.at(place, bytes, &what)?)?;
                place += bytes;
            }
            return Ok(());
        }
        if self.bytes == 0 {
            return Ok(());
        }
        let chunks = Bytes(&input.at(place, 4, &what)?).word32().unwrap_or(0);
        // The bytes of the data are without those of this number, as trace-cmd 3.1 writes them.
        let end = end + 4;
        place += 4;
        for _ in 0..chunks {
            let folded = Bytes(&input.at(place, 4, &what)?).word32().unwrap_or(0);
            let bytes = u64::from(folded) + 8;
            if place + bytes > end {
                return Err(senseless(&what));
            }
            let chunk = input.at(place, bytes, &what)?;
            let pages = unfold(&mut Bytes(&chunk), MOST_CHUNK).ok_or_else(|| senseless(&what))?;
            pages.chunks(page_size).try_for_each(&mut take)?;
            place += bytes;
        }
        Ok(())
    }
}

#[derive(Default)]
struct FileLayout {
    tracing: Tracing,
    data: Vec<Data>,
    page_size: usize,
    cpus: Option<u32>,
    release: String,
    /// Events that the kernel counted as lost.
    lost: u64,
    /// Ticks to nanoseconds: factor, shift, offset.
    ticks: Option<(u32, u32, u64)>,
}

impl FileLayout {
    fn read(input: &Input) -> Result<FileLayout, Error> {
        let head = input.at(0, input.bytes.min(MOST_HEAD), "the beginning")?;
        let mut found = FileLayout::default();
        let mut bytes = Bytes(&head);
        let version = found.tracing.begin(&mut bytes);
        match version.as_deref() {
            Some("6") => found.version6(&head)?,
            Some("7") => found.version7(input, &mut bytes)?,
            Some(other) => {
                let other: String = other.chars().take(20).filter(|c| !c.is_control()).collect();
                return Err(foreign(format!(
                    "it is of version {other}: 6 and 7 are read; `trace-cmd record \
                     --file-version 7` writes one, and the text of `trace-cmd report` is read too"
                )));
            }
            None if head.get(MAGIC.len() + 2) == Some(&1) => {
                return Err(foreign("it is of a machine with the other order of bytes"));
            }
            None => return Err(senseless("its beginning")),
        }
        let size = u32::try_from(found.page_size).unwrap_or(0);
        if !PAGES.contains(&size) {
            return Err(foreign(format!("pages of {size} bytes make no sense")));
        }
        Ok(found)
    }

    fn ns(&self, time: u64) -> u64 {
        let Some((factor, shift, offset)) = self.ticks else { return time };
        let ns = (u128::from(time) * u128::from(factor)) >> shift.min(127);
        offset.wrapping_add(ns as u64)
    }

    fn version6(&mut self, head: &[u8]) -> Result<(), Error> {
        let mut bytes = Bytes(head);
        self.tracing =
            Tracing::parse(&mut bytes).ok_or_else(|| senseless("what it says of its events"))?;
        self.page_size = self.tracing.page_size as usize;
        self.rest6(&mut bytes).ok_or_else(|| senseless("what it says of its CPUs"))?
    }

    /// Printk's formats, names of processes, options, and where the CPUs' data are.
    fn rest6(&mut self, bytes: &mut Bytes<'_>) -> Option<Result<(), Error>> {
        bytes.sized32()?;
        bytes.sized()?;
        let cpus = bytes.word32().filter(|cpus| *cpus <= MOST_CPUS)?;
        self.cpus = Some(cpus);
        let mut kind = bytes.take(10)?;
        if kind == b"options  \0" {
            loop {
                let id = bytes.word16()?;
                if id == option::DONE {
                    break;
                }
                self.option(id, bytes.sized32()?);
            }
            kind = bytes.take(10)?;
        }
        if kind == b"latency  \0" {
            return Some(Err(foreign("it holds text: give that of `trace-cmd report`")));
        }
        if kind != b"flyrecord\0" {
            return None;
        }
        for cpu in 0..cpus {
            let (place, bytes) = (bytes.word64()?, bytes.word64()?);
            self.data.push(Data { cpu: u16::try_from(cpu).ok()?, place, bytes, folded: false });
        }
        Some(Ok(()))
    }

    fn version7(&mut self, input: &Input, bytes: &mut Bytes<'_>) -> Result<(), Error> {
        let mut read = || Some((bytes.words()?, bytes.words()?, bytes.word64()?));
        let (compression, _, mut place) = read().ok_or_else(|| senseless("its beginning"))?;
        if !matches!(compression, b"none" | b"zstd" | b"") {
            let name: String = String::from_utf8_lossy(compression).chars().take(20).collect();
            return Err(foreign(format!(
                "it is compressed by {name:?}: record with --compression zstd, or none"
            )));
        }
        let mut buffers = Vec::new();
        let mut seen = HashSet::new();
        while place != 0 {
            const OPTIONS: &str = "a section of options";
            if !seen.insert(place) {
                return Err(senseless(OPTIONS));
            }
            let options = input.section(place, section::OPTIONS, OPTIONS)?;
            place =
                self.options7(&options, input, &mut buffers)?.ok_or_else(|| senseless(OPTIONS))?;
        }
        // That of the machine is first, and those of instances may hold the same events again.
        let with_data = |buffer: &&Buffer| buffer.data.iter().any(|data| data.bytes > 0);
        let buffer = buffers.iter().find(with_data).or(buffers.first());
        let buffer = buffer.ok_or_else(|| foreign("it holds no events, or only their text"))?;
        let what = "a buffer";
        let (folded, _) = input.section_header(buffer.place, section::BUFFER, what)?;
        let of = |data: &Data| Data { folded, ..*data };
        self.data = buffer.data.iter().map(of).collect();
        self.page_size = buffer.page_size as usize;
        Ok(())
    }

    /// The place of the next options; None if these make no sense.
    fn options7(
        &mut self,
        options: &[u8],
        input: &Input,
        buffers: &mut Vec<Buffer>,
    ) -> Result<Option<u64>, Error> {
        let mut bytes = Bytes(options);
        loop {
            let mut read = || Some((bytes.word16()?, bytes.sized32()?));
            let Some((id, value)) = read() else { return Ok(None) };
            let place = Bytes(value).word64();
            let read = |place: Option<u64>, what: &str| match place {
                Some(place) => input.section(place, id, what),
                None => Err(senseless(what)),
            };
            let what = match id {
                section::HEADER => "its description of a page",
                section::EVENTS => "what it says of its events",
                section::FUNCTIONS => "its names of functions",
                _ => "an option",
            };
            let tracing = &mut self.tracing;
            let told = match id {
                option::DONE => return Ok(place),
                section::HEADER => tracing.header(&mut Bytes(&read(place, what)?)),
                section::EVENTS => tracing.events(&mut Bytes(&read(place, what)?)),
                section::FUNCTIONS => tracing.functions(&mut Bytes(&read(place, what)?)),
                option::BUFFER => Buffer::parse(value).map(|buffer| buffers.push(buffer)),
                _ => {
                    self.option(id, value);
                    Some(())
                }
            };
            told.ok_or_else(|| senseless(what))?;
        }
    }

    /// An option that both versions have.
    fn option(&mut self, id: u16, value: &[u8]) {
        let text = || String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or(b""));
        let mut bytes = Bytes(value);
        match id {
            // `Linux host 6.12.0 #1 ...`
            option::UNAME => {
                let text = text();
                self.release =
                    plain(text.split_whitespace().nth(2).unwrap_or_default()).into_owned();
            }
            option::CPUS => {
                self.cpus = bytes.word32().filter(|cpus| (1..=MOST_CPUS).contains(cpus));
            }
            option::STATISTICS => {
                let count = |line: &str| {
                    let (what, n) = line.split_once(':')?;
                    let lost = ["overrun", "commit overrun", "dropped events"].contains(&what);
                    lost.then(|| n.trim().parse::<u64>().ok()).flatten()
                };
                let lost = text().lines().filter_map(count).fold(0, u64::saturating_add);
                self.lost = self.lost.saturating_add(lost);
            }
            option::TICKS => {
                let (factor, shift, offset) = (bytes.word32(), bytes.word32(), bytes.word64());
                self.ticks = factor.zip(shift).zip(offset).map(|((f, s), o)| (f, s, o));
            }
            _ => {}
        }
    }
}

/// The option that describes a buffer.
struct Buffer {
    place: u64,
    page_size: u32,
    data: Vec<Data>,
}

impl Buffer {
    fn parse(value: &[u8]) -> Option<Buffer> {
        let mut bytes = Bytes(value);
        let place = bytes.word64()?;
        // Of the instance and of its clock.
        bytes.words()?;
        bytes.words()?;
        let (page_size, cpus) = (bytes.word32()?, bytes.word32()?);
        let mut data = Vec::new();
        for _ in 0..cpus {
            let cpu = u16::try_from(bytes.word32()?).ok()?;
            let (place, bytes) = (bytes.word64()?, bytes.word64()?);
            data.push(Data { cpu, place, bytes, folded: false });
        }
        Some(Buffer { place, page_size, data })
    }
}

#[cfg(test)]
mod tests;
