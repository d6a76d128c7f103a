//! Freed runs that are not joined yet.
//!
//! To cut a run into blocks and join each with its buddy looks at a dozen descriptors that
//! nobody touched for long, and is most of what a free of a large object takes. So a freed
//! run waits whole in a short list: a request for one of its size takes it as it is, and if
//! several wait, later slow paths join them, a block each (`crate::yard::slow_path`). That is the
//! lazy buddy system of Barkley and Lee ("A lazy buddy system bounded by two coalescing
//! delays per class", SOSP 1989), with the list's length for the delay.
//!
//! Neighbours: [`super::buddy`] puts runs here and joins their blocks, under the lock of
//! [`super::blocks`]. A run in the list is of kind [`Kind::Freed`], its granules are dirty,
//! and they are counted as free.
//! Invariant: nobody is refused memory that waits here, and none stays behind when pages go
//! back: who finds nothing dirty, or looks at all there is ([`PageHeap::all_lists`]), joins
//! what waits first.

use super::blocks::{Lists, ORDERS, Wanted};
use super::descriptor::{Kind, NIL};
use super::region::Region;
use super::{GRANULE, PageHeap};
use crate::platform::Platform;
use crate::sync::{Guard, Ordering};

/// Runs that wait, at most.
const MOST: u32 = 8;
/// From so many on the next free joins a block, else the next allocation that takes the
/// slow path.
const MUCH: u32 = 5;
/// So many wait until they are asked for: slabs of one size end and begin.
const KEPT: u32 = 2;

/// Larger runs are joined at once: to do so costs little beside their use, and more than
/// one of them would be much memory that the next finds in pieces.
const LARGEST: usize = (1 << 20) / GRANULE;

impl Lists {
    /// Frees a run: puts it into the list; from [`MOST`] on another one is joined for it.
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
        descriptor.set(Kind::Freed, 0, 0);
        self.freed.head = start;
        self.freed.nr += 1;
        self.free_granules += granules;
    }

    /// Takes a run that is just what is wanted out of the list, the lowest one.
    pub(super) fn take_freed(&mut self, region: &Region, wanted: &Wanted) -> Option<u32> {
        if wanted.granules > LARGEST {
            self.coalesce_all_freed(region);
        }
        let (align, granules) = (wanted.alignment(), wanted.granules as u32);
        // The place of the link to it, or the head's; and itself.
        let mut found: Option<(u32, u32)> = None;
        let (mut before, mut at) = (NIL, self.freed.head);
        while at != NIL {
            let descriptor = region.descriptor(at);
            if descriptor.granules.load(Ordering::Relaxed) == granules
                && at.is_multiple_of(align)
                && found.is_none_or(|(_, lowest)| at < lowest)
            {
                found = Some((before, at));
            }
            (before, at) = (at, descriptor.next.load(Ordering::Relaxed));
        }
        // What has room to grow is not there.
        let (before, start) = found.filter(|_| wanted.room == wanted.granules)?;
        let descriptor = region.descriptor(start);
        let next = descriptor.next.load(Ordering::Relaxed);
        match before {
            NIL => self.freed.head = next,
            before => region.descriptor(before).next.store(next, Ordering::Relaxed),
        }
        descriptor.set(Kind::None, 0, 0);
        self.freed.nr -= 1;
        self.free_granules -= wanted.granules;
        self.dirty_granules -= wanted.granules;
        Some(start)
    }

    /// Joins the last block of the newest run. False if none waits.
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
        let order = end.trailing_zeros().min(granules.ilog2()).min(ORDERS as u32 - 1);
        let left = granules - (1 << order);
        if left == 0 {
            self.freed.head = descriptor.next.load(Ordering::Relaxed);
            self.freed.nr -= 1;
            descriptor.set(Kind::None, 0, 0);
        } else {
            descriptor.granules.store(left, Ordering::Relaxed);
        }
        self.free_granules -= 1 << order;
        self.coalesce(region, end - (1 << order), order, true, time);
        true
    }

    /// Joins all that wait. False if nothing did.
    pub(super) fn coalesce_all_freed(&mut self, region: &Region) -> bool {
        let waited = self.coalesce_freed_block(region);
        while self.coalesce_freed_block(region) {}
        waited
    }
}

impl<P: Platform> PageHeap<P> {
    /// The lists, under their lock, with all that is free in them.
    pub(super) fn all_lists(&self) -> Guard<'_, Lists, P> {
        let mut lists = self.buddy.lists.lock(&self.platform);
        lists.coalesce_all_freed(&self.region);
        self.publish_freed(&lists);
        lists
    }

    /// Tells who has no lock what became of the list.
    pub(super) fn publish_freed(&self, lists: &Lists) {
        self.buddy.freed.store(lists.freed.nr, Ordering::Relaxed);
    }

    /// True if blocks of freed runs are to be joined, as of a moment ago.
    #[inline]
    pub fn has_uncoalesced(&self) -> bool {
        self.buddy.freed.load(Ordering::Relaxed) > KEPT
    }

    /// True if they are to be joined soon.
    #[inline]
    pub fn has_many_uncoalesced(&self) -> bool {
        self.buddy.freed.load(Ordering::Relaxed) >= MUCH
    }

    /// Joins a block of a freed run.
    pub fn coalesce_one(&self) {
        let mut lists = self.buddy.lists.lock(&self.platform);
        if lists.freed.nr > KEPT {
            lists.coalesce_freed_block(&self.region);
        }
        self.publish_freed(&lists);
    }
}
