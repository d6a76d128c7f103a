//! Allocates runs of granules from the buddy's blocks, and returns freed runs to them.
//!
//! Neighbours: [`super::buddy`] owns the free blocks; [`super::coalesce`] keeps freed runs for a
//! while before they are coalesced; [`super::region`] grows when no block is free.

use super::blocks::Lists;
use crate::pages::blocks::{ORDERS, Wanted};
use crate::pages::buddy::FreeCount;
use crate::pages::descriptor::Descriptor;
use crate::pages::huge::HUGE;
use crate::pages::nodes::STRIPE;
use crate::pages::region::{Ahead, MOST_AHEAD};
use crate::pages::{GranuleKind, PageHeap, bank, coalesce, nodes};
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

impl<P: Platform> PageHeap<P> {
    /// Takes a run of granules aligned to `align` granules (a power of two); returns its
    /// first index. Its descriptor is of kind [`GranuleKind::None`]; the caller sets its kind.
    /// `None` if the kernel refuses memory.
    pub fn take_run(&self, granules: usize, align: usize) -> Option<u32> {
        self.take_run_in(granules, granules, align)
    }

    /// As [`PageHeap::take_run`], at a position where the run has room to grow to this many
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
        take_run_of(self, room, granules, align, node).or_else(|| {
            // Memory of another node is better than none.
            node.and_then(|_| take_run_of(self, room, granules, align, None))
        })
    }

    /// Frees a run whose descriptor is of kind [`GranuleKind::None`]. Its granules are dirty. It is
    /// coalesced later.
    pub fn free_run(&self, index: u32, granules: usize) {
        let now = self.platform.now_ms() as u32;
        let granules = self.granules_for(granules * GRANULE);
        self.region.set_dirty(index as usize, granules, true);
        let mut lists = self.buddy.lock(&self.platform);
        lists.add_freed(&self.region, index, granules, now);
    }

    /// Allocates a run for `bytes`, aligned to `align` bytes; returns its address.
    pub fn alloc_run(&self, bytes: usize, align: usize) -> Option<usize> {
        self.alloc_run_in(bytes, bytes, align)
    }

    /// As [`PageHeap::alloc_run`], with room to grow to this many bytes. `None` also for an
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
        let (index, granules) = end_live_run(self, address)?;
        self.free_run(index, granules);
        Some(granules * GRANULE)
    }

    /// As [`PageHeap::free_live_run`]; its pages [are clean](PageHeap::free_clean).
    pub fn free_live_run_clean(&self, address: usize) -> Option<usize> {
        let (index, granules) = end_live_run(self, address)?;
        self.free_clean(index, granules);
        Some(granules * GRANULE)
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
}

/// As [`PageHeap::take_run_in`], on a node if one is named. Both numbers are whole pages.
#[inline(always)]
pub(super) fn take_run_of<P: Platform>(
    heap: &PageHeap<P>,
    room: usize,
    granules: usize,
    align: usize,
    node: Option<usize>,
) -> Option<u32> {
    let unit = heap.platform.page_bytes() / GRANULE;
    let huge_pages = room > HUGE && heap.platform.has_huge_pages();
    let mut wanted = Wanted::new(granules, room, align.max(unit), huge_pages);
    wanted.node = node;
    if wanted.order as usize >= ORDERS {
        return None;
    }
    if room >= HUGE {
        wanted.above = heap.region.small_pages();
    }
    if let Some(index) = take_free(heap, wanted) {
        return Some(index);
    }
    let growing = heap.region.growing(&heap.platform);
    // Another thread may have grown the region meanwhile, or freed.
    if let Some(index) = take_free(heap, wanted) {
        return Some(index);
    }
    let ahead = match granules >= LARGE {
        // The descriptors behind it are few beside it, or beside what comes and goes.
        true if granules >= MOST_AHEAD || heap.buddy.dirty_hint() >= granules => Ahead::All,
        true => Ahead::Nothing,
        false => Ahead::Free,
    };
    let align = 1 << wanted.align;
    let Some((old, start, new)) =
        heap.region.grow(&heap.platform, &growing, room, align, ahead, node)
    else {
        drop(growing);
        // Memory with small pages is better than none.
        return take_free(heap, Wanted { room: granules, above: 0, last: true, ..wanted });
    };
    let end = start + granules;
    nodes::bind_new(heap, old, new);
    let now = heap.platform.now_ms() as u32;
    let mut lists = heap.buddy.lock(&heap.platform);
    nodes::free_new(heap, &mut lists, old, start, now);
    nodes::free_new(heap, &mut lists, end, new, now);
    drop((lists, growing));
    heap.region.touch_descriptors(&heap.platform, end, new);
    Some(start as u32)
}

/// Takes up to this many runs of 2^order granules, each aligned to its size: those that are free
/// under one hold of the lock. `f` gets each first index, under that lock perhaps; the kind of
/// each descriptor is [`GranuleKind::None`]. Returns how many: fewer if the kernel refuses memory.
pub fn take_runs<P: Platform>(
    heap: &PageHeap<P>,
    order: u32,
    most: u32,
    mut f: impl FnMut(u32),
) -> u32 {
    let wanted = Wanted::new(1 << order, 1 << order, 1 << order, false);
    let mut taken = 0;
    loop {
        let mut lists = heap.buddy.lock(&heap.platform);
        while taken < most
            && let Some(start) = take_from(heap, &mut lists, wanted)
        {
            f(start);
            taken += 1;
        }
        drop(lists);
        // Nothing is free any more: the region grows.
        let Some(start) = (taken < most).then(|| heap.take_run(1 << order, 1 << order)) else {
            return taken;
        };
        let Some(start) = start else { return taken };
        f(start);
        taken += 1;
    }
}

/// Frees the runs at these addresses, which left a CPU's list or bank, under one hold of the lock.
pub fn free_parked_runs<P: Platform>(heap: &PageHeap<P>, addresses: impl Iterator<Item = usize>) {
    let now = heap.platform.now_ms() as u32;
    let mut lists = heap.buddy.lock(&heap.platform);
    for index in addresses.filter_map(|address| heap.region.granule_of(address)) {
        let descriptor = heap.region.descriptor(index);
        let granules = match descriptor.is_banked() {
            true => bank::end(&heap.buddy, descriptor),
            false => 1 << descriptor.order(),
        };
        heap.region.set_dirty(index as usize, granules, true);
        descriptor.set(GranuleKind::None, 0, 0);
        lists.add_freed(&heap.region, index, granules, now);
    }
}

fn take_free<P: Platform>(heap: &PageHeap<P>, wanted: Wanted) -> Option<u32> {
    let mut lists = heap.buddy.lock(&heap.platform);
    take_from(heap, &mut lists, wanted)
}

fn take_from<P: Platform>(heap: &PageHeap<P>, lists: &mut Lists, wanted: Wanted) -> Option<u32> {
    let start = match lists.take_freed::<P>(&heap.region, &wanted) {
        Some(start) => start,
        None => {
            let (block, start) = lists.find::<P>(&heap.region, wanted)?;
            lists.cut(&heap.region, block, start, start + wanted.granules);
            start as u32
        }
    };
    Some(start)
}

/// Ends the live run that begins at `address`: its first granule, and how many it has.
#[inline(always)]
fn end_live_run<P: Platform>(heap: &PageHeap<P>, address: usize) -> Option<(u32, usize)> {
    let bytes = heap.run_bytes(address)?;
    let index = heap.region.granule_of(address)?;
    // Before it is no run any more: memory of nobody that may hold something else than zeros is
    // dirty, for the child of a fork in between.
    heap.region.set_dirty(index as usize, bytes / GRANULE, true);
    // Of two threads that free the same run, one gets it.
    let descriptor = heap.region.descriptor(index);
    if !descriptor.change_run(descriptor.slot(), GranuleKind::None, 0) {
        return None;
    }
    let granules = bytes / GRANULE;
    heap.buddy.nr_runs.fetch_sub(1, Ordering::Relaxed);
    heap.buddy.run_granules.fetch_sub(granules, Ordering::Relaxed);
    Some((index, granules))
}

/// Free granules, and the dirty ones among them.
pub fn free_count<P: Platform>(heap: &PageHeap<P>) -> FreeCount {
    let lists = heap.buddy.lock(&heap.platform);
    FreeCount { free: lists.free_granules, dirty: lists.dirty_granules }
}

/// Coalesces all freed runs, then calls `f` with first granule and order of each free block.
pub fn each_free_block<P: Platform>(heap: &PageHeap<P>, mut f: impl FnMut(u32, u32)) {
    let lists = coalesce::all_lists(heap);
    lists.each(&heap.region, |index, order, _| f(index, order));
}

/// A run of this many granules has a page of descriptors and more.
const LARGE: usize = GRANULE / size_of::<Descriptor>();
