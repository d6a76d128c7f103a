//! Runs: taken out of the buddy's blocks, and back.
//!
//! Neighbours: [`super::buddy`] has the free blocks; [`super::coalesce`] keeps freed runs for a while
//! before they are coalesced; [`super::region`] grows where nothing is free.

use super::blocks::Lists;
use crate::pages::blocks::{ORDERS, Wanted};
use crate::pages::buddy::FreeCount;
use crate::pages::descriptor::Descriptor;
use crate::pages::huge::HUGE;
use crate::pages::nodes::STRIPE;
use crate::pages::region::{Ahead, MOST_AHEAD};
use crate::pages::{GranuleKind, PageHeap};
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

impl<P: Platform> PageHeap<P> {
    /// Takes a run of granules aligned to `align` granules (a power of two); returns its
    /// first index. Its descriptor is of kind [`GranuleKind::None`]; the caller sets its kind.
    /// `None` if the system refuses memory.
    pub fn take_run(&self, granules: usize, align: usize) -> Option<u32> {
        self.take_run_in(granules, granules, align)
    }

    /// As [`PageHeap::take_run`], at a position where the run has room to grow to so many
    /// granules; among dirty ones perhaps to fewer.
    fn take_run_in(&self, room: usize, granules: usize, align: usize) -> Option<u32> {
        let unit = self.platform.page_bytes() / GRANULE;
        let [mut room, granules] = [room, granules].map(|n| n.next_multiple_of(unit));
        let node = self.near();
        if P::MOST_NODES > 1 && node.is_some() {
            if granules > STRIPE {
                return None;
            }
            room = room.min(STRIPE);
        }
        self.take_run_of(room, granules, align, node).or_else(|| {
            // Memory of another node is better than none.
            node.and_then(|_| self.take_run_of(room, granules, align, None))
        })
    }

    /// As [`PageHeap::take_run_in`], on a node if one is named. Both numbers are whole pages.
    #[inline(always)]
    pub(super) fn take_run_of(
        &self,
        room: usize,
        granules: usize,
        align: usize,
        node: Option<usize>,
    ) -> Option<u32> {
        let unit = self.platform.page_bytes() / GRANULE;
        let huge_pages = room > HUGE && self.platform.has_huge_pages();
        let mut wanted = Wanted::new(granules, room, align.max(unit), huge_pages);
        wanted.node = node;
        if wanted.order as usize >= ORDERS {
            return None;
        }
        if room >= HUGE {
            wanted.above = self.region.small_pages();
        }
        if let Some(index) = self.take_free(wanted) {
            return Some(index);
        }
        let growing = self.region.growing(&self.platform);
        // Another thread may have grown the region meanwhile, or freed.
        if let Some(index) = self.take_free(wanted) {
            return Some(index);
        }
        let ahead = match granules >= LARGE {
            // The descriptors behind it are few beside it, or beside what comes and goes.
            true if granules >= MOST_AHEAD || self.buddy.dirty_hint() >= granules => Ahead::All,
            true => Ahead::Nothing,
            false => Ahead::Free,
        };
        let align = 1 << wanted.align;
        let Some((old, start, new)) =
            self.region.grow(&self.platform, &growing, room, align, ahead, node)
        else {
            drop(growing);
            // Memory with small pages is better than none.
            return self.take_free(Wanted { room: granules, above: 0, last: true, ..wanted });
        };
        let end = start + granules;
        self.bind_new(old, new);
        let now = self.platform.now_ms() as u32;
        let mut lists = self.buddy.lists.lock(&self.platform);
        self.free_new(&mut lists, old, start, now);
        self.free_new(&mut lists, end, new, now);
        drop((lists, growing));
        self.region.touch_descriptors(&self.platform, end, new);
        Some(start as u32)
    }

    /// Takes up to so many runs of 2^order granules, each aligned to its size: those that are free
    /// under one hold of the lock. `f` gets each first index, under that lock perhaps; the kind of
    /// each descriptor is [`GranuleKind::None`]. Returns how many: fewer if the system refuses memory.
    pub(super) fn take_runs(&self, order: u32, most: u32, mut f: impl FnMut(u32)) -> u32 {
        let wanted = Wanted::new(1 << order, 1 << order, 1 << order, false);
        let mut taken = 0;
        loop {
            let mut lists = self.buddy.lists.lock(&self.platform);
            while taken < most
                && let Some(start) = self.take_from(&mut lists, wanted)
            {
                f(start);
                taken += 1;
            }
            drop(lists);
            // Nothing is free any more: the region grows.
            let Some(start) = (taken < most).then(|| self.take_run(1 << order, 1 << order)) else {
                return taken;
            };
            let Some(start) = start else { return taken };
            f(start);
            taken += 1;
        }
    }

    /// Frees runs that left a CPU's list, of kind [`GranuleKind::Parked`], under one hold of the lock.
    pub(super) fn free_parked_runs(&self, runs: impl Iterator<Item = u32>) {
        let now = self.platform.now_ms() as u32;
        let mut lists = self.buddy.lists.lock(&self.platform);
        for index in runs {
            let descriptor = self.region.descriptor(index);
            let granules = 1 << descriptor.order();
            self.region.set_dirty(index as usize, granules, true);
            descriptor.set(GranuleKind::None, 0, 0);
            lists.add_freed(&self.region, index, granules, now);
        }
        self.publish_freed(&lists);
        self.publish_counts(&lists);
    }

    fn take_free(&self, wanted: Wanted) -> Option<u32> {
        let mut lists = self.buddy.lists.lock(&self.platform);
        self.take_from(&mut lists, wanted)
    }

    fn take_from(&self, lists: &mut Lists, wanted: Wanted) -> Option<u32> {
        let start = match lists.take_freed::<P>(&self.region, &wanted) {
            Some(start) => start,
            None => {
                let (block, start) = lists.find::<P>(&self.region, wanted)?;
                lists.cut(&self.region, block, start, start + wanted.granules);
                start as u32
            }
        };
        self.publish_freed(lists);
        self.publish_counts(lists);
        Some(start)
    }

    /// Frees a run whose descriptor is of kind [`GranuleKind::None`]. Its granules are dirty. It is
    /// coalesced later.
    pub fn free_run(&self, index: u32, granules: usize) {
        let now = self.platform.now_ms() as u32;
        let granules = self.granules_for(granules * GRANULE);
        self.region.set_dirty(index as usize, granules, true);
        let mut lists = self.buddy.lists.lock(&self.platform);
        lists.add_freed(&self.region, index, granules, now);
        self.publish_freed(&lists);
        self.publish_counts(&lists);
    }

    /// Allocates a run for `bytes`, aligned to `align` bytes; returns its address.
    pub fn alloc_run(&self, bytes: usize, align: usize) -> Option<usize> {
        self.alloc_run_in(bytes, bytes, align)
    }

    /// As [`PageHeap::alloc_run`], with room to grow to so many bytes. `None` also for an
    /// alignment above the region's own.
    pub fn alloc_run_in(&self, room: usize, bytes: usize, align: usize) -> Option<usize> {
        if align > self.region.alignment() {
            return None;
        }
        let [room, granules] = [room, bytes].map(|bytes| self.granules_for(bytes));
        let align = align.div_ceil(GRANULE).max(1);
        let index = self.take_run_in(room.max(granules), granules, align)?;
        let descriptor = self.region.descriptor(index);
        descriptor.granules.store(granules as u32, Ordering::Relaxed);
        descriptor.set(GranuleKind::Run, 0, 0);
        self.buddy.nr_runs.fetch_add(1, Ordering::Relaxed);
        self.buddy.run_granules.fetch_add(granules, Ordering::Relaxed);
        Some(self.region.address(index))
    }

    /// Bytes of the live run that begins at `address`, if one does.
    pub fn run_bytes(&self, address: usize) -> Option<usize> {
        let index = self.region.granule_of(address)?;
        let descriptor = self.region.descriptor(index);
        (self.region.address(index) == address && descriptor.kind() == GranuleKind::Run)
            .then(|| descriptor.granules.load(Ordering::Relaxed) as usize * GRANULE)
    }

    /// Frees the live run that begins at `address`; returns its bytes, or `None` if none does.
    pub fn free_live_run(&self, address: usize) -> Option<usize> {
        let (index, granules) = self.end_live_run(address)?;
        self.free_run(index, granules);
        Some(granules * GRANULE)
    }

    /// As [`PageHeap::free_live_run`]; its pages [are clean](PageHeap::free_clean).
    pub fn free_live_run_clean(&self, address: usize) -> Option<usize> {
        let (index, granules) = self.end_live_run(address)?;
        self.free_clean(index, granules);
        Some(granules * GRANULE)
    }

    /// Ends the live run that begins at `address`: its first granule, and how many it has.
    #[inline(always)]
    fn end_live_run(&self, address: usize) -> Option<(u32, usize)> {
        let bytes = self.run_bytes(address)?;
        let index = self.region.granule_of(address)?;
        // Before it is no run any more: memory of nobody that may hold something else than zeros is
        // dirty, for the child of a fork in between.
        self.region.set_dirty(index as usize, bytes / GRANULE, true);
        // Of two threads that free the same run, one gets it.
        if !self.region.descriptor(index).change(GranuleKind::Run, GranuleKind::None) {
            return None;
        }
        let granules = bytes / GRANULE;
        self.buddy.nr_runs.fetch_sub(1, Ordering::Relaxed);
        self.buddy.run_granules.fetch_sub(granules, Ordering::Relaxed);
        Some((index, granules))
    }

    /// Cuts the tail off a live run, down to `bytes`.
    pub fn shrink_run(&self, address: usize, bytes: usize) {
        let (Some(old), Some(index)) = (self.run_bytes(address), self.region.granule_of(address))
        else {
            return;
        };
        let (old, new) = (old / GRANULE, self.granules_for(bytes.max(1)));
        if new < old {
            // As in `end_live_run`.
            self.region.set_dirty(index as usize + new, old - new, true);
            self.region.descriptor(index).granules.store(new as u32, Ordering::Relaxed);
            self.buddy.run_granules.fetch_sub(old - new, Ordering::Relaxed);
            self.free_run(index + new as u32, old - new);
        }
    }

    /// Free granules, and the dirty ones among them.
    pub fn free_count(&self) -> FreeCount {
        let lists = self.buddy.lists.lock(&self.platform);
        FreeCount { free: lists.free_granules, dirty: lists.dirty_granules }
    }

    /// Coalesces all freed runs, then calls `f` with first granule and order of each free block.
    pub fn each_free_block(&self, mut f: impl FnMut(u32, u32)) {
        let lists = self.all_lists();
        lists.each(&self.region, |index, order, _| f(index, order));
    }

    pub(super) fn publish_counts(&self, lists: &Lists) {
        self.buddy.dirty.store(lists.dirty_granules, Ordering::Relaxed);
        self.buddy.free.store(lists.free_granules, Ordering::Relaxed);
    }
}

/// A run of so many granules has a page of descriptors and more.
const LARGE: usize = GRANULE / size_of::<Descriptor>();
