//! The platform's counts, if it is compiled with counting, and its memory nodes.
//!
//! Neighbours: [`super::counts`] keeps the counts, [`super::nodes`] finds the nodes.

use super::mode::Mode;
use super::on_linux::{Counting, OnLinux};
use crate::sync::Ordering;
use crate::{Counts, Event, Memory, PerCpu, Platform, Slot};
use slabyard_abi::stats::CACHE_WORDS;

impl<C: Counting> OnLinux<C> {
    /// From now on slow paths are counted. False if there is no memory for it, or no code.
    /// Call it after [`OnLinux::init`].
    pub fn count_slow_paths(&self) -> bool {
        C::COUNTS && self.counts.begin(self.page_bytes(), self.rows.len())
    }

    /// From now on there are this many memory nodes, a power of two: the machine's own, if it has
    /// several. False if there is no code for so many. Call it after [`OnLinux::init`], before the
    /// yard's.
    pub fn set_nodes(&self, nodes: usize) -> bool {
        if !nodes.is_power_of_two() || nodes > Self::MOST_NODES {
            return false;
        }
        let may_be_real = self.mode() != Mode::Slots && !self.is_restricted();
        self.nodes.begin(nodes, self.rows.len(), may_be_real);
        true
    }

    /// True if the nodes are the machine's own; and requests for their pages that were refused.
    pub fn real_nodes(&self) -> (bool, usize) {
        (self.nodes.are_real(), self.nodes.refused())
    }

    /// What all rows counted of the cache of a number, by the words of `abi::stats`; `None` where
    /// nothing is counted.
    pub fn counted(&self, cache: usize) -> Option<[u64; CACHE_WORDS]> {
        let mut all = [0; CACHE_WORDS];
        self.counted_into(cache, &mut all).then_some(all)
    }

    /// The same where its caller has room for the words, which are too many for a small stack;
    /// false where nothing is counted.
    pub fn counted_into(&self, cache: usize, all: &mut [u64; CACHE_WORDS]) -> bool {
        if !self.counts() {
            return false;
        }
        *all = [0; CACHE_WORDS];
        for row in 0..self.rows.len() {
            self.counts.add_to(all, row, cache);
        }
        true
    }

    /// Pages that the kernel refused, each of which caused a drain, where there is code that
    /// counts.
    pub fn refusals(&self) -> u64 {
        self.counts.refusals().load(Ordering::Relaxed)
    }

    /// Bytes that drains for these, and trims, gave back, where there is code that counts.
    pub fn drained_bytes(&self) -> u64 {
        self.counts.drained().load(Ordering::Relaxed)
    }

    /// Addresses of the counts of [`Self::refusals`] and [`Self::drained_bytes`].
    pub fn drains_at(&self) -> [usize; 2] {
        [self.counts.refusals(), self.counts.drained()].map(|count| count.as_ptr() as usize)
    }

    /// Fences until now; `None` where nothing is counted.
    pub fn fences(&self) -> Option<u64> {
        let fences = self.counts.fences(self.rows.len()).filter(|_| C::COUNTS)?;
        Some(fences.load(Ordering::Relaxed))
    }
}

impl<C: Counting> Counts for OnLinux<C> {
    #[inline]
    fn counts(&self) -> bool {
        C::COUNTS && self.counts.base() != 0
    }

    #[inline]
    fn count(&self, slot: Slot, event: Event) {
        if self.counts() {
            // Without a row the thread counts at the first.
            self.counts.add(self.row_hint().unwrap_or(0), slot, event);
        }
    }

    #[inline]
    fn page_refused(&self) {
        if C::COUNTS {
            self.counts.refusals().fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn drained_all(&self, bytes: usize) {
        if C::COUNTS {
            self.counts.drained().fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    fn counts_at(&self) -> usize {
        self.counts.base()
    }
}

impl<C: Counting> Platform for OnLinux<C> {
    const HAS_PAGE_LISTS: bool = C::COUNTS;
}
