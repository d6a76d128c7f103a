//! Replays a trace on SLOB: the requests go to the model ([`slabyard_model::slob`]), whose pages
//! are compared with the kernel's.
//!
//! The trace must contain every allocation, as traces of kernels with SLOB do: SLOB's pages are
//! identified, among all pages of the trace, by the objects in them.
//!
//! What a trace does not record is inferred from its objects' addresses. Pages from before the
//! trace start with the free blocks in which the trace's objects were later placed, in that order;
//! blocks from frees of older objects are found the same way. A cache's alignment is taken to be
//! the largest to which all objects from one call site are aligned. One error remains: the replay
//! frees an object of a `SLAB_TYPESAFE_BY_RCU` cache at its event, but the kernel frees it at some
//! later time.
//!
//! [`crate::trace`] supplies the events; [`load`] runs another kernel's load on SLOB. Invariant:
//! the model itself chooses the address of each object.

pub mod load;

use crate::event::{Event, EventKind};
use crate::trace::Trace;
use slabyard_model::slob::Kernel;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The machine that was traced.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Of the traced kernel.
    pub page_bytes: u32,
    /// What `kmalloc` aligns to at least.
    pub least_align: u32,
    /// Where the kernel maps page frame 0: the low 48 bits.
    pub direct_map: u64,
}

impl Machine {
    /// x86-64 with page tables of four levels.
    pub const X86_64: Machine =
        Machine { page_bytes: 4096, least_align: 8, direct_map: 0x8880_0000_0000 };

    /// The page frame of an address.
    #[must_use]
    pub fn frame(&self, address: u64) -> u64 {
        address.wrapping_sub(self.direct_map) / u64::from(self.page_bytes)
    }

    fn offset(&self, address: u64) -> u32 {
        (address % u64::from(self.page_bytes)) as u32
    }

    /// True for requests that are blocks of a page, not pages.
    fn is_block(&self, event: &Event) -> bool {
        match event.kind {
            EventKind::Kmalloc => event.requested < self.page_bytes - self.least_align,
            _ => event.allocated < self.page_bytes,
        }
    }

    /// Bytes in front of an object.
    fn header(&self, event: &Event) -> u32 {
        if event.kind == EventKind::Kmalloc { self.least_align } else { 0 }
    }
}

/// Pages since the trace began, gained less lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageChange {
    /// When, in nanoseconds.
    pub time: u64,
    /// By the trace's events.
    pub kernel: i64,
    /// By the replay.
    pub model: i64,
}

/// What a replay found.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Each change of a number of pages.
    pub moments: Vec<PageChange>,
    /// Blocks that were handed out.
    pub blocks: u64,
    /// Those of them at the kernel's place: the same page, and the same offset there.
    pub same: u64,
    /// Those before the first that is not.
    pub same_at_first: u64,
    /// Pages from before the trace.
    pub old_pages: usize,
    /// Frees of objects from before it, which the model leaves out.
    pub unknown_frees: u64,
}

impl Replayed {
    /// The last moment up to a time.
    #[must_use]
    pub fn at(&self, time: u64) -> Option<&PageChange> {
        self.moments.iter().take_while(|moment| moment.time <= time).last()
    }
}

/// Replays a trace.
///
/// # Errors
/// The model has no more pages than `most_pages`, and needs more.
pub fn replay(trace: &Trace, machine: Machine, most_pages: u32) -> Result<Replayed, TooFew> {
    let before = InitialMemory::of(trace, machine);
    let model = Kernel::new(machine.page_bytes, machine.least_align, most_pages);
    let mut replayed = Replayed { old_pages: before.pages.len(), ..Replayed::default() };
    let mut frames = HashMap::new();
    // Each comes to the tail of its list: the search meets them in this order.
    for page in &before.pages {
        let number = model.install(&page.free, page.first_size).ok_or(TooFew)?;
        frames.insert(number, page.frame);
    }
    let old = i64::from(model.nr_pages());
    let mut truth = Truth::default();
    let mut live: HashMap<u64, (u64, u32)> = HashMap::new();
    for (nth, event) in trace.events.iter().enumerate() {
        truth.see(event, machine);
        let pages = model.nr_pages();
        match event.kind {
            EventKind::Kmalloc | EventKind::CacheAlloc => {
                let at = if event.kind == EventKind::Kmalloc {
                    model.kmalloc(event.requested)
                } else {
                    model.cache_alloc(event.allocated, before.align(event))
                };
                let at = at.ok_or(TooFew)?;
                live.insert(event.address, (at, event.allocated));
                if machine.is_block(event) {
                    let (number, offset) = model.split(at);
                    let frame = machine.frame(event.address);
                    if model.nr_pages() > pages {
                        frames.insert(number, frame);
                    }
                    replayed.blocks += 1;
                    let same = frames.get(&number) == Some(&frame)
                        && offset == machine.offset(event.address);
                    replayed.same_at_first +=
                        u64::from(same && replayed.same + 1 == replayed.blocks);
                    replayed.same += u64::from(same);
                }
            }
            EventKind::Kfree | EventKind::KfreeRcu | EventKind::CacheFree => match live
                .remove(&event.address)
            {
                None => {
                    replayed.unknown_frees += 1;
                    if let Some((frame, at, bytes)) = before.freed.get(&nth) {
                        let number = frames.iter().find(|(_, of)| *of == frame).map(|(n, _)| *n);
                        let page = u64::from(number.unwrap_or(0)) * u64::from(machine.page_bytes);
                        model.cache_free(page + u64::from(*at), *bytes);
                    }
                }
                Some((at, _)) if event.kind == EventKind::Kfree => model.kfree(at),
                Some((at, bytes)) => model.cache_free(at, bytes),
            },
            _ => {}
        }
        let now = PageChange {
            time: event.time,
            kernel: truth.pages,
            model: i64::from(model.nr_pages()) - old,
        };
        let is_new = |last: &PageChange| (last.kernel, last.model) != (now.kernel, now.model);
        if replayed.moments.last().is_none_or(is_new) {
            replayed.moments.push(now);
        }
    }
    Ok(replayed)
}

/// The model has too few pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace needs more pages than the model has")]
pub struct TooFew;

/// The kernel's own pages of objects, by the page events.
#[derive(Default)]
struct Truth {
    /// Pages that no object was seen in, by their first frame; their order.
    got: HashMap<u64, u8>,
    of_objects: HashSet<u64>,
    pages: i64,
}

impl Truth {
    /// Returns the frame of an object whose page existed before the trace, when it is first seen.
    fn see(&mut self, event: &Event, machine: Machine) -> Option<u64> {
        match event.kind {
            EventKind::PageAlloc => {
                self.got.insert(event.address, event.order);
            }
            EventKind::PageFree => {
                self.got.remove(&event.address);
                if self.of_objects.remove(&event.address) {
                    self.pages -= 1 << event.order;
                }
            }
            _ => {
                let frame = machine.frame(event.address);
                let order = self.got.remove(&frame);
                self.pages += order.map_or(0, |order| 1 << order);
                let is_first = self.of_objects.insert(frame);
                return (is_first && order.is_none()).then_some(frame);
            }
        }
        None
    }
}

/// A page that existed before the trace.
struct Page {
    frame: u64,
    /// Free blocks: offset and bytes.
    free: Vec<(u32, u32)>,
    /// Bytes of the first block that the trace took there: it is on the list for these.
    first_size: u32,
}

/// What existed before the trace, and what the trace does not say.
struct InitialMemory {
    pages: Vec<Page>,
    /// By call site and size.
    aligns: HashMap<(u32, u32), u32>,
    /// What frees of objects from before the trace released, as far as its objects were placed
    /// there later, by the number of the event: frame, offset and bytes.
    freed: HashMap<usize, (u64, u32, u32)>,
}

impl InitialMemory {
    fn of(trace: &Trace, machine: Machine) -> InitialMemory {
        let mut aligns = HashMap::new();
        let mut truth = Truth::default();
        // In the order of their first objects.
        let mut old: Vec<(u64, u32, UsedParts)> = Vec::new();
        let (mut live, mut freed) = (HashSet::new(), HashMap::new());
        for (nth, event) in trace.events.iter().enumerate() {
            let is_alloc = matches!(event.kind, EventKind::Kmalloc | EventKind::CacheAlloc);
            if event.kind == EventKind::CacheAlloc {
                let align = 1 << event.address.trailing_zeros().min(LARGEST_ALIGN);
                let of_site = aligns.entry((event.name, event.allocated)).or_insert(align);
                *of_site = align.min(*of_site);
            }
            let first = truth.see(event, machine);
            if let Some(frame) = first {
                old.push((frame, 0, UsedParts::default()));
            }
            if event.kind == EventKind::PageFree {
                // Whatever comes there next comes into a new page.
                old.iter_mut().filter(|page| page.0 == event.address).for_each(|p| p.2.over = true);
            }
            let frame = machine.frame(event.address);
            let page = old.iter_mut().find(|page| page.0 == frame && !page.2.over);
            if matches!(event.kind, EventKind::Kfree | EventKind::CacheFree)
                && !live.remove(&event.address)
            {
                let header = if event.kind == EventKind::Kfree { machine.least_align } else { 0 };
                // Where there is no room for the header it was pages, and no block of one.
                if let (Some(page), Some(at)) =
                    (page, machine.offset(event.address).checked_sub(header))
                {
                    page.2.freed.push((nth, at, at));
                }
                continue;
            }
            if !is_alloc || !machine.is_block(event) {
                continue;
            }
            live.insert(event.address);
            if let Some(page) = page {
                let header = machine.header(event);
                let bytes = header + if header > 0 { event.requested } else { event.allocated };
                if page.1 == 0 {
                    page.1 = bytes;
                }
                page.2.take(machine.offset(event.address) - header, bytes.next_multiple_of(2));
            }
        }
        for (frame, _, used) in &old {
            let filled = used.freed.iter().filter(|(_, at, end)| end > at);
            freed.extend(filled.map(|&(nth, at, end)| (nth, (*frame, at, end - at))));
        }
        let page = |(frame, first_size, used): (u64, u32, UsedParts)| Page {
            frame,
            free: used.free(),
            first_size,
        };
        InitialMemory { pages: old.into_iter().map(page).collect(), aligns, freed }
    }

    fn align(&self, event: &Event) -> u32 {
        self.aligns.get(&(event.name, event.allocated)).copied().unwrap_or(1)
    }
}

/// The largest alignment of a cache, 2^8: the nodes of a maple tree.
const LARGEST_ALIGN: u32 = 8;

/// Alignment leaves less than a line of the CPU's cache between two objects, most often.
const LINE: u32 = 64;

/// Parts of an old page that objects of the trace lay in: they were free when it began.
#[derive(Default)]
struct UsedParts {
    /// Offset and end.
    parts: BTreeMap<u32, u32>,
    /// Objects from before the trace that were freed: the event's number, and the part that was
    /// free from then on, as far as objects were placed there later.
    freed: Vec<(usize, u32, u32)>,
    /// The page was freed.
    over: bool,
}

impl UsedParts {
    /// An object of the trace is placed there.
    fn take(&mut self, at: u32, bytes: u32) {
        let end = at + bytes;
        // What was freed begins anew inside of it.
        let mut begins: Vec<u32> = self.freed.iter().map(|part| part.1).collect();
        begins.retain(|begin| at < *begin && *begin < end);
        begins.sort_unstable();
        let from = std::iter::once(at).chain(begins.iter().copied());
        let to = begins.iter().copied().chain([end]);
        from.zip(to).for_each(|(at, end)| self.take_part(at, end));
    }

    fn take_part(&mut self, mut at: u32, mut end: u32) {
        let follows = |part: &&mut (usize, u32, u32)| part.1 <= at && at < part.2 + LINE;
        let is_old = self.parts.range(..=at).next_back().is_some_and(|(_, to)| *to >= end);
        if !is_old
            && let Some(part) = self.freed.iter_mut().filter(follows).max_by_key(|part| part.1)
        {
            part.2 = part.2.max(end);
            return;
        }
        let touching: Vec<u32> = self
            .parts
            .iter()
            .filter(|(from, to)| **from <= end && **to >= at)
            .map(|(from, _)| *from)
            .collect();
        for from in touching {
            let to = self.parts.remove(&from).unwrap_or(from);
            (at, end) = (at.min(from), end.max(to));
        }
        self.parts.insert(at, end);
    }

    fn free(self) -> Vec<(u32, u32)> {
        self.parts.into_iter().map(|(at, end)| (at, end - at)).collect()
    }
}
