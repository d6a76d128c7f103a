//! Adds cache names to a trace whose kernel did not name caches in allocation events.
//!
//! The file is read twice: first by [`caches`], then by [`named`] ([`crate::trace::unnamed`]
//! explains how the caches are found).

use super::renamed::NameMap;
use super::{Done, missing};
use crate::record::{Sieve, Wanted};
use crate::trace::unnamed::{Caches, Votes};
use crate::trace::{Error, Header, Stream, Writer};
use std::io::Write;

/// The caches of a trace's allocations; `by_sizes` as [`Votes::decide`] takes it.
///
/// # Errors
/// The trace cannot be read.
pub fn caches(
    mut stream: Stream,
    by_sizes: impl Fn(u32, u32) -> Option<String>,
) -> Result<Caches, Error> {
    let (mut votes, mut events) = (Votes::default(), Vec::new());
    while stream.next(&mut events)?.is_some() {
        events.iter().for_each(|event| votes.count(event, stream.names()));
    }
    Ok(votes.decide(stream.names(), by_sizes))
}

/// Writes the trace with the caches' names; of `wanted` caches only, if some are. The writer takes
/// what is to be attached.
///
/// # Errors
/// A trace that cannot be read or written.
pub fn named<W: Write>(
    mut stream: Stream,
    caches: &Caches,
    wanted: Option<Wanted>,
    out: W,
    header: &Header,
) -> Result<(Done, Writer<W>), Error> {
    let mut writer = Writer::new(out, header)?;
    let mut sieve = wanted.map(|wanted| Sieve::new(Some(wanted)));
    let (mut done, mut renamed, mut events) = (Done::default(), NameMap::default(), Vec::new());
    while let Some(lost) = stream.next(&mut events)? {
        writer.lost(lost);
        done.read += events.len() as u64;
        for event in &events {
            let mut same = renamed.event(*event, stream.names(), writer.names());
            caches.name(event, &mut same, writer.names());
            let names = writer.names();
            if sieve.as_mut().is_none_or(|sieve| sieve.passes(&same, names)) {
                writer.push(&same)?;
                done.written += 1;
                done.last = done.last.max(event.time);
            }
        }
    }
    writer.lost(missing(&stream));
    done.damaged = stream.damaged().to_vec();
    Ok((done, writer))
}
