//! Finds slabs whose objects have no events, in kernels with sheaves.
//!
//! A refill allocates slabs one after the other until the sheaf is full. The CPU then allocates the
//! last slab's objects first, so the trace may end before an event names an object of the other
//! slabs. The pages of such a slab have the same order and allocation flags as those of the next
//! slab, and no event of the CPU separates the two allocations.
//!
//! [`super::frames`] finds all other slabs. Invariant: pages that are found here were allocated
//! right before a slab of the same cache.

use super::input::{CacheFacts, CacheNumber};
use crate::event::Event;
use std::collections::HashMap;

/// How pages were asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PageRequest {
    order: u8,
    gfp: u32,
    pid: u32,
}

/// Pages that may be slabs, with what their finder knows of them.
pub(super) struct Unshown<P> {
    /// Of each CPU whose last event allocated pages: which, by their place among all.
    last: HashMap<u16, (PageRequest, u32)>,
    /// The pages that were allocated right after others.
    next: HashMap<u32, u32>,
    /// Pages without an object that shows, of those.
    pages: Vec<(u32, u8, P)>,
}

impl<P> Default for Unshown<P> {
    fn default() -> Self {
        Unshown { last: HashMap::new(), next: HashMap::new(), pages: Vec::new() }
    }
}

impl<P> Unshown<P> {
    /// A CPU allocated pages, which are the `nth`.
    pub(super) fn allocated(&mut self, event: &Event, nth: u32) {
        let request = PageRequest { order: event.order, gfp: event.gfp, pid: event.pid };
        let before = self.last.insert(event.cpu, (request, nth));
        if let Some((_, before)) = before.filter(|(of, _)| *of == request) {
            self.next.insert(before, nth);
        }
    }

    /// A CPU did something else.
    pub(super) fn other(&mut self, cpu: u16) {
        self.last.remove(&cpu);
    }

    /// The `nth` pages, of this order, showed no object.
    pub(super) fn keep(&mut self, nth: u32, order: u8, pages: P) {
        if self.next.contains_key(&nth) {
            self.pages.push((nth, order, pages));
        }
    }

    /// Those that are slabs, with their caches. `found` are those that show.
    pub(super) fn slabs(
        mut self,
        found: impl Iterator<Item = (u32, CacheNumber)>,
        caches: &[CacheFacts],
    ) -> Vec<(u32, CacheNumber, P)> {
        if self.pages.is_empty() {
            return Vec::new();
        }
        let mut cache_of: HashMap<u32, CacheNumber> = found.collect();
        // The last of a refill first: the others are known by it.
        self.pages.sort_unstable_by_key(|(nth, ..)| u32::MAX - nth);
        let mut slabs = Vec::new();
        for (nth, order, pages) in self.pages {
            let next = self.next.get(&nth).and_then(|next| cache_of.get(next)).copied();
            let has_sheaves = |facts: &CacheFacts| facts.sheaf_capacity > 0 && facts.order == order;
            if let Some(cache) = next.filter(|cache| has_sheaves(&caches[*cache as usize])) {
                cache_of.insert(nth, cache);
                slabs.push((nth, cache, pages));
            }
        }
        slabs
    }
}
