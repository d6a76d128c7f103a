//! The slab of each event.
//!
//! Pages got open a slab at their frame, pages given back close it. A frame that
//! first shows through an object held a slab when the trace began, whose first
//! frame is the object's, rounded down to the cache's order. Pages in which no
//! object shows are no slab of ours: page tables, pipes, large allocations.
//!
//! A free by address alone may come before the first event that names the slab's
//! cache; such frees wait for the end of the walk.
//!
//! Neighbours: [`super::naming`] gives the caches, [`super::matching`] takes the
//! slabs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use super::error::Error;
use super::input::{CacheFacts, CacheNumber, Input, MAX_ORDER, NO_CACHE};
use super::oddities::Oddities;
use crate::event::{Event, Kind};

/// Binary logarithm of the largest direct map (x86-64 with four levels of tables).
const MOST_MEMORY: u32 = 46;

/// An event in no slab.
pub const NO_SLAB: u32 = u32::MAX;

/// One slab of the kernel's, from its opening to its closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// Number of its first page frame.
    pub frame: u64,
    /// When its pages were got; for an initial slab, when it was first seen.
    pub opened_at: u64,
    /// When its pages were given back.
    pub closed_at: Option<u64>,
    /// Number of its first object; the others follow.
    pub first_object: u32,
    /// Its objects.
    pub objects: u32,
    /// Its cache.
    pub cache: CacheNumber,
    /// Its order: the cache's, or a lower one if memory was short.
    pub order: u8,
    /// It was there when the trace began.
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

/// Which slab each event is about.
pub struct Placed {
    /// Initial slabs first, each part in order of opening.
    pub slabs: Vec<Slab>,
    /// Per event, or [`NO_SLAB`].
    pub slab_of: Vec<u32>,
    /// What each event closed: (event, slab), in order of events.
    pub closings: Vec<(usize, u32)>,
    /// Number of objects of all slabs.
    pub nr_objects: u32,
}

/// Finds the slabs.
pub fn place_events(
    input: &Input,
    cache_of: &[CacheNumber],
    oddities: &mut Oddities,
) -> Result<Placed, Error> {
    let mut walk = Walk {
        input,
        oddities,
        frames: FrameTable::default(),
        slabs: Vec::new(),
        slab_of: Vec::with_capacity(input.events.len()),
        closings: Vec::new(),
        waiting: Vec::new(),
    };
    for (index, (event, &cache)) in input.events.iter().zip(cache_of).enumerate() {
        let slab = match event.kind {
            Kind::PageAlloc | Kind::PageFree if event.order > MAX_ORDER => {
                return Err(Error::PageOrder { event: index, order: event.order });
            }
            Kind::PageAlloc => walk.open(index, event),
            Kind::PageFree => walk.close(index, event),
            _ => walk.place(index, event, cache),
        };
        walk.slab_of.push(slab);
    }
    walk.place_waiting();
    walk.finish()
}

struct Walk<'a> {
    input: &'a Input<'a>,
    oddities: &'a mut Oddities,
    frames: FrameTable,
    /// Those without a cache are pages that have shown no object yet.
    slabs: Vec<Slab>,
    slab_of: Vec<u32>,
    closings: Vec<(usize, u32)>,
    /// Frees by address alone in frames that the trace had not shown: (event, frame).
    waiting: Vec<(usize, u64)>,
}

impl Walk<'_> {
    fn open(&mut self, index: usize, event: &Event) -> u32 {
        let slab = Slab {
            frame: event.address,
            opened_at: event.time,
            closed_at: None,
            first_object: 0,
            objects: 0,
            cache: NO_CACHE,
            order: event.order,
            initial: false,
        };
        for frame in frames_of(event.address, event.order) {
            if let State::Open(old) = self.frames.get(frame) {
                // Pages that showed no object may have been split and given back in
                // parts that the trace does not show.
                if self.slabs[old as usize].cache != NO_CACHE {
                    self.oddities.reopened += 1;
                }
                self.end(old, index);
            }
        }
        self.add(slab)
    }

    fn close(&mut self, index: usize, event: &Event) -> u32 {
        let at_first = self.frames.get(event.address);
        for frame in frames_of(event.address, event.order) {
            if let State::Open(slab) = self.frames.get(frame) {
                let Slab { cache, frame, order, .. } = self.slabs[slab as usize];
                if cache != NO_CACHE && (frame, order) != (event.address, event.order) {
                    self.oddities.other_order += 1;
                }
                self.end(slab, index);
            }
            self.frames.set(frame, State::Closed);
        }
        match at_first {
            State::Open(slab) => slab,
            State::Unseen | State::Closed => NO_SLAB,
        }
    }

    fn place(&mut self, index: usize, event: &Event, cache: CacheNumber) -> u32 {
        if cache == NO_CACHE && event.kind != Kind::Kfree {
            return NO_SLAB;
        }
        let Some(frame) = frame_of(self.input, event.address) else {
            self.oddities.astray += 1;
            return NO_SLAB;
        };
        match (self.frames.get(frame), cache) {
            (State::Open(slab), NO_CACHE) => slab,
            (State::Open(slab), _) => {
                self.show(slab, cache);
                slab
            }
            (State::Unseen, NO_CACHE) => {
                self.waiting.push((index, frame));
                NO_SLAB
            }
            (State::Closed, NO_CACHE) => {
                self.oddities.unplaced += 1;
                NO_SLAB
            }
            (State::Unseen, _) => self.add_by_object(event, frame, cache),
            (State::Closed, _) => {
                self.oddities.reopened += 1;
                self.add_by_object(event, frame, cache)
            }
        }
    }

    /// An object shows its slab's cache.
    fn show(&mut self, slab: u32, cache: CacheNumber) {
        let slab = &mut self.slabs[slab as usize];
        if slab.cache == NO_CACHE {
            let facts = &self.input.caches[cache as usize];
            if slab.order != facts.order {
                self.oddities.other_order += 1;
            }
            slab.cache = cache;
            slab.objects = objects_at(facts, slab.order, self.input.frames.page_shift);
        } else if slab.cache != cache {
            self.oddities.other_cache += 1;
        }
    }

    fn add_by_object(&mut self, event: &Event, frame: u64, cache: CacheNumber) -> u32 {
        let facts = &self.input.caches[cache as usize];
        let base = frame & !((1 << facts.order) - 1);
        self.add(Slab {
            frame: base,
            opened_at: event.time,
            closed_at: None,
            first_object: 0,
            objects: facts.objects,
            cache,
            order: facts.order,
            initial: self.frames.get(frame) == State::Unseen,
        })
    }

    fn add(&mut self, slab: Slab) -> u32 {
        let number = self.slabs.len() as u32;
        for frame in frames_of(slab.frame, slab.order) {
            self.frames.set(frame, State::Open(number));
        }
        self.slabs.push(slab);
        number
    }

    fn end(&mut self, slab: u32, index: usize) {
        self.closings.push((index, slab));
        let slab = &mut self.slabs[slab as usize];
        slab.closed_at = Some(self.input.events[index].time);
        for frame in frames_of(slab.frame, slab.order) {
            self.frames.set(frame, State::Closed);
        }
    }

    /// A free in a frame that the trace had not shown was in the initial slab that
    /// the frame showed later, if it did.
    fn place_waiting(&mut self) {
        let initial: HashMap<u64, u32> = (0u32..)
            .zip(&self.slabs)
            .filter(|(_, slab)| slab.initial)
            .flat_map(|(number, slab)| {
                frames_of(slab.frame, slab.order).map(move |frame| (frame, number))
            })
            .collect();
        for (event, frame) in std::mem::take(&mut self.waiting) {
            let Some(&slab) = initial.get(&frame) else {
                self.oddities.unplaced += 1;
                continue;
            };
            let opened_at = &mut self.slabs[slab as usize].opened_at;
            *opened_at = (*opened_at).min(self.input.events[event].time);
            self.slab_of[event] = slab;
        }
    }

    /// Drops the pages that are no slabs and numbers the rest.
    fn finish(mut self) -> Result<Placed, Error> {
        let mut number_of = vec![NO_SLAB; self.slabs.len()];
        let mut slabs = Vec::new();
        let mut nr_objects = 0u32;
        for initial in [true, false] {
            for (slab, number) in self.slabs.iter().zip(&mut number_of) {
                if slab.cache == NO_CACHE || slab.initial != initial {
                    continue;
                }
                *number = slabs.len() as u32;
                slabs.push(Slab { first_object: nr_objects, ..*slab });
                nr_objects = nr_objects
                    .checked_add(slab.objects)
                    .ok_or(Error::TooLong("objects of all slabs"))?;
            }
        }
        self.oddities.pages_without_objects += (self.slabs.len() - slabs.len()) as u64;
        for (event, slab) in self.input.events.iter().zip(&mut self.slab_of) {
            if *slab == NO_SLAB {
                continue;
            }
            *slab = number_of[*slab as usize];
            // A large allocation freed.
            if *slab == NO_SLAB && event.kind == Kind::Kfree {
                self.oddities.unplaced += 1;
            }
        }
        for (_, slab) in &mut self.closings {
            *slab = number_of[*slab as usize];
        }
        self.closings.retain(|(_, slab)| *slab != NO_SLAB);
        Ok(Placed { slabs, slab_of: self.slab_of, closings: self.closings, nr_objects })
    }
}

/// The frame that an address is in, if the direct map has it: an address below the
/// map wraps to one far above.
fn frame_of(input: &Input, address: u64) -> Option<u64> {
    let frame = input.frames.of(address);
    (frame >> (MOST_MEMORY - input.frames.page_shift) == 0).then_some(frame)
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
    /// 0 unseen, 1 closed, else the slab's number + 2.
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
            State::Open(slab) => slab + 2,
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
