//! The input of the preparation: the trace's events, and what the traced kernel reports about its
//! caches.
//!
//! The passes of [`super`] read this input; [`super::Prepared`] is their result.

use std::collections::BTreeMap;

use super::order::Order;
use crate::lists::Lists;
use crate::snapshot::KernelSnapshot;
use crate::trace::{Events, Frames, Names};

/// Number of a cache: its place in [`Input::caches`].
pub type CacheNumber = u16;

/// An event of no cache that is known: large allocations, strangers.
pub const NO_CACHE: CacheNumber = CacheNumber::MAX;

/// The kernel's largest order (`MAX_PAGE_ORDER`).
pub const MAX_ORDER: u8 = 10;

/// The kernel's cache of the nodes of all maple trees.
pub const TREE_NODES: &str = "maple_node";

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
    /// Slabs are freed after a grace period (`destroy_by_rcu`).
    pub rcu: bool,
    /// Objects in a sheaf; 0 without sheaves.
    pub sheaf_capacity: u32,
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
            sheaf_capacity: cache.sheaf_capacity.unwrap_or(0),
            slabs: cache.slabs.map_or(0, |slabs| u32::try_from(slabs).unwrap_or(u32::MAX)),
        });
        facts.collect()
    }

    /// The cache of maple trees' nodes, if the traced kernel has sheaves in it.
    pub(super) fn of_tree_nodes(caches: &[CacheFacts]) -> Option<CacheNumber> {
        let is_it = |facts: &CacheFacts| facts.id == TREE_NODES && facts.sheaf_capacity > 0;
        (0..).zip(caches).find(|(_, facts)| is_it(facts)).map(|(number, _)| number)
    }
}

/// All that is read.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The trace, in its own order.
    pub events: Events<'a>,
    /// What [`name`](crate::event::Event::name) counts into.
    pub names: &'a Names,
    /// The traced machine's direct map.
    pub frames: Frames,
    /// The traced kernel's caches.
    pub caches: &'a [CacheFacts],
    /// Other names of the caches, with the id.
    pub aliases: &'a BTreeMap<String, String>,
    /// What lay on lists, if the recorder read it.
    pub lists: Option<&'a Lists>,
    /// The order in which events run.
    pub order: Order,
}
