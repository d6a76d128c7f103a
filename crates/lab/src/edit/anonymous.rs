//! Makes a trace that can be published: addresses, processes, call sites and cache names are
//! removed, and a replay still gives the same result.
//!
//! The trace keeps what a replay needs: which objects share a slab, and which pages form
//! higher-order blocks. Therefore addresses are remapped in blocks of the largest order, numbered
//! in the order of their first events. Processes and call sites are renumbered in the order of
//! their first events. Caches take their numbers from the caller's list (the
//! [`Names`](crate::trace::Names) of the snapshot have to change with them). Times, CPUs, sizes and
//! flags are unchanged.

use super::renamed::NameMap;
use super::{Done, missing};
use crate::event::{Event, EventKind};
use crate::trace::{Error, Frames, Header, Stream, Writer};
use std::collections::HashMap;
use std::io::Write;

/// Binary logarithm of a block's pages: `MAX_PAGE_ORDER` of kernels.
const BLOCK: u32 = 10;
/// The first block: no object is at address 0.
const FIRST: u64 = 1;

/// What names become.
pub struct Names<'a> {
    /// The new name of a cache, by its old name.
    pub cache: &'a dyn Fn(&str) -> String,
    /// True for a call site whose name the rules of a replay know, and which so stays.
    pub is_known_site: &'a dyn Fn(&str) -> bool,
}

/// The header of what [`anonymise`] writes: release and machine stay.
fn header(header: &Header, frames: Frames) -> Header {
    let page_size = Some(1 << frames.page_shift);
    Header { page_offset: Some(0), page_size, source: "anonymised".into(), ..header.clone() }
}

/// Writes it. The writer takes what is to be attached, in which addresses are to be moved likewise.
///
/// # Errors
/// A trace that cannot be read or written, or does not tell its page size.
pub fn anonymise<W: Write>(
    mut stream: Stream,
    names: &Names<'_>,
    out: W,
) -> Result<(Done, Writer<W>, AddressMap), Error> {
    let frames = super::frames(&mut stream)?;
    let mut writer = Writer::new(out, &header(stream.header(), frames))?;
    let mut moved = AddressMap { frames, blocks: HashMap::new() };
    let mut pids: HashMap<u32, u32> = HashMap::from([(0, 0)]);
    let (mut caches, mut sites) = (NameMap::default(), NameMap::default());
    let mut nr_sites = 0;
    let (mut done, mut events) = (Done::default(), Vec::new());
    while let Some(lost) = stream.next(&mut events)? {
        writer.lost(lost);
        for event in &events {
            let old = stream.names();
            let mut site_of = |site, new: &mut crate::trace::Names| {
                sites.of(site, old, new, |name| {
                    nr_sites += 1;
                    if (names.is_known_site)(name) {
                        name.into()
                    } else {
                        format!("site-{nr_sites}")
                    }
                })
            };
            let site = site_of(event.site, writer.names());
            let name = match event.kind {
                kind if kind.names_cache() => {
                    caches.of(event.name, old, writer.names(), |name| (names.cache)(name))
                }
                _ => site_of(event.name, writer.names()),
            };
            let next = pids.len() as u32;
            let pid = *pids.entry(event.pid).or_insert(next);
            let address = moved.address(event);
            writer.push(&Event { name, site, pid, address, ..*event })?;
            done.written += 1;
            done.last = done.last.max(event.time);
        }
    }
    done.read = done.written;
    writer.lost(missing(&stream));
    done.damaged = stream.damaged().to_vec();
    Ok((done, writer, moved))
}

/// Where memory was moved to: blocks in the order of their first events.
pub struct AddressMap {
    frames: Frames,
    blocks: HashMap<u64, u64>,
}

impl AddressMap {
    fn address(&mut self, event: &Event) -> u64 {
        match event.kind {
            EventKind::PageAlloc | EventKind::PageFree => self.within(event.address, BLOCK),
            kind if !kind.has_address() => 0,
            _ => self.place(event.address),
        }
    }

    /// Where an address was moved to; a block that no event names follows the others.
    pub fn place(&mut self, address: u64) -> u64 {
        let offset = address.wrapping_sub(self.frames.page_offset) & ((1 << 48) - 1);
        self.within(offset, BLOCK + self.frames.page_shift)
    }

    /// The same place in the block's new place.
    fn within(&mut self, place: u64, shift: u32) -> u64 {
        let next = self.blocks.len() as u64 + FIRST;
        let block = *self.blocks.entry(place >> shift).or_insert(next);
        block << shift | place & ((1 << shift) - 1)
    }
}
