//! Finds the slab of each event.
//!
//! Pages hold a slab, starting at their page frame, from their allocation until they are freed. If
//! a frame's first event concerns an object, the frame held a slab when the trace began. That
//! slab's first frame is the object's frame, rounded down to the cache's order. Pages in which no
//! object appears are not slabs but page tables, pipe buffers or large allocations.
//!
//! A free that gives only an address may come before the first event that names the slab's cache.
//! Therefore two passes follow the same rules: the first finds the slabs; the second already knows
//! which allocated pages are slabs, and of which cache.
//!
//! [`table`] holds the state of each frame, [`found`] the slabs of the first pass, [`starts`] the
//! moments when each cache's steps begin. [`super::naming`] supplies the caches, [`super::unshown`] finds slabs without object events,
//! [`super::matching`] uses the slabs.

mod found;
mod slab;
mod starts;
mod table;

use std::collections::HashMap;
use std::sync::Arc;

use super::error::Error;
use super::input::{CacheFacts, CacheNumber, MAX_ORDER, NO_CACHE};
use super::numbers::Numbering;
use super::oddities::Oddities;
use super::unshown::Unshown;
use crate::event::{Event, EventKind};
use crate::trace::Frames;
use found::PendingFrees;
use table::{FrameTable, State, frame_of, frames_of};

pub(super) use found::KnownSlabs;
pub use slab::Slab;
pub(super) use starts::CacheStarts;

/// None of the trace's slabs.
pub const NO_SLAB: u32 = u32::MAX;

/// Pages that were allocated and not freed.
struct Open {
    /// Without a cache they have shown no object yet.
    slab: Slab,
    /// How many others were allocated before.
    ordinal: u32,
    /// Number of the slab that they are or will be, if that is known.
    number: u32,
    /// Frees by address alone before they showed a cache.
    frees: u64,
    /// It was on a list when the steps of its cache begin.
    listed: bool,
}

/// What a walk does.
enum Pass {
    Find {
        found: Vec<(u32, Slab)>,
        waiting: HashMap<u64, PendingFrees>,
        unshown: Unshown<Slab>,
    },
    /// Places events in slabs that are known.
    Place {
        known: Arc<KnownSlabs>,
        nr_initial: u32,
        nr_others: u32,
    },
}

/// A walk over the events, one at a time. Memory is that of frames and open slabs.
pub(super) struct Walk {
    caches: Arc<[CacheFacts]>,
    frames: Frames,
    begins: CacheStarts,
    pub(super) oddities: Oddities,
    table: FrameTable,
    /// By place, which is reused once the pages were freed.
    open: Vec<Open>,
    vacant: Vec<u32>,
    nr_opened: u32,
    nr_events: usize,
    pass: Pass,
    /// Slabs that the last event closed.
    pub(super) closed: Vec<u32>,
}

impl Walk {
    /// A walk that finds the slabs.
    pub(super) fn find(caches: &Arc<[CacheFacts]>, frames: Frames, begins: &CacheStarts) -> Walk {
        let pass =
            Pass::Find { found: Vec::new(), waiting: HashMap::new(), unshown: Unshown::default() };
        Walk::new(caches, frames, begins, pass)
    }

    /// A walk that places the same events.
    pub(super) fn place(
        caches: &Arc<[CacheFacts]>,
        frames: Frames,
        begins: &CacheStarts,
        known: &Arc<KnownSlabs>,
    ) -> Walk {
        let pass = Pass::Place { known: Arc::clone(known), nr_initial: 0, nr_others: 0 };
        Walk::new(caches, frames, begins, pass)
    }

    fn new(caches: &Arc<[CacheFacts]>, frames: Frames, begins: &CacheStarts, pass: Pass) -> Walk {
        let mut walk = Walk {
            caches: Arc::clone(caches),
            frames,
            begins: begins.clone(),
            oddities: Oddities::default(),
            table: FrameTable::default(),
            open: Vec::new(),
            vacant: Vec::new(),
            nr_opened: 0,
            nr_events: 0,
            pass,
            closed: Vec::new(),
        };
        begins.listed.iter().for_each(|(cache, frame)| walk.list(*cache, *frame));
        walk
    }

    /// A slab that is on a list when the steps of its cache begin.
    fn list(&mut self, cache: CacheNumber, frame: u64) {
        let CacheFacts { objects, order, .. } = self.caches[cache as usize];
        let is_free = |frame| self.table.get(frame) == State::Unseen;
        if !frames_of(frame, order).all(is_free) {
            return;
        }
        let added = self.add(Slab {
            frame,
            opened_at: 0,
            closed_at: None,
            closed_by: None,
            first_object: 0,
            objects,
            cache,
            order,
            initial: true,
        });
        if let (Ok(_), State::Open(place)) = (added, self.table.get(frame)) {
            self.open[place as usize].listed = true;
        }
    }

    /// Whether an event is of what was in a slab's frames before it was read on a list.
    fn is_of_former(&self, place: u32, time: u64) -> bool {
        let Open { listed, slab, .. } = &self.open[place as usize];
        *listed && self.begins.is_before(slab.cache, time)
    }

    /// The next event: its slab's number, as far as this pass knows it, or [`NO_SLAB`].
    pub(super) fn event(&mut self, event: &Event, cache: CacheNumber) -> Result<u32, Error> {
        self.closed.clear();
        let index = self.nr_events;
        self.nr_events += 1;
        if let Pass::Find { unshown, .. } = &mut self.pass {
            match event.kind {
                EventKind::PageAlloc => unshown.allocated(event, self.nr_opened),
                _ => unshown.other(event.cpu),
            }
        }
        match event.kind {
            EventKind::PageAlloc | EventKind::PageFree if event.order > MAX_ORDER => {
                Err(Error::PageOrder { event: index, order: event.order })
            }
            // What was there when the steps begin was not made by one.
            EventKind::PageAlloc => self.get_pages(event).map(|slab| match self.found(slab) {
                Some(found) if found.initial => NO_SLAB,
                _ => slab,
            }),
            EventKind::PageFree => {
                self.close(event);
                Ok(NO_SLAB)
            }
            kind if !kind.has_address() => Ok(NO_SLAB),
            _ => self.place_object(event, cache).map(|slab| match self.found(slab) {
                Some(found) if self.begins.is_before(found.cache, event.time) => NO_SLAB,
                _ => slab,
            }),
        }
    }

    /// The slab of a number, as far as this pass knows it.
    fn found(&self, slab: u32) -> Option<&Slab> {
        match &self.pass {
            Pass::Place { known, .. } if slab != NO_SLAB => known.slabs.get(slab as usize),
            Pass::Place { .. } | Pass::Find { .. } => None,
        }
    }

    fn get_pages(&mut self, event: &Event) -> Result<u32, Error> {
        let slab = Slab {
            frame: event.address,
            opened_at: event.time,
            closed_at: None,
            closed_by: None,
            first_object: 0,
            objects: 0,
            cache: NO_CACHE,
            order: event.order,
            initial: false,
        };
        for frame in frames_of(event.address, event.order) {
            if let State::Open(old) = self.table.get(frame) {
                if self.is_of_former(old, event.time) {
                    return Ok(NO_SLAB);
                }
                // Pages that showed no object may have been split and given back in
                // parts that the trace does not show.
                if self.open[old as usize].slab.cache != NO_CACHE {
                    self.oddities.reopened += 1;
                }
                self.end(old, event.time, None);
            }
        }
        self.add(slab)
    }

    fn close(&mut self, event: &Event) {
        for frame in frames_of(event.address, event.order) {
            if let State::Open(place) = self.table.get(frame) {
                if self.is_of_former(place, event.time) {
                    continue;
                }
                let Slab { cache, frame, order, .. } = self.open[place as usize].slab;
                if cache != NO_CACHE && (frame, order) != (event.address, event.order) {
                    self.oddities.other_order += 1;
                }
                self.end(place, event.time, Some(event.cpu));
            }
            self.table.set(frame, State::Closed);
        }
    }

    fn place_object(&mut self, event: &Event, cache: CacheNumber) -> Result<u32, Error> {
        let is_by_address = matches!(event.kind, EventKind::Kfree | EventKind::KfreeRcu);
        if cache == NO_CACHE && !is_by_address {
            return Ok(NO_SLAB);
        }
        let Some(frame) = frame_of(self.frames, event.address) else {
            self.oddities.astray += 1;
            return Ok(NO_SLAB);
        };
        match (self.table.get(frame), cache) {
            (State::Open(place), NO_CACHE) => {
                let open = &mut self.open[place as usize];
                open.frees += u64::from(open.slab.cache == NO_CACHE);
                Ok(open.number)
            }
            (State::Open(place), _) => {
                self.show(place, cache);
                Ok(self.open[place as usize].number)
            }
            (State::Unseen, NO_CACHE) => Ok(self.wait(event, frame)),
            (State::Closed, NO_CACHE) => {
                self.oddities.unplaced += 1;
                Ok(NO_SLAB)
            }
            (State::Unseen, _) => self.add_by_object(event, frame, cache),
            (State::Closed, _) => {
                self.oddities.reopened += 1;
                self.add_by_object(event, frame, cache)
            }
        }
    }

    /// A free in a frame that the trace had not shown was in the initial slab that
    /// the frame showed later, if it did.
    fn wait(&mut self, event: &Event, frame: u64) -> u32 {
        match &mut self.pass {
            Pass::Find { waiting, .. } => {
                let new = PendingFrees { frees: 0, first_at: event.time };
                let it = waiting.entry(frame).or_insert(new);
                it.frees += 1;
                it.first_at = it.first_at.min(event.time);
                NO_SLAB
            }
            Pass::Place { known, .. } => known.waited.get(&frame).copied().unwrap_or(NO_SLAB),
        }
    }

    /// An object shows its slab's cache.
    fn show(&mut self, place: u32, cache: CacheNumber) {
        let Open { slab, frees, .. } = &mut self.open[place as usize];
        if slab.cache == NO_CACHE {
            let facts = &self.caches[cache as usize];
            if slab.order != facts.order {
                self.oddities.other_order += 1;
            }
            slab.cache = cache;
            slab.objects = slab::objects_at(facts, slab.order, self.frames.page_shift);
            *frees = 0;
        } else if slab.cache != cache {
            self.oddities.other_cache += 1;
        }
    }

    fn add_by_object(
        &mut self,
        event: &Event,
        frame: u64,
        cache: CacheNumber,
    ) -> Result<u32, Error> {
        let facts = &self.caches[cache as usize];
        let base = frame & !((1 << facts.order) - 1);
        self.add(Slab {
            frame: base,
            opened_at: event.time,
            closed_at: None,
            closed_by: None,
            first_object: 0,
            objects: facts.objects,
            cache,
            order: facts.order,
            initial: self.table.get(frame) == State::Unseen,
        })
    }

    fn add(&mut self, slab: Slab) -> Result<u32, Error> {
        let ordinal = self.nr_opened;
        self.nr_opened = ordinal.checked_add(1).ok_or(Error::TooLong("pages got"))?;
        let number = match &mut self.pass {
            Pass::Place { known, nr_initial, nr_others } if known.of_slabs.has(ordinal) => {
                let (nth, before) = match known.initial.has(ordinal) {
                    true => (nr_initial, 0),
                    false => (nr_others, known.nr_initial),
                };
                *nth += 1;
                before + *nth - 1
            }
            Pass::Place { .. } | Pass::Find { .. } => NO_SLAB,
        };
        let open = Open { slab, ordinal, number, frees: 0, listed: false };
        let place = match self.vacant.pop() {
            Some(place) => {
                self.open[place as usize] = open;
                place
            }
            None => {
                self.open.push(open);
                self.open.len() as u32 - 1
            }
        };
        for frame in frames_of(slab.frame, slab.order) {
            self.table.set(frame, State::Open(place));
        }
        Ok(number)
    }

    fn end(&mut self, place: u32, time: u64, cpu: Option<u16>) {
        let open = &mut self.open[place as usize];
        (open.slab.closed_at, open.slab.closed_by) = (Some(time), cpu);
        let slab = open.slab;
        if open.number != NO_SLAB {
            self.closed.push(open.number);
        }
        self.keep(place);
        self.vacant.push(place);
        for frame in frames_of(slab.frame, slab.order) {
            self.table.set(frame, State::Closed);
        }
    }

    /// Keeps what ended or was open at the end, if it was a slab.
    fn keep(&mut self, place: u32) {
        let Open { mut slab, ordinal, frees, .. } = self.open[place as usize];
        let is_before = |time| self.begins.is_before(slab.cache, time);
        if slab.closed_at.is_some_and(is_before) {
            return;
        }
        slab.initial |= is_before(slab.opened_at);
        if slab.cache == NO_CACHE {
            self.oddities.pages_without_objects += 1;
            // Large allocations freed.
            self.oddities.unplaced += frees;
            if let Pass::Find { unshown, .. } = &mut self.pass
                && frees == 0
            {
                unshown.keep(ordinal, slab.order, slab);
            }
        } else if let Pass::Find { found, .. } = &mut self.pass {
            found.push((ordinal, slab));
        }
    }

    /// The end of the trace: numbers the slabs, in the order in which they opened.
    pub(super) fn finish(mut self, numbering: Numbering) -> Result<(KnownSlabs, Oddities), Error> {
        let mut open = vec![true; self.open.len()];
        self.vacant.iter().for_each(|place| open[*place as usize] = false);
        (0..open.len()).filter(|place| open[*place]).for_each(|place| self.keep(place as u32));
        let (mut found, waiting, unshown) = match self.pass {
            Pass::Find { found, waiting, unshown } => (found, waiting, unshown),
            Pass::Place { .. } => Default::default(),
        };
        let shown = found.iter().map(|(ordinal, slab)| (*ordinal, slab.cache));
        for (ordinal, cache, slab) in unshown.slabs(shown, &self.caches) {
            let objects = self.caches[cache as usize].objects;
            found.push((ordinal, Slab { cache, objects, ..slab }));
            self.oddities.pages_without_objects -= 1;
        }
        let known = KnownSlabs::of(found, waiting, self.nr_opened, numbering, &mut self.oddities)?;
        Ok((known, self.oddities))
    }
}
