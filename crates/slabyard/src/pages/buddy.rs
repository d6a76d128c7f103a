//! The buddy: splits and coalesces free blocks of 2^order granules, aligned to their size
//! (Knowlton, "A fast storage allocator", CACM 1965).
//!
//! A run may have any number of granules: the buddy cuts it from a block that covers it, or from
//! consecutive blocks, and the rest stays free. Runs are multiples of the machine's page size.
//!
//! Neighbours: [`super::blocks`] holds the lists and finds a run's position in them;
//! [`super::coalesce`] keeps freed runs for a while before they are coalesced; [`super::region`]
//! grows when no block is free.

use super::blocks::{Lists, each_block};
use super::region::Region;
use crate::platform::Platform;
use crate::sync::{AtomicU32, AtomicUsize, Guard, Lock, Ordering, Rank};
use core::mem::offset_of;
use core::ops::{Deref, DerefMut};

/// All free blocks.
pub struct Buddy {
    lists: Lock<Lists>,
    /// Free dirty granules: a copy of the number under the lock, to be read without it.
    pub(crate) dirty: AtomicUsize,
    /// Free granules: a copy too.
    pub(crate) free: AtomicUsize,
    /// This many granules in use, and a slab's memory is faulted in ahead again ([`super::ahead`]).
    pub(super) grown_to: AtomicUsize,
    /// Those of the dirty ones that the kernel has not refused to take back.
    purgeable: AtomicUsize,
    /// The number of dirty ones when the kernel last refused a whole call to give pages back.
    refused: AtomicUsize,
    /// Freed runs that are not coalesced yet: a copy too ([`super::coalesce`]).
    pub(super) freed: AtomicU32,
    pub(crate) run_granules: AtomicUsize,
    pub(super) nr_runs: AtomicUsize,
}

/// Free blocks in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeCount {
    /// Free granules.
    pub free: usize,
    /// Of these, granules not given back to the kernel.
    pub dirty: usize,
}

impl Buddy {
    pub(super) const fn new() -> Self {
        Buddy {
            lists: Lock::new(Rank::Pages, Lists::new()),
            dirty: AtomicUsize::new(0),
            free: AtomicUsize::new(0),
            grown_to: AtomicUsize::new(0),
            purgeable: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            freed: AtomicU32::new(0),
            run_granules: AtomicUsize::new(0),
            nr_runs: AtomicUsize::new(0),
        }
    }

    /// Dirty free granules, as of a moment ago.
    #[inline]
    pub fn dirty_hint(&self) -> usize {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Free granules, as of a moment ago.
    #[inline]
    pub(crate) fn free_hint(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }

    /// Those of the dirty ones that the kernel has not refused to take back (locked pages, a filter):
    /// what it refused does not keep reclaim busy.
    #[inline]
    pub fn purgeable_hint(&self) -> usize {
        self.purgeable.load(Ordering::Relaxed)
    }

    /// Records whether the kernel refused a whole call.
    pub(super) fn set_refused(&self, all: bool) {
        let refused = if all { self.dirty_hint() } else { 0 };
        self.refused.store(refused, Ordering::Relaxed);
        self.publish_purgeable(self.dirty_hint());
    }

    /// Addresses of: free granules, the dirty ones of them, live runs, their granules.
    pub(super) fn words_at(&self) -> [usize; 4] {
        let lists = self.lists.as_ptr() as usize;
        [
            lists + offset_of!(Lists, free_granules),
            lists + offset_of!(Lists, dirty_granules),
            self.nr_runs.as_ptr() as usize,
            self.run_granules.as_ptr() as usize,
        ]
    }

    /// Address of the number of freed runs.
    pub fn freed_at(&self) -> usize {
        self.freed.as_ptr() as usize
    }

    /// Live runs: number and granules.
    pub fn runs(&self) -> (usize, usize) {
        (self.nr_runs.load(Ordering::Relaxed), self.run_granules.load(Ordering::Relaxed))
    }

    fn publish_purgeable(&self, dirty: usize) {
        let purgeable = dirty.saturating_sub(self.refused.load(Ordering::Relaxed));
        self.purgeable.store(purgeable, Ordering::Relaxed);
    }

    /// Frees the lock in the child of a fork, whose holder does not exist there.
    pub(super) fn abandon(&self) {
        self.lists.abandon();
    }

    /// The lists, which nobody else changes until they are dropped.
    pub(super) fn lock<'a, P: Platform>(&'a self, p: &'a P) -> LockedLists<'a, P> {
        LockedLists { buddy: self, lists: self.lists.lock(p) }
    }
}

/// The lists while this thread has them locked. It publishes their counts before it unlocks them.
pub(super) struct LockedLists<'a, P: Platform> {
    buddy: &'a Buddy,
    lists: Guard<'a, Lists, P>,
}

impl<P: Platform> Deref for LockedLists<'_, P> {
    type Target = Lists;
    fn deref(&self) -> &Lists {
        &self.lists
    }
}

impl<P: Platform> DerefMut for LockedLists<'_, P> {
    fn deref_mut(&mut self) -> &mut Lists {
        &mut self.lists
    }
}

impl<P: Platform> Drop for LockedLists<'_, P> {
    fn drop(&mut self) {
        let Lists { dirty_granules, free_granules, ref freed, .. } = *self.lists;
        self.buddy.dirty.store(dirty_granules, Ordering::Relaxed);
        self.buddy.publish_purgeable(dirty_granules);
        self.buddy.free.store(free_granules, Ordering::Relaxed);
        self.buddy.freed.store(freed.nr, Ordering::Relaxed);
    }
}

impl Lists {
    /// Takes a range of free granules out of the lists; `block` is the free block in which it
    /// begins.
    pub(super) fn cut(&mut self, region: &Region, block: usize, start: usize, end: usize) {
        // One block, or several that follow each other.
        let (mut at, mut any_dirty) = (block, false);
        while at < end {
            let time = region.descriptor(at as u32).time.load(Ordering::Relaxed);
            let (found, dirty) = self.remove(region, at as u32);
            // Prefetches the descriptors of the parts, so that their misses overlap.
            let fetch = |from, to| each_block(from, to, |i, _| region.fetch_descriptor_ahead(i));
            fetch(at, start);
            fetch(end, at + (1 << found));
            let mut leave = |from, to| {
                each_block(from, to, |i, o| {
                    let dirty = dirty && region.dirty_in(i as usize, 1 << o) > 0;
                    self.insert(region, i, o, dirty, time, true);
                });
            };
            // The first block may leave a part before the range, the last one behind it.
            leave(at, start);
            at += 1 << found;
            any_dirty |= dirty;
            leave(end, at);
        }
        if any_dirty {
            self.dirty_granules -= region.dirty_in(start, end - start);
        }
    }

    /// Frees an aligned block and coalesces it with its buddies.
    pub(super) fn coalesce(
        &mut self,
        region: &Region,
        mut index: u32,
        mut order: u32,
        mut dirty: bool,
        mut time: u32,
    ) {
        let now = time;
        while order < self.most_order() {
            let buddy = index ^ (1 << order);
            if buddy as usize + (1 << order) > region.top() {
                break;
            }
            let descriptor = region.descriptor(buddy);
            if !descriptor.is_free_block(order) {
                break;
            }
            // The coalesced block is as old as its older dirty part.
            let other = descriptor.time.load(Ordering::Relaxed);
            time = match (dirty, descriptor.slot() != 0) {
                (true, true) => other.min(time),
                (true, false) => time,
                (false, true) => other,
                (false, false) => other.max(time),
            };
            dirty |= self.remove(region, buddy).1;
            index &= !(1 << order);
            order += 1;
        }
        let young = !dirty || now.wrapping_sub(time) < YOUNG_MS;
        self.insert(region, index, order, dirty, time, young);
    }

    /// Frees a range: cuts it into aligned blocks and coalesces each.
    pub(super) fn free_range(
        &mut self,
        region: &Region,
        start: usize,
        end: usize,
        dirty: bool,
        time: u32,
    ) {
        each_block(start, end, |index, order| self.coalesce(region, index, order, dirty, time));
    }
}

/// A coalesced block younger than this goes to the young end of its list.
const YOUNG_MS: u32 = 100;
