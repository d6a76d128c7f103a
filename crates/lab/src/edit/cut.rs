//! Cuts a part out of a trace: a range of time, some CPUs, or some caches.

use super::renamed::NameMap;
use super::{Done, missing};
use crate::record::{Sieve, Wanted};
use crate::trace::{Attached, END, Error, Header, LISTS, SHRINK, SHRUNK, Stream, Trace, Writer};
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

/// The part of a trace in memory that a range of time has; its events keep their times.
#[must_use]
pub fn part(whole: &Trace, times: Range<u64>) -> Trace {
    let stays = |it: &&Attached| holds(it, &times);
    Trace {
        events: whole.events.iter().filter(|it| times.contains(&it.time)).copied().collect(),
        names: whole.names.clone(),
        header: whole.header.clone(),
        lost: whole.lost,
        damaged: Vec::new(),
        attached: whole.attached.iter().filter(stays).cloned().collect(),
    }
}

/// True if what is attached to a trace is true of its part, too: lists are those of the beginning.
#[must_use]
pub fn holds(attached: &Attached, times: &Range<u64>) -> bool {
    match attached.name.as_str() {
        LISTS => times.start == 0 && attached.time <= times.end,
        SHRINK => times.start <= attached.time && attached.time <= times.end,
        END | SHRUNK => attached.time <= times.end,
        _ => true,
    }
}
