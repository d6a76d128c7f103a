//! From a trace's events to the steps of a replay, and to the truth that it is
//! held against.
//!
//! A trace names caches by their first creator, frees by address alone, and tells
//! of pages without saying whose. Four walks over the events settle that:
//!
//! 1. [`naming`]: which cache does an allocation or a free speak of?
//! 2. [`frames`]: which slab is the object in? Pages got open a slab, pages given
//!    back close it, and a frame that first shows through an object held a slab
//!    before the trace began.
//! 3. [`matching`]: which object of the slab is it, was it live, and which frees
//!    did the trace miss?
//! 4. [`order`]: in which order did the work happen, as an allocation is traced
//!    after its work and a free before it?
//!
//! The result is [`Prepared`]: [`Step`]s that name objects and slabs by dense
//! numbers, so that a replay looks nothing up by address. [`truth`] counts the
//! kernel's slabs over time from the same slabs; [`left_out`] names the caches
//! whose frees no trace shows; [`doubts`] says whether rows are missing, or the
//! snapshot is another's.
//!
//! Above: the replay and its check. Below: [`crate::trace`], [`crate::snapshot`].
//!
//! Invariants of [`Prepared`]:
//!
//! - a step's object is one of its slab's, and its slab one of its cache's;
//! - the steps of one object go alloc, free, alloc, ...; they begin with a free if
//!   and only if the object is live at the start, which only objects of initial
//!   slabs are;
//! - no object is live after the last step before its slab was closed;
//! - steps are in order of time.

pub mod doubts;
pub mod frames;
pub mod left_out;
pub mod matching;
pub mod naming;
pub mod order;
pub mod truth;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::event::Event;
use crate::snapshot::KernelSnapshot;
use crate::trace::{Frames, Names};

pub use frames::Slab;
pub use matching::{Op, Step};
pub use order::Order;
pub use truth::Truth;

/// Number of a cache: its place in [`Input::caches`].
pub type CacheNumber = u16;

/// An event of no cache that is known: large allocations, strangers.
pub const NO_CACHE: CacheNumber = CacheNumber::MAX;

/// An emptied slab of a cache whose pages wait for readers (`destroy_by_rcu`) comes
/// back this much later: 14 to 24 ms on a kernel with two CPUs. Without the delay a
/// replay keeps too few slabs.
pub const RCU_DELAY_NS: u64 = 18_000_000;

/// What the traced kernel says of one of its caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFacts {
    /// Its directory in `/sys/kernel/slab`: `kmalloc-64`, `:A-0000128`.
    pub id: String,
    /// Bytes from one object to the next.
    pub slab_size: u32,
    /// Objects of a slab of the usual order.
    pub objects: u32,
    /// The usual order.
    pub order: u8,
    /// Slabs are given back after a grace period (`destroy_by_rcu`).
    pub rcu: bool,
    /// Slabs at the snapshot, for shares of the whole; 0 if unknown.
    pub slabs: u32,
}

impl CacheFacts {
    /// Of every cache of a snapshot, in its order.
    #[must_use]
    pub fn of(snapshot: &KernelSnapshot) -> Vec<CacheFacts> {
        let facts = snapshot.caches.iter().map(|cache| CacheFacts {
            id: cache.id.clone(),
            slab_size: cache.slab_size,
            objects: cache.objs_per_slab,
            order: cache.order,
            rcu: cache.destroy_by_rcu.unwrap_or(false),
            slabs: cache.slabs.map_or(0, |slabs| u32::try_from(slabs).unwrap_or(u32::MAX)),
        });
        facts.collect()
    }
}

/// All that is read.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The trace, in its own order.
    pub events: &'a [Event],
    /// What [`Event::name`] counts into.
    pub names: &'a Names,
    /// The traced machine's direct map.
    pub frames: Frames,
    /// The traced kernel's caches.
    pub caches: &'a [CacheFacts],
    /// Other names of the caches, with the id.
    pub aliases: &'a BTreeMap<String, String>,
    /// The order in which events run.
    pub order: Order,
}

/// What a replay needs of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Per cache of [`Input::caches`].
    pub caches: Vec<Cache>,
    /// Every slab that an object was seen in: the initial ones, then the others, each
    /// in the order in which they showed.
    pub slabs: Vec<Slab>,
    /// The allocations and frees, in the order in which they run.
    pub steps: Vec<Step>,
    /// Per object: it was handed out before the trace began.
    pub live_at_start: Vec<bool>,
    /// Times of the first and the last event.
    pub span: RangeInclusive<u64>,
    /// What did not fit.
    pub oddities: Oddities,
}

/// What a replay needs to know of a cache beside its geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// An emptied slab's way back takes this long; the truth counts the slab until
    /// its pages are back.
    pub return_delay_ns: u64,
    /// Why comparisons leave it out, if they do.
    pub left_out: Option<&'static str>,
}

/// Events that contradict each other or say too little, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Allocations and frees of no cache in the snapshot, by name or size.
    pub unknown_cache: u64,
    /// Frees by address alone in a frame that never showed a cache.
    pub unplaced: u64,
    /// Objects outside the direct map, or past the last object of their slab.
    pub astray: u64,
    /// The event names another cache than its slab's; the slab's is taken.
    pub other_cache: u64,
    /// Pages got where a slab was open, or an object in pages given back.
    pub reopened: u64,
    /// Pages got or given back of another order than the slab's.
    pub other_order: u64,
    /// Pages got and given back, or kept, that showed no object: no slabs.
    pub pages_without_objects: u64,
    /// Frees that the trace missed, put in before an allocation of a live object.
    pub missed_before_alloc: u64,
    /// Frees that the trace missed, put in before their slab was closed.
    pub missed_before_close: u64,
    /// Frees of objects that were free; dropped.
    pub freed_twice: u64,
    /// Frees in a new slab of objects never allocated; dropped.
    pub freed_unallocated: u64,
}

/// Why nothing can be prepared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// See the text.
    #[error("{0} caches: at most {max} can be told apart", max = NO_CACHE)]
    TooManyCaches(usize),
    /// See the text.
    #[error("cache {id}: {what}; take the snapshot again")]
    Facts {
        /// The cache.
        id: String,
        /// What is wrong.
        what: &'static str,
    },
    /// See the text.
    #[error("a page shift of {0}: 12 (4 KiB) to 16 (64 KiB) are known")]
    PageShift(u32),
    /// See the text.
    #[error("event {event} has pages of order {order}: at most {max} is possible",
            max = frames::MAX_ORDER)]
    PageOrder {
        /// Place in the trace.
        event: usize,
        /// Its order.
        order: u8,
    },
    /// See the text.
    #[error("the trace is too long: {0} do not fit 32 bits; cut it")]
    TooLong(&'static str),
}

/// Prepares a trace.
pub fn prepare(input: &Input) -> Result<Prepared, Error> {
    check(input)?;
    let mut oddities = Oddities::default();
    let cache_of = naming::name_events(input, &mut oddities);
    let placed = frames::place_events(input, &cache_of, &mut oddities)?;
    let matched = matching::match_events(input, &placed, &mut oddities);
    let steps = order::sort(matched.steps);
    Ok(Prepared {
        caches: caches(input),
        slabs: placed.slabs,
        steps,
        live_at_start: matched.live_at_start,
        span: span(input.events),
        oddities,
    })
}

impl Prepared {
    /// Number of objects that the steps name: 0 to this, less one.
    #[must_use]
    pub fn nr_objects(&self) -> usize {
        self.live_at_start.len()
    }

    /// The initial slabs: they come first, in order of their first event.
    #[must_use]
    pub fn initial_slabs(&self) -> &[Slab] {
        &self.slabs[..self.slabs.partition_point(|slab| slab.initial)]
    }

    /// How many of a slab's objects are live at the start; the rest are free.
    #[must_use]
    pub fn nr_live_at_start(&self, slab: &Slab) -> u32 {
        self.live_at_start[slab.objects_range()].iter().filter(|live| **live).count() as u32
    }
}

fn caches(input: &Input) -> Vec<Cache> {
    let reasons = left_out::reasons(input.caches, input.aliases);
    input
        .caches
        .iter()
        .zip(reasons)
        .map(|(facts, left_out)| Cache {
            return_delay_ns: if facts.rcu { RCU_DELAY_NS } else { 0 },
            left_out,
        })
        .collect()
}

fn span(events: &[Event]) -> RangeInclusive<u64> {
    // Times of several CPUs may cross by a little.
    let first = events.iter().map(|event| event.time).min().unwrap_or(0);
    let last = events.iter().map(|event| event.time).max().unwrap_or(0);
    first..=last
}

fn check(input: &Input) -> Result<(), Error> {
    if input.caches.len() > NO_CACHE as usize {
        return Err(Error::TooManyCaches(input.caches.len()));
    }
    if !(12..=16).contains(&input.frames.page_shift) {
        return Err(Error::PageShift(input.frames.page_shift));
    }
    if u32::try_from(input.events.len()).is_err() {
        return Err(Error::TooLong("events"));
    }
    for facts in input.caches {
        let wrong = |what| Err(Error::Facts { id: facts.id.clone(), what });
        if facts.slab_size == 0 {
            return wrong("its objects have no size");
        }
        if facts.objects == 0 {
            return wrong("its slabs hold no object");
        }
        if facts.order > frames::MAX_ORDER {
            return wrong("its order is above 10");
        }
        let bytes = 1u64 << (input.frames.page_shift + u32::from(facts.order));
        if u64::from(facts.objects) * u64::from(facts.slab_size) > bytes {
            return wrong("its objects do not fit its slabs");
        }
    }
    Ok(())
}
