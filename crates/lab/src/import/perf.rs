//! `perf.data`, by the crate `linux-perf-data`: each sample of an event of `kmem` has the bytes that the
//! kernel's own ring buffer has, and the file the formats of the events.
//!
//! ```text
//! tracing data: magic, "tracing", version | order of bytes, bytes of a word, page size
//!               header_page, header_event, ftrace's formats | systems, each with formats | kallsyms ...
//! ```
//!
//! The tracing data is described in `trace-cmd.dat.v6(5)`, "INITIAL FORMAT" to "KALLSYMS INFORMATION".

use crate::event::Event;
use crate::record::{Decoder, Layouts, Symbols};
use crate::trace::{Error, Header, Names, Trace, unnamed};
use linux_perf_data::linux_perf_event_reader::EventRecord;
use linux_perf_data::{Feature, PerfFileReader, PerfFileRecord};
use std::collections::HashMap;
use std::io::{Read, Seek};

/// The first bytes of such a file.
pub const MAGIC: &[u8] = b"PERFILE2";
const TRACING_MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Reads all events of `kmem`, in order of time.
pub fn read(input: impl Read + Seek) -> Result<Trace, Error> {
    let foreign = |what: String| Error::Foreign { recorder: "perf", what };
    let wrong = |error: linux_perf_data::Error| foreign(error.to_string());
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(input).map_err(wrong)?;
    let tracing = perf_file.feature_section_data(Feature::TRACING_DATA);
    let tracing = tracing.ok_or_else(|| foreign("it holds no tracepoints".into()))?;
    let tracing = Tracing::parse(tracing)
        .ok_or_else(|| foreign("the formats of its events make no sense".into()))?;
    let formats = &tracing.formats;
    let layouts = Layouts::of_texts(|event| formats.get(event).cloned())
        .map_err(|error| foreign(error.to_string()))?;
    let symbols = Symbols::parse(tracing.kallsyms);
    let header = Header {
        release: perf_file.os_release().ok().flatten().unwrap_or_default().to_owned(),
        page_size: Some(tracing.page_size),
        cpus: perf_file.nr_cpus().ok().flatten().map(|cpus| cpus.nr_cpus_available),
        page_offset: None,
        source: format!(
            "perf record of {}",
            perf_file.hostname().ok().flatten().unwrap_or("a machine")
        ),
    };
    let mut decoders: HashMap<u16, (Decoder<'_>, Vec<u32>)> = HashMap::new();
    let (mut names, mut events, mut lost) = (Names::new(), Vec::new(), 0);
    while let Some(record) = record_iter.next_record(&mut perf_file).map_err(wrong)? {
        let PerfFileRecord::EventRecord { record, .. } = record else { continue };
        match record.parse() {
            Ok(EventRecord::Sample(sample)) => {
                let (Some(raw), Some(time), Some(cpu)) = (sample.raw, sample.timestamp, sample.cpu)
                else {
                    continue;
                };
                let cpu = cpu as u16;
                let new = || (Decoder::new(&layouts, &symbols, cpu), vec![0]);
                let (decoder, numbers) = decoders.entry(cpu).or_insert_with(new);
                let Some(event) = decoder.event(time, &raw.as_slice()) else { continue };
                numbers.extend(decoder.new_names().iter().map(|name| names.intern(name)));
                events.push(Event { name: numbers[event.name as usize], ..event });
            }
            Ok(EventRecord::Lost(record)) => lost += record.count,
            _ => {}
        }
    }
    events.sort_by_key(|event| event.time);
    let first = events.first().map_or(0, |event| event.time);
    events.iter_mut().for_each(|event| event.time -= first);
    let header = header.or(&Header::detect(&events));
    let mut trace = Trace { events, names, header, lost, ..Trace::default() };
    unnamed::name_all(&mut trace);
    Ok(trace)
}

/// What the file says of the machine's events.
struct Tracing {
    page_size: u32,
    formats: HashMap<String, String>,
    kallsyms: String,
}

/// Bytes not yet read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn word32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let n = u64::from_le_bytes(*self.take(8)?.first_chunk()?);
        self.take(usize::try_from(n).ok()?)
    }

    /// Text up to a null byte.
    fn words(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let words = self.take(end)?;
        self.take(1)?;
        Some(words)
    }
}

impl Tracing {
    fn parse(bytes: &[u8]) -> Option<Tracing> {
        let mut bytes = Bytes(bytes);
        if bytes.take(TRACING_MAGIC.len())? != TRACING_MAGIC {
            return None;
        }
        bytes.words()?;
        // Of a machine with the other order of bytes nothing below is read.
        if bytes.take(1)? != [0] {
            return None;
        }
        bytes.take(1)?;
        let page_size = bytes.word32()?;
        for name in [&b"header_page"[..], b"header_event"] {
            if bytes.words()? != name {
                return None;
            }
            bytes.sized()?;
        }
        for _ in 0..bytes.word32()? {
            bytes.sized()?;
        }
        let mut formats = HashMap::new();
        for _ in 0..bytes.word32()? {
            let system = bytes.words()?;
            for _ in 0..bytes.word32()? {
                let text = String::from_utf8_lossy(bytes.sized()?).into_owned();
                let name = text.lines().find_map(|line| line.strip_prefix("name: "));
                if let Some(name) = name.filter(|_| system == b"kmem") {
                    formats.insert(name.trim().to_owned(), text.clone());
                }
            }
        }
        let kallsyms = bytes.word32().and_then(|n| bytes.take(n as usize)).unwrap_or_default();
        let kallsyms = String::from_utf8_lossy(kallsyms).into_owned();
        Some(Tracing { page_size, formats, kallsyms })
    }
}
