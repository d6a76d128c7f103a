//! Counts inconsistencies in a trace during each pass; [`super::doubts`] decides when there are too
//! many.

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
    /// Pages allocated where a slab was open, or an object in freed pages.
    pub reopened: u64,
    /// Pages allocated or freed with another order than the slab's.
    pub other_order: u64,
    /// Pages allocated and freed, or kept, in which no object appeared: not slabs.
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

impl Oddities {
    /// Adds those of another walk.
    pub(super) fn add(&mut self, other: &Oddities) {
        let Oddities {
            unknown_cache,
            unplaced,
            astray,
            other_cache,
            reopened,
            other_order,
            pages_without_objects,
            missed_before_alloc,
            missed_before_close,
            freed_twice,
            freed_unallocated,
        } = other;
        self.unknown_cache += unknown_cache;
        self.unplaced += unplaced;
        self.astray += astray;
        self.other_cache += other_cache;
        self.reopened += reopened;
        self.other_order += other_order;
        self.pages_without_objects += pages_without_objects;
        self.missed_before_alloc += missed_before_alloc;
        self.missed_before_close += missed_before_close;
        self.freed_twice += freed_twice;
        self.freed_unallocated += freed_unallocated;
    }
}
