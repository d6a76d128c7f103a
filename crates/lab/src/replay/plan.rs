//! The plan of a replay: the trace, the rules, and the start.
//!
//! [`super::start`] executes the [`Start`], [`super::replay`] executes the rest.

use super::events::{self, Event};
use super::others::OtherPages;
use crate::prepare::Prepared;
use crate::rules::Slab;
use slabyard_kernels::{KernelSheaves, page_lists};
use slabyard_model::cache::{KernelCache, Rules};

/// What to run.
pub struct Plan<'a> {
    /// The trace.
    pub prepared: &'a Prepared,
    /// Rules of each cache of the trace.
    pub rules: &'a [Rules],
    /// Objects of a slab of each cache on the traced machine.
    pub traced_objects: &'a [u32],
    /// Objects in a sheaf of each cache there; 0 without sheaves.
    pub traced_sheaves: &'a [u32],
    /// Slabs of each cache for one of the traced machine that no event touches; may be empty.
    pub laid_out: &'a [f64],
    /// Node of each CPU.
    pub node_of: &'a [u16],
    /// The node whose memory each node uses.
    pub memory_of: &'a [u16],
    /// CPUs of the traced machine: on a machine with as many, each event runs where it ran.
    pub traced_cpus: usize,
    /// How many tasks there are for each of the trace, with objects of their own.
    pub tasks: u32,
    /// What is parked where at the start, according to a snapshot; may be empty.
    pub parked: &'a [ParkedSlabs],
    /// How the slabs at the start are put in place.
    pub start: Start,
    /// Order of each cache.
    pub orders: &'a [u8],
    /// The least order of each cache's slabs, and their objects.
    pub least: &'a [(u8, u32)],
    /// Which caches' pages count as reclaimable.
    pub reclaimable: &'a [bool],
    /// What becomes of SLAB's free slabs.
    pub slab: Slab,
    /// A sample is taken every so many steps; 0: none.
    pub sample_every: usize,
    /// The books of each cache are checked every so many steps; 0: never.
    pub audit_every: usize,
    /// Barns and refills of each cache.
    pub sheaves: &'a [KernelSheaves],
    /// Bytes of a page of the machine.
    pub page_size: u32,
    /// The machine's memory has an end.
    pub memory: Option<Limit>,
    /// Pages of the trace that are not slabs, which are known where memory is limited.
    pub others: &'a OtherPages,
    /// The run ends after so many steps; `None`: after the last one.
    pub steps: Option<usize>,
    /// What happens on the way, in order of time.
    pub events: &'a [Event],
    /// The page lists through which slabs' pages pass; `None`: they are not modelled.
    pub page_lists: Option<page_lists::Rules>,
    /// Which caches a [replay](super::replay) calls; `None`: all. The others have no slabs in it, and
    /// their steps only tell where tasks run.
    pub called: Option<&'a [bool]>,
}

impl Plan<'_> {
    /// Its caches, without slabs.
    pub(crate) fn caches(&self) -> Vec<KernelCache> {
        let rules = self.rules.iter().zip(self.sheaves);
        let cache = |(rules, sheaves): (&Rules, &KernelSheaves)| {
            let mut cache = KernelCache::new(*rules, self.node_of);
            cache.follow_sheaves(*sheaves);
            cache.memory.use_memory_of(self.memory_of);
            cache
        };
        rules.map(cache).collect()
    }

    /// CPUs of the traced machine: a snapshot may be of one with fewer than the events name.
    pub(super) fn nr_traced(&self) -> usize {
        self.traced_cpus.max(self.prepared.tally.cpus).max(1)
    }

    /// True if the modelled release does not have a cache.
    pub(super) fn is_gone(&self, cache: usize) -> bool {
        self.prepared.caches[cache].gone
    }

    /// True if a cache has no slabs in the run: it is [gone](Self::is_gone), or not called.
    pub(super) fn is_without_slabs(&self, cache: usize) -> bool {
        self.is_gone(cache) || self.called.is_some_and(|called| !called[cache])
    }

    /// True if the slabs of a cache are not those of the traced machine.
    pub(crate) fn is_other(&self, cache: usize) -> bool {
        self.traced_objects[cache] != self.rules[cache].objects
    }

    /// True for each CPU that is online when the trace begins.
    pub(super) fn there_at_start(&self) -> Vec<bool> {
        events::there_at_start(self.events, self.node_of.len())
    }
}

/// How the state at the start is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From the snapshot, and by looking ahead in the trace.
    LookAhead,
    /// From the snapshot alone.
    Snapshot,
    /// There are no slabs; frees of objects from before the trace are left out.
    Empty,
}

/// What a snapshot says about a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedSlabs {
    /// Slabs of the cache.
    pub slabs: u32,
    /// Slabs on each CPU's partial list.
    pub cpu_partial: Vec<u32>,
    /// Slabs on CPU partial lists for which the snapshot does not name the CPU.
    pub cpu_partial_of_any: u32,
    /// One at most for each CPU.
    pub cpu_slabs: u32,
    /// Slabs on nodes' lists.
    pub node_partial: u32,
    /// Free objects in them.
    pub node_free: u32,
}

/// What is done when pages are short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// Nothing: no kernel does more.
    None,
    /// Empty slabs of CPUs' and nodes' lists end.
    Empties,
    /// What CPUs and barns hold is flushed, and empty slabs are freed.
    Full,
}

/// The memory of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Of all its pages together.
    pub bytes: u64,
    /// When they are short.
    pub relief: Relief,
}
