//! What a replay needs from a trace: the result of all passes.
//!
//! Invariants:
//!
//! - a step's object belongs to the step's slab, and the slab to the step's cache;
//! - the steps of one object alternate alloc, free, alloc, ...; they begin with a free if and only
//!   if the object is live at the start, as only objects of initial slabs can be;
//! - no object is live after the last step before its slab was freed;
//! - steps are in order of time;
//! - where steps are not held in memory, an object's number is reused once its slab was freed, and
//!   the first two invariants hold for each of the objects in turn.

use std::ops::RangeInclusive;

use super::frames::Slab;
use super::grace::GraceEnds;
use super::known::Known;
use super::oddities::Oddities;
use super::readers::Readers;
use super::steps::Steps;
use super::tally::Tally;
use std::sync::Arc;

/// What a replay needs of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Per cache of [`super::Input::caches`].
    pub caches: Vec<Cache>,
    /// Every slab that an object was seen in: the initial ones, then the others, each
    /// in the order in which they showed.
    pub slabs: Arc<Vec<Slab>>,
    /// The allocations and frees, in the order in which they run.
    pub steps: Steps,
    /// How long sheaves of `kfree_rcu()` wait.
    pub readers: Readers,
    /// Per object: it was handed out before the trace began.
    pub live_at_start: Vec<bool>,
    /// Per initial slab: objects that no event names. They are taken for free where the slab's
    /// pages were freed, and for live elsewhere; none is unknown where the lists were read.
    pub untold: Vec<u32>,
    /// Where slabs were at the start, per cache; empty if no lists were read.
    pub known: Known,
    /// When discarded slabs are freed whose cache waits for readers.
    pub grace: GraceEnds,
    /// What all steps together tell.
    pub tally: Tally,
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
    /// Frees of objects that no event had allocated; no steps.
    pub unallocated: u64,
    /// Many of its frees leave no event, and stand [where they were](super::replaced) all the same.
    pub frees_placed: bool,
    /// The modelled release has no such cache: a replay passes over its slabs and steps.
    pub gone: bool,
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
