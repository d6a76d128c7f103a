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
//! [`super::naming`] supplies the caches, [`super::unshown`] finds slabs without object events,
//! [`super::matching`] uses the slabs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::error::Error;
use super::input::{CacheFacts, CacheNumber, MAX_ORDER, NO_CACHE};
use super::numbers::{NO_NUMBER, Numbering};
use super::oddities::Oddities;
use super::unshown::Unshown;
use crate::event::{Event, EventKind};
use crate::trace::Frames;

/// Binary logarithm of the largest direct map (x86-64 with four levels of tables).
const MOST_MEMORY: u32 = 46;

/// An event in no slab.
pub const NO_SLAB: u32 = u32::MAX;

/// One slab of the kernel's, from its opening to its closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// Number of its first page frame.
    pub frame: u64,
    /// When its pages were allocated; for an initial slab, when it was first seen.
    pub opened_at: u64,
    /// When its pages were freed.
    pub closed_at: Option<u64>,
    /// The CPU that freed them, as far as an event shows.
    pub closed_by: Option<u16>,
    /// Number of its first object; the others follow. Where [`super::Steps`] are not held in memory
    /// this is for initial slabs alone, as the numbers of ended slabs are used again.
    pub first_object: u32,
    /// How many it has room for.
    pub objects: u32,
    /// By its index in the trace's caches.
    pub cache: CacheNumber,
    /// Its order: the cache's, or a lower one if memory was short.
    pub order: u8,
    /// It existed when the trace began.
    pub initial: bool,
}

impl Slab {
    /// Its objects' numbers.
    #[must_use]
    pub fn objects_range(&self) -> Range<usize> {
        let first = self.first_object as usize;
        first..first + self.objects as usize
    }
}

/// The slabs of a trace, found by a first pass over it, so that a later pass knows of a slab's
/// pages what becomes of them.
#[derive(Debug)]
pub(super) struct KnownSlabs {
    /// Initial slabs first, each part in order of opening.
    pub(super) slabs: Arc<Vec<Slab>>,
    /// Which of all allocated pages, in their order, belong to a slab.
    of_slabs: Bits,
    /// Which of those existed when the cache's steps begin.
    initial: Bits,
    nr_initial: u32,
    /// The initial slab of each frame in which an object was freed before the trace showed it.
    waited: HashMap<u64, u32>,
}

/// Frees by address alone in a frame that the trace had not shown.
struct PendingFrees {
    frees: u64,
    first_at: u64,
}

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

/// When the steps of each cache begin: what events tell of it until then is in the [lists that were
/// read](super::known) there.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheStarts {
    /// Of each cache; empty if all begin with the trace.
    pub(super) times: Arc<[Option<u64>]>,
    /// Slabs on lists then, with their first frames: they are known before an event shows them.
    pub(super) listed: Arc<[(CacheNumber, u64)]>,
}

impl CacheStarts {
    fn is_before(&self, cache: CacheNumber, time: u64) -> bool {
        let begin = self.times.get(cache as usize).copied().flatten();
        begin.is_some_and(|begin| time <= begin)
    }
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
        if cache == NO_CACHE && event.kind != EventKind::Kfree {
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
            slab.objects = objects_at(facts, slab.order, self.frames.page_shift);
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
        found.sort_unstable_by_key(|(ordinal, slab)| (!slab.initial, *ordinal));
        let mut of_slabs = Bits::of(self.nr_opened);
        found.iter().for_each(|(ordinal, _)| of_slabs.set(*ordinal));
        let mut initial = Bits::of(self.nr_opened);
        let before = found.iter().filter(|(_, slab)| slab.initial);
        before.for_each(|(ordinal, _)| initial.set(*ordinal));
        let mut slabs: Vec<Slab> = found.into_iter().map(|(_, slab)| slab).collect();
        let nr_initial = slabs.partition_point(|slab| slab.initial) as u32;
        let mut waited = HashMap::new();
        for (number, slab) in (0..nr_initial).zip(&mut slabs) {
            for frame in frames_of(slab.frame, slab.order) {
                if waiting.contains_key(&frame) {
                    waited.insert(frame, number);
                }
            }
        }
        for (frame, PendingFrees { frees, first_at }) in waiting {
            match waited.get(&frame) {
                Some(number) => {
                    let opened_at = &mut slabs[*number as usize].opened_at;
                    *opened_at = (*opened_at).min(first_at);
                }
                None => self.oddities.unplaced += frees,
            }
        }
        number_objects(&mut slabs, numbering)?;
        let slabs = Arc::new(slabs);
        Ok((KnownSlabs { slabs, of_slabs, initial, nr_initial, waited }, self.oddities))
    }
}

fn number_objects(slabs: &mut [Slab], numbering: Numbering) -> Result<(), Error> {
    let mut next = 0u32;
    for slab in slabs {
        if !slab.initial && numbering == Numbering::Again {
            slab.first_object = NO_NUMBER;
            continue;
        }
        slab.first_object = next;
        let after = next.checked_add(slab.objects);
        next = after.ok_or(Error::TooLong("objects of all slabs"))?;
    }
    Ok(())
}

/// A bit for each of some numbers.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn of(numbers: u32) -> Bits {
        Bits(vec![0; numbers.div_ceil(64) as usize])
    }

    fn set(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// The frame that an address is in, if the direct map has it: an address below the
/// map wraps to one far above.
fn frame_of(frames: Frames, address: u64) -> Option<u64> {
    let frame = frames.of(address);
    (frame >> (MOST_MEMORY - frames.page_shift) == 0).then_some(frame)
}

/// The frames of pages. Past the last possible frame they wrap, which harms nothing.
fn frames_of(first: u64, order: u8) -> impl Iterator<Item = u64> {
    (0..1u64 << order).map(move |nth| first.wrapping_add(nth))
}

fn objects_at(facts: &CacheFacts, order: u8, page_shift: u32) -> u32 {
    if order == facts.order {
        return facts.objects;
    }
    ((1u64 << (page_shift + u32::from(order))) / u64::from(facts.slab_size)) as u32
}

/// What a frame holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unseen,
    Closed,
    Open(u32),
}

/// Binary logarithm of the frames of one chunk.
const CHUNK_SHIFT: u32 = 9;

/// The state of every frame, in chunks, as a machine's memory is sparse and a
/// trace's addresses are near each other.
#[derive(Default)]
struct FrameTable {
    chunk_of: HashMap<u64, u32, BuildHasherDefault<Spread>>,
    /// 0 unseen, 1 closed, else the place of what is open + 2.
    chunks: Vec<[u32; 1 << CHUNK_SHIFT]>,
}

impl FrameTable {
    fn get(&self, frame: u64) -> State {
        let Some(&chunk) = self.chunk_of.get(&(frame >> CHUNK_SHIFT)) else {
            return State::Unseen;
        };
        match self.chunks[chunk as usize][frame as usize % (1 << CHUNK_SHIFT)] {
            0 => State::Unseen,
            1 => State::Closed,
            word => State::Open(word - 2),
        }
    }

    fn set(&mut self, frame: u64, state: State) {
        let chunk = *self.chunk_of.entry(frame >> CHUNK_SHIFT).or_insert_with(|| {
            self.chunks.push([0; 1 << CHUNK_SHIFT]);
            self.chunks.len() as u32 - 1
        });
        self.chunks[chunk as usize][frame as usize % (1 << CHUNK_SHIFT)] = match state {
            State::Unseen => 0,
            State::Closed => 1,
            State::Open(place) => place + 2,
        };
    }
}

/// A hash for numbers that nobody chooses against us: Fibonacci's.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}
