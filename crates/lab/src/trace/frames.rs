//! Converts an object's address to its page frame.
//!
//! A kernel maps all memory in one piece: frame `n` begins at `page_offset + n * page_size`. Traces
//! store the low 48 bits of addresses.

use crate::event::{Event, EventKind};
use std::collections::HashMap;

/// Where the kernel has its memory mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frames {
    /// Address of frame 0, its low 48 bits.
    pub page_offset: u64,
    /// Binary logarithm of the page size.
    pub page_shift: u32,
}

/// Bits of an address that a trace holds.
const ADDRESS: u64 = (1 << 48) - 1;
/// The bases of all known kernels, also randomised ones, are multiples of this.
const BASE_ALIGN: u64 = 1 << 29;
/// Page sizes that kernels have: 4, 16 and 64 KiB.
const SHIFTS: [u32; 3] = [12, 14, 16];
/// Objects considered after a page was allocated, on the same CPU: the first one of a new slab is
/// handed out at once.
const LOOK_AHEAD: usize = 4;
/// Pages looked at: enough for a vote, whatever the trace's length.
const MOST_PAGES: usize = 20_000;
/// Votes needed to be sure.
const ENOUGH: u32 = 3;
/// Memory of the largest machine that a guess may be about.
const MOST_MEMORY: u64 = 1 << 40;

impl Frames {
    /// The frame that an address is in.
    pub fn of(self, address: u64) -> u64 {
        (address.wrapping_sub(self.page_offset) & ADDRESS) >> self.page_shift
    }

    /// How far behind the beginning of a frame an address is: further than any slab is large, where it
    /// is in front of that.
    pub fn within(self, frame: u64, address: u64) -> u64 {
        (address.wrapping_sub(self.page_offset) & ADDRESS).wrapping_sub(frame << self.page_shift)
    }

    /// The mapping of a trace whose header does not have it, and true if it is a
    /// [guess](Frames::guess). `others` are objects that no event names. None if it would have to
    /// be guessed, and the page size is not known.
    pub fn find(
        events: &[Event],
        others: impl Iterator<Item = u64>,
        page_shift: Option<u32>,
    ) -> Option<(Frames, bool)> {
        match Frames::detect(events) {
            Some(frames) => Some((frames, false)),
            None => Some((Frames::guess(events, others, page_shift?), true)),
        }
    }

    /// Finds the mapping from the trace itself: a page that a CPU gets for a
    /// slab holds the object that it hands out next. Each such pair votes for
    /// the bases that would make it true, and a wrong page size gives bases that
    /// are not aligned. None if too few agree.
    pub fn detect(events: &[Event]) -> Option<Frames> {
        let votes = votes(events);
        let (&best, &most) = votes.iter().max_by_key(|&(frames, &n)| (n, frames.page_shift))?;
        let second = votes.iter().filter(|&(&f, _)| f != best).map(|(_, &n)| n).max().unwrap_or(0);
        (most >= ENOUGH && most >= 2 * second).then_some(best)
    }

    /// Guesses the mapping where the trace says too little to be sure, as on a machine that
    /// allocates next to no slab: the base with most votes, even if it is one, under which all
    /// objects are in one machine's memory; else the one just below the lowest object. Under that
    /// one, objects share slabs as they did, but pages that are allocated and freed may not be
    /// recognised as theirs. `others` are objects that no event names.
    #[must_use]
    pub fn guess(events: &[Event], others: impl Iterator<Item = u64>, page_shift: u32) -> Frames {
        let is_object =
            |event: &&Event| !matches!(event.kind, EventKind::PageAlloc | EventKind::PageFree);
        let objects = events.iter().filter(is_object).map(|event| event.address);
        let objects = objects.chain(others).map(|address| address & ADDRESS).filter(|it| *it != 0);
        let (low, high) = objects.fold((ADDRESS, 0), |(low, high), it| (low.min(it), high.max(it)));
        let fits = |frames: &Frames| {
            let end = frames.page_offset.saturating_add(MOST_MEMORY);
            frames.page_shift == page_shift && frames.page_offset <= low && high < end
        };
        let votes = votes(events).into_iter().filter(|(frames, _)| fits(frames));
        let best = votes.max_by_key(|(frames, n)| (*n, frames.page_offset));
        let page_offset = if high == 0 { 0 } else { low / BASE_ALIGN * BASE_ALIGN };
        best.map_or(Frames { page_offset, page_shift }, |(frames, _)| frames)
    }
}

/// How many pages speak for each mapping.
fn votes(events: &[Event]) -> HashMap<Frames, u32> {
    let mut votes: HashMap<Frames, u32> = HashMap::new();
    let pages = events.iter().enumerate().filter(|(_, e)| e.kind == EventKind::PageAlloc);
    for (at, page) in pages.take(MOST_PAGES) {
        let objects = events[at + 1..].iter().take(LOOK_AHEAD * 16);
        let objects = objects
            .filter(|e| {
                e.cpu == page.cpu && matches!(e.kind, EventKind::CacheAlloc | EventKind::Kmalloc)
            })
            .take(LOOK_AHEAD);
        // One vote a page for a base, however many objects are in it.
        let mut seen = Vec::new();
        for object in objects {
            for frames in bases(page, object.address) {
                if !seen.contains(&frames) {
                    seen.push(frames);
                    *votes.entry(frames).or_default() += 1;
                }
            }
        }
    }
    votes
}

/// The mappings under which `address` is in the pages that `page` allocated.
fn bases(page: &Event, address: u64) -> impl Iterator<Item = Frames> {
    let frames = 1u64 << page.order.min(10);
    let first = page.address;
    SHIFTS.into_iter().flat_map(move |page_shift| {
        (0..frames).filter_map(move |nth| {
            let frame = first.wrapping_add(nth);
            let start = frame.checked_shl(page_shift)?;
            let page_offset = ((address >> page_shift) << page_shift).wrapping_sub(start) & ADDRESS;
            page_offset.is_multiple_of(BASE_ALIGN).then_some(Frames { page_offset, page_shift })
        })
    })
}
