//! Reads `perf.data` through the crate `linux-perf-data`: each sample of a `kmem` event holds the
//! bytes of the kernel's ring-buffer record, and the file's tracing data holds the events' formats.
//! [`tracing`](super::tracing) reads this data; `bounds` rejects damaged sizes before the crate
//! sees them, and `sample` takes apart what the crate would take on trust.

mod bounds;
mod sample;

use super::tracing::{Bytes, Tracing};
use crate::plain::plain;
use crate::record::{Decoder, Layouts};
use crate::trace::{Error, Header, Names, Trace, times, unnamed};
use linux_perf_data::linux_perf_event_reader::{EventRecord, RecordType};
use linux_perf_data::{Feature, PerfFileReader, PerfFileRecord};
use slabyard_observe::kernel::Symbols;
use std::collections::HashMap;
use std::io::{Read, Seek};

/// The first bytes of such a file.
pub const MAGIC: &[u8] = b"PERFILE2";

/// Reads all events of `kmem`, in order of time.
pub fn read(mut input: impl Read + Seek) -> Result<Trace, Error> {
    let foreign = |what: String| Error::Foreign { recorder: "perf", what };
    if let Some(why) = bounds::refusal(&mut input)? {
        return Err(foreign(why.into()));
    }
    let losses = sample::have_losses(&mut input)?;
    let wrong = |error: linux_perf_data::Error| foreign(error.to_string());
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(input).map_err(wrong)?;
    let tracing = perf_file.feature_section_data(Feature::TRACING_DATA);
    let tracing = tracing.ok_or_else(|| foreign("it holds no tracepoints".into()))?;
    let tracing = Tracing::parse(&mut Bytes(tracing))
        .ok_or_else(|| foreign("the formats of its events make no sense".into()))?;
    let layouts = Layouts::of_texts(|event| tracing.formats.get(event).cloned())
        .map_err(|error| foreign(error.to_string()))?;
    let symbols = Symbols::parse(tracing.kallsyms);
    let header = Header {
        release: plain(perf_file.os_release().ok().flatten().unwrap_or_default()).into_owned(),
        page_size: Some(tracing.page_size),
        cpus: perf_file.nr_cpus().ok().flatten().map(|cpus| cpus.nr_cpus_available),
        page_offset: None,
        source: format!(
            "perf record of {}",
            plain(perf_file.hostname().ok().flatten().unwrap_or("a machine"))
        ),
    };
    let mut decoders: HashMap<u16, (Decoder<'_>, Vec<u32>)> = HashMap::new();
    let (mut names, mut events, mut lost) = (Names::new(), Vec::new(), 0);
    while let Some(record) = record_iter.next_record(&mut perf_file).map_err(wrong)? {
        let PerfFileRecord::EventRecord { record, .. } = record else { continue };
        if record.record_type == RecordType::SAMPLE {
            let info = &record.parse_info;
            match sample::read(record.data, info.sample_format, info.read_format, losses) {
                Ok(Some(sample)) => {
                    let cpu = sample.cpu as u16;
                    let new = || (Decoder::new(&layouts, &symbols, cpu), vec![0]);
                    let (decoder, numbers) = decoders.entry(cpu).or_insert_with(new);
                    let decoded = decoder.event(sample.time, &sample.raw.as_slice());
                    let Some(event) = decoded else { continue };
                    numbers.extend(decoder.new_names().iter().map(|name| names.intern(name)));
                    events.push(event.renamed(|name| numbers[name as usize]));
                }
                Ok(None) => {}
                // Damaged: what it held is not known.
                Err(_) => lost = u64::saturating_add(lost, 1),
            }
        } else if record.record_type == RecordType::LOST
            && let Ok(EventRecord::Lost(record)) = record.parse()
        {
            lost = u64::saturating_add(lost, record.count);
        }
    }
    events.sort_by_key(|event| event.time);
    if let Some(event) = times::astray(&events) {
        return Err(foreign(times::told(event)));
    }
    let first = events.first().map_or(0, |event| event.time);
    events.iter_mut().for_each(|event| event.time -= first);
    let header = header.or(&Header::detect(&events));
    let mut trace = Trace { events, names, header, lost, ..Trace::default() };
    unnamed::name_all(&mut trace);
    Ok(trace)
}
