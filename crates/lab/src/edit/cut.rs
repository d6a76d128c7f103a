//! Cuts a part out of a trace: a range of time, some CPUs, or some caches.

use super::renamed::NameMap;
use super::{Done, missing};
use crate::record::{Sieve, Wanted};
use crate::trace::{Error, Header, Stream, Writer};
use std::io::Write;
use std::ops::Range;

/// What is to stay.
pub struct Selection {
    /// Nanoseconds of the trace.
    pub times: Range<u64>,
    /// CPUs; all if `None`.
    pub cpus: Option<Vec<u16>>,
    /// Caches; all if `None`.
    pub wanted: Option<Wanted>,
}

/// Writes the part of a trace; its times begin at 0 with the part's. The writer takes what is to
/// be attached.
///
/// # Errors
/// A trace that cannot be read or written.
pub fn cut<W: Write>(
    mut stream: Stream,
    part: Selection,
    out: W,
    header: &Header,
) -> Result<(Done, Writer<W>), Error> {
    let mut writer = Writer::new(out, header)?;
    let mut sieve = Sieve::new(part.wanted);
    let (mut done, mut renamed, mut events) = (Done::default(), NameMap::default(), Vec::new());
    while let Some(lost) = stream.next(&mut events)? {
        writer.lost(lost);
        done.read += events.len() as u64;
        let stays = |cpu| part.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu));
        for event in &events {
            // What happened before tells which objects are of the caches.
            let passes = sieve.passes(event, stream.names());
            if !part.times.contains(&event.time) || !stays(event.cpu) || !passes {
                continue;
            }
            let time = event.time - part.times.start;
            let event = renamed.event(*event, stream.names(), writer.names());
            writer.push(&crate::event::Event { time, ..event })?;
            done.written += 1;
            done.last = done.last.max(time);
        }
    }
    writer.lost(missing(&stream));
    done.damaged = stream.damaged().to_vec();
    Ok((done, writer))
}
