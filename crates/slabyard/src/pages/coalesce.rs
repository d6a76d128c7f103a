//! Deferred coalescing: a short list of freed runs that have not been merged into the buddy's
//! blocks yet.
//!
//! Cutting a run into blocks and coalescing each with its buddy reads a dozen descriptors that are
//! not in the CPU's caches, which takes most of the time of freeing a large object. So a freed run
//! first stays whole on a short list: a request for a run of its size takes it as it is. A request
//! above 64 KiB of another size coalesces the list, and if it grows, later slow paths coalesce its
//! runs, one block per slow path (`crate::slow_path`).
//! This is the lazy buddy system of Barkley and Lee ("A lazy buddy system bounded by two coalescing
//! delays per class", SOSP 1989), with the list's length as the delay.
//!
//! With this list and two smaller changes, p99.9 of `free` in one thread fell from 940 to 541 ns
//! (9648b96).
//!
//! Neighbours: [`super::buddy`] puts runs on the list and coalesces their blocks, under the lock of
//! [`super::blocks`]. A run on the list has kind [`GranuleKind::Freed`], its granules are dirty,
//! and they count as free. Invariant: no request fails while this list has enough memory, and a
//! purge leaves nothing on it: a thread that finds no dirty block, or needs all free blocks
//! ([`all_lists`]), coalesces the list's runs first.

use super::blocks::{HIGHEST_ORDER, Lists, Wanted};
use super::buddy::{Buddy, LockedLists};
use super::descriptor::{GranuleKind, NIL};
use super::heap::PageHeap;
use super::region::Region;
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

/// Most runs on the list.
const MOST: u32 = 16;
/// This many runs stay for requests of their size: slabs of one size are discarded and allocated.
const KEPT: u32 = 2;

/// A free coalesces larger runs at once: that costs little beside their use, and several of
/// them on the list would be much memory that the next request finds in pieces.
const LARGEST: usize = (1 << 20) / GRANULE;

impl Lists {
    /// Frees a run: puts it on the list; if the list has [`MOST`] runs, coalesces one first.
    pub(super) fn add_freed(&mut self, region: &Region, start: u32, granules: usize, time: u32) {
        self.dirty_granules += granules;
        if granules > LARGEST {
            let start = start as usize;
            return self.free_range(region, start, start + granules, true, time);
        }
        while self.freed.nr >= MOST {
            self.coalesce_freed_block(region);
        }
        let descriptor = region.descriptor(start);
        descriptor.time.store(time, Ordering::Relaxed);
        descriptor.granules.store(granules as u32, Ordering::Relaxed);
        descriptor.next.store(self.freed.head, Ordering::Relaxed);
        descriptor.set(GranuleKind::Freed, 0, 0);
        self.freed.head = start;
        self.freed.nr += 1;
        self.free_granules += granules;
    }

    /// Takes the lowest run of just the wanted size and alignment off the list.
    pub(super) fn take_freed<P: Platform>(
        &mut self,
        region: &Region,
        wanted: &Wanted,
    ) -> Option<u32> {
        let (align, granules) = (wanted.alignment(), wanted.granules as u32);
        // The run before it on the list, or `NIL` for the head; and the run itself.
        let mut found: Option<(u32, u32)> = None;
        let (mut before, mut at) = (NIL, self.freed.head);
        while at != NIL {
            let descriptor = region.descriptor(at);
            if descriptor.granules.load(Ordering::Relaxed) == granules
                && at.is_multiple_of(align)
                && wanted.accepts::<P>(region, at)
                && found.is_none_or(|(_, lowest)| at < lowest)
            {
                found = Some((before, at));
            }
            (before, at) = (at, descriptor.next.load(Ordering::Relaxed));
        }
        // A run on the list has no room to grow.
        let (before, start) = found.filter(|_| wanted.room == wanted.granules)?;
        let descriptor = region.descriptor(start);
        let next = descriptor.next.load(Ordering::Relaxed);
        match before {
            NIL => self.freed.head = next,
            before => region.descriptor(before).next.store(next, Ordering::Relaxed),
        }
        descriptor.set(GranuleKind::None, 0, 0);
        self.freed.nr -= 1;
        self.free_granules -= wanted.granules;
        self.dirty_granules -= wanted.granules;
        Some(start)
    }

    /// Coalesces the last block of the newest run. False if the list is empty.
    fn coalesce_freed_block(&mut self, region: &Region) -> bool {
        let start = self.freed.head;
        if start == NIL {
            return false;
        }
        let descriptor = region.descriptor(start);
        let time = descriptor.time.load(Ordering::Relaxed);
        let granules = descriptor.granules.load(Ordering::Relaxed);
        // As `each_block` cuts it.
        let end = start + granules;
        let order = end.trailing_zeros().min(granules.ilog2()).min(HIGHEST_ORDER);
        let left = granules - (1 << order);
        if left == 0 {
            self.freed.head = descriptor.next.load(Ordering::Relaxed);
            self.freed.nr -= 1;
            descriptor.set(GranuleKind::None, 0, 0);
        } else {
            descriptor.granules.store(left, Ordering::Relaxed);
        }
        self.free_granules -= 1 << order;
        self.coalesce(region, end - (1 << order), order, true, time);
        true
    }

    /// Coalesces all runs on the list. False if there were none.
    pub(super) fn coalesce_all_freed(&mut self, region: &Region) -> bool {
        let any = self.coalesce_freed_block(region);
        while self.coalesce_freed_block(region) {}
        any
    }
}

/// Locks the lists, and coalesces all freed runs into them.
pub(super) fn all_lists<P: Platform>(heap: &PageHeap<P>) -> LockedLists<'_, P> {
    let mut lists = heap.buddy.lock(&heap.platform);
    lists.coalesce_all_freed(&heap.region);
    lists
}

/// True if there are freed runs to coalesce, as of a moment ago.
#[inline]
pub(crate) fn is_due(buddy: &Buddy) -> bool {
    buddy.freed.load(Ordering::Relaxed) > KEPT
}

/// Coalesces a block of a freed run.
pub fn one_block<P: Platform>(heap: &PageHeap<P>) {
    let mut lists = heap.buddy.lock(&heap.platform);
    if lists.freed.nr > KEPT {
        lists.coalesce_freed_block(&heap.region);
    }
}
