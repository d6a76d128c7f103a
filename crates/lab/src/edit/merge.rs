//! Merges traces of several machines into the trace of one machine that has all their CPUs and all
//! their memory.
//!
//! Machine n's CPUs are numbered after those of the machines before it, and its page frames are
//! `SPAN` bytes above theirs. So no address and no process belongs to two machines. Caches of the
//! same name become one cache. In the result, all traces start at the same time.

use super::renamed::NameMap;
use super::{Done, MergeError, missing};
use crate::event::{Event, EventKind};
use crate::trace::{Frames, Header, Stream, Writer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

/// Room for one machine's memory.
const SPAN: u64 = 1 << 41;
/// As many spans have room in the 48 bits of an address.
pub const MOST: usize = 1 << 6;
/// Processes of one machine have smaller numbers: no Linux gives larger ones.
const PIDS: u32 = 1 << 22;

struct Machine {
    stream: Stream,
    frames: Frames,
    first_cpu: u16,
    events: std::vec::IntoIter<Event>,
    renamed: NameMap,
}

/// The header of what [`merge`] writes.
///
/// # Errors
/// Traces that do not go together.
fn header(streams: &[Stream]) -> Result<Header, MergeError> {
    if streams.len() > MOST {
        return Err(MergeError::TooMany(MOST));
    }
    let mut cpus = 0;
    let first = streams.first().map(|stream| stream.header().clone()).unwrap_or_default();
    for (stream, nth) in streams.iter().zip(1..) {
        let header = stream.header();
        let size = header.page_size.ok_or(MergeError::Addresses { nth })?;
        let of_first = first.page_size.unwrap_or(size);
        if size != of_first {
            return Err(MergeError::Pages { nth, found: size, first: of_first });
        }
        cpus += header.cpus.unwrap_or(1);
    }
    let source = format!("{} traces together", streams.len());
    Ok(Header { cpus: Some(cpus), page_offset: Some(0), source, ..first })
}

/// Writes them as one. The writer takes what is to be attached.
///
/// # Errors
/// Traces that do not go together, or that cannot be read or written.
pub fn merge<W: Write>(streams: Vec<Stream>, out: W) -> Result<(Done, Writer<W>), MergeError> {
    let mut writer = Writer::new(out, &header(&streams)?)?;
    let mut done = Done::default();
    let mut machines = Vec::new();
    let mut next = BinaryHeap::new();
    let mut first_cpu = 0;
    for mut stream in streams {
        let frames = super::frames(&mut stream)?;
        let cpus = stream.header().cpus.unwrap_or(1) as u16;
        let events = Vec::new().into_iter();
        let mut machine =
            Machine { stream, frames, first_cpu, events, renamed: NameMap::default() };
        first_cpu += cpus;
        let nth = machines.len();
        machine.refill(&mut writer)?;
        if let Some(event) = machine.events.as_slice().first() {
            next.push(Reverse((event.time, nth)));
        }
        machines.push(machine);
    }
    while let Some(Reverse((_, nth))) = next.pop() {
        let machine = &mut machines[nth];
        let Some(event) = machine.events.next() else { continue };
        done.read += 1;
        done.written += 1;
        done.last = done.last.max(event.time);
        let event = machine.moved(event, nth, &mut writer);
        writer.push(&event)?;
        if machine.events.as_slice().is_empty() {
            machine.refill(&mut writer)?;
        }
        if let Some(event) = machine.events.as_slice().first() {
            next.push(Reverse((event.time, nth)));
        }
    }
    for machine in &machines {
        writer.lost(missing(&machine.stream));
        done.damaged.extend_from_slice(machine.stream.damaged());
    }
    Ok((done, writer))
}

impl Machine {
    /// Reads on, to the next chunk that has events.
    fn refill<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<(), MergeError> {
        let mut events = Vec::new();
        while let Some(lost) = self.stream.next(&mut events)? {
            writer.lost(lost);
            if !events.is_empty() {
                break;
            }
        }
        self.events = events.into_iter();
        Ok(())
    }

    fn moved<W: Write>(&mut self, event: Event, nth: usize, writer: &mut Writer<W>) -> Event {
        let event = self.renamed.event(event, self.stream.names(), writer.names());
        let span = SPAN * nth as u64;
        let address = match event.kind {
            EventKind::PageAlloc | EventKind::PageFree => {
                event.address + (span >> self.frames.page_shift)
            }
            kind if !kind.has_address() => 0,
            _ => {
                let offset = event.address.wrapping_sub(self.frames.page_offset);
                span + (offset & (SPAN - 1))
            }
        };
        let pid = if event.pid == 0 { 0 } else { event.pid % PIDS + PIDS * nth as u32 };
        Event { address, pid, cpu: self.first_cpu + event.cpu, ..event }
    }
}
