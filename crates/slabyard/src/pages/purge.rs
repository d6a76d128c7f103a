//! The purge: gives pages of free blocks back to the kernel, either those that stayed free for a
//! while, or all at once.
//!
//! A purge makes one system call per slice, for at most [`MOST_BYTES`] and one huge page, or for as
//! much as its caller requested. It takes the granules that the call covers out of the buddy, so
//! that it holds no lock during the call; the rest of their blocks stays in the buddy.
//!
//! The purge also releases the metadata of a large free block: its descriptors (except the first)
//! and its part of the page map read as zeros, as in memory that was never touched. Without this
//! release, 88 MB stayed resident 3 s after 3 GB were freed, instead of 46 (462e753). The first
//! descriptor's `granules` counts the released slices of the block's metadata; a block is called
//! *released* once all its slices are. A small heap defers this: its descriptors take little
//! memory, and an allocation from the block would fault their pages in one by one.
//!
//! Neighbours: reclaim passes call the purge, as do slow paths with a purge backlog; it takes
//! blocks from [`super::buddy`], and reports sparse extents to [`super::advice`].

use super::blocks::ORDERS;
use super::descriptor::{Descriptor, GranuleKind};
use super::heap::PageHeap;
use super::huge::{HUGE, HUGE_ORDER};
use crate::pages::{advise, coalesce};
use crate::platform::{GRANULE, Platform, Stretch};
use crate::sync::{AtomicU16, Ordering};

/// Most bytes of one call of `give_back`.
pub const MOST_BYTES: usize = 512 << 10;
/// Most granules of a call whose size the caller chose.
const MOST_AT_ONCE: usize = (64 << 20) / GRANULE;
/// Most parts of blocks in one call: a burst of frees leaves memory in pieces. They are on the
/// stack of a slow path, which may be a small one.
const PARTS: usize = 32;

/// Smallest order of a free block whose metadata is released: 512 KiB, two pages of descriptors.
const SMALLEST_RELEASED: usize = 7;
/// In a heap of up to this many granules, 256 MiB with 4 MiB of descriptors, a block must be
/// clean for so long before its metadata is released.
const SMALL_HEAP: usize = (256 << 20) / GRANULE;
const RELEASE_MS: u32 = 1000;
/// Blocks of an order that the search for one that is not released looks at.
const LOOKS: usize = 16;

/// A part of a free block, out of the buddy.
#[derive(Clone, Copy)]
struct DirtyPart {
    index: u32,
    /// Its granules from the first dirty one to the last; whole huge pages if it is large.
    first: u32,
    granules: u32,
    order: u8,
    /// The block shares the extent of a huge page with others.
    beside_others: bool,
}

impl DirtyPart {
    const NONE: DirtyPart =
        DirtyPart { index: 0, first: 0, granules: 0, order: 0, beside_others: false };

    fn first(&self) -> usize {
        self.first as usize
    }

    fn granules(&self) -> usize {
        self.granules as usize
    }
}

impl<P: Platform> PageHeap<P> {
    /// Gives back dirty blocks that were freed at least `age_ms` ago, on request: `most`
    /// granules, and of the last block up to a huge page more, clean ones between them among them.
    /// It gives large blocks back in whole huge pages, which the kernel need not split and whose
    /// page tables it frees too (since Linux 6.14), so that huge pages can come again. Returns the
    /// granules given back.
    pub fn purge(&self, age_ms: u32, most: usize) -> usize {
        // Read once: a refused part becomes younger than this, and is not tried again.
        let now = self.platform.now_ms() as u32;
        let (mut done, mut left) = (0, (most.div_ceil(HUGE) + 1).saturating_mul(HUGE));
        while done < most
            && let Some((went, spent)) =
                purge_parts(self, now, age_ms, left.min(MOST_AT_ONCE), most - done)
        {
            done += went;
            left -= spent;
        }
        done
    }

    /// Frees a run whose descriptor is of kind [`GranuleKind::None`], and gives its pages back at once: a
    /// look at [clean pages](crate::slab::debug::unused::look_at_taken) sees who writes to them. It is neither parked
    /// nor kept for requests of its size.
    pub fn free_clean(&self, index: u32, granules: usize) {
        let granules = self.granules_for(granules * GRANULE);
        let (first, now) = (index as usize, self.platform.now_ms() as u32);
        let address = self.region.address(index);
        let mut stretch = [Stretch { address, bytes: granules * GRANULE }];
        self.platform.give_back(&mut stretch);
        if stretch == [Stretch::NONE] {
            return self.free_run(index, granules);
        }
        self.cleaned.fetch_add(granules, Ordering::Relaxed);
        self.region.set_dirty(first, granules, false);
        let mut lists = self.buddy.lock(&self.platform);
        lists.free_range(&self.region, first, first + granules, false, now);
    }

    /// Gives back parts of the largest dirty blocks that were freed at least `age_ms`
    /// ago, by one call of at most [`MOST_BYTES`]. Returns the granules given back;
    /// `None` if there is no such block, or the kernel refused the whole call.
    pub fn purge_part(&self, age_ms: u32) -> Option<usize> {
        let now = self.platform.now_ms() as u32;
        let (went, _) = purge_parts(self, now, age_ms, MOST_BYTES / GRANULE, usize::MAX)?;
        (went > 0).then_some(went)
    }
}

/// Makes one call for at most this many granules, and for no further part once `enough` dirty ones
/// are among them; returns how many dirty ones the kernel took, and for how many the call was.
fn purge_parts<P: Platform>(
    heap: &PageHeap<P>,
    now: u32,
    age_ms: u32,
    most: usize,
    enough: usize,
) -> Option<(usize, usize)> {
    // Each by itself: of a pair the compiler makes a copy.
    let mut parts = [DirtyPart::NONE; PARTS];
    let mut stretches = [Stretch::NONE; PARTS];
    let (mut n, mut left, mut went) = (0, most, 0);
    let huge = advise::has_huge_pages(heap);
    while n < PARTS
        && went < enough
        && left >= heap.granules_for(1)
        && let Some((part, dirty)) = take_old(heap, now, age_ms, left, huge)
    {
        // The call may include clean pages between dirty ones: they hold nothing.
        let address = heap.region.address(part.first);
        stretches[n] = Stretch { address, bytes: part.granules() * GRANULE };
        left = left.saturating_sub(part.granules());
        went += dirty;
        parts[n] = part;
        n += 1;
    }
    if n == 0 {
        return None;
    }
    heap.platform.give_back(&mut stretches[..n]);
    for (part, stretch) in parts[..n].iter().zip(&stretches) {
        if *stretch == Stretch::NONE {
            went -= put_refused(heap, part, now);
        } else {
            heap.region.set_dirty(part.first(), part.granules(), false);
            put_clean(heap, part.index, part.order.into(), now, 0);
            if part.beside_others {
                advise::keep_sparse(heap, part.first());
            }
            advise::allow_whole(heap, part.first(), part.first() + part.granules());
        }
    }
    heap.buddy.set_refused(went == 0);
    Some((went, most - left))
}

/// Puts a part back into the buddy that the kernel refused: as dirty as it was, and
/// younger than `now`. Does not coalesce it, so that its neighbours need not wait with it.
/// Returns its dirty granules.
fn put_refused<P: Platform>(heap: &PageHeap<P>, part: &DirtyPart, now: u32) -> usize {
    let region = &heap.region;
    let dirty = region.dirty_in(part.first(), part.granules());
    let mut lists = heap.buddy.lock(&heap.platform);
    lists.insert(region, part.index, part.order.into(), true, now.wrapping_add(1), true);
    lists.dirty_granules += dirty;
    dirty
}

/// Takes the first dirty part of the oldest dirty block out of the buddy, if it is old
/// enough: at most this many granules, or what may be one huge page if `huge`, and how many of them
/// are dirty. Tries larger orders first.
fn take_old<P: Platform>(
    heap: &PageHeap<P>,
    now: u32,
    age_ms: u32,
    most: usize,
    huge: bool,
) -> Option<(DirtyPart, usize)> {
    let region = &heap.region;
    let mut lists = coalesce::all_lists(heap);
    let (block, time) = (0..ORDERS).rev().find_map(|order| {
        let block = lists.oldest_of(order)?;
        let time = region.descriptor(block).time.load(Ordering::Relaxed);
        is_old(now, time, age_ms).then_some((block, time))
    })?;
    let (found, _) = lists.remove(region, block);
    let mut order = found as usize;
    let mut index = block as usize;
    let Some(first) = region.first_dirty(index, 1 << order) else {
        debug_assert!(false, "a clean block among the dirty ones");
        lists.insert(region, block, found, false, time, true);
        return None;
    };
    // What may be one huge page goes as a whole: the kernel would split it, and what was never taken
    // would stay, and become a huge page again (24 MiB of 150 that were all free; d212467).
    let is_one = huge && found >= HUGE_ORDER && !region.has_small_pages(first / HUGE);
    let most = if is_one { most.max(HUGE) } else { most };
    while 1 << order > most {
        // The half without the part stays free; if that is the lower one, it is clean.
        order -= 1;
        let upper = index + (1 << order);
        let (rest, dirty) = if first >= upper {
            (core::mem::replace(&mut index, upper), false)
        } else {
            (upper, region.first_dirty(upper, 1 << order).is_some())
        };
        lists.insert(region, rest as u32, order as u32, dirty, time, !dirty);
    }
    let end = index + (1 << order);
    let last = region.last_dirty(first, end - first).unwrap_or(first);
    let unit = if 1 << order >= HUGE { HUGE } else { 1 };
    let first = first / unit * unit;
    let granules = (last + 1).next_multiple_of(unit) - first;
    let dirty = region.dirty_in(first, granules);
    lists.dirty_granules -= dirty;
    region.descriptor(index as u32).set(GranuleKind::Purging, order as u32, 0);
    let part = DirtyPart {
        index: index as u32,
        first: first as u32,
        granules: granules as u32,
        order: order as u8,
        beside_others: found < HUGE_ORDER,
    };
    Some((part, dirty))
}

/// Puts a block back into the buddy, clean since then, with the number of [`slices`] made for it.
fn put_clean<P: Platform>(heap: &PageHeap<P>, index: u32, order: usize, since: u32, made: u32) {
    let start = index as usize;
    let descriptor = heap.region.descriptor(index);
    let mut lists = heap.buddy.lock(&heap.platform);
    descriptor.set(GranuleKind::None, 0, 0);
    lists.free_range(&heap.region, start, start + (1 << order), false, since);
    // If it coalesced, the count begins anew: the buddy's first descriptor is not released. A block
    // that is released whole goes behind the others, so that searches find those.
    if descriptor.is_free_block(order as u32) {
        if made == slices(order) {
            lists.remove(&heap.region, index);
            lists.insert(&heap.region, index, order as u32, false, since, false);
        }
        descriptor.granules.store(made, Ordering::Relaxed);
    }
}

/// Releases the metadata of large clean blocks that are not released yet. Returns true if
/// there were any.
pub fn release_metadata<P: Platform>(heap: &PageHeap<P>) -> bool {
    let mut released = false;
    while release_part_of(heap, 0) {
        released = true;
    }
    released
}

/// Releases a part of the metadata of a large clean block, by one call of at most
/// [`MOST_BYTES`]. False if all blocks are released, or not clean for long enough.
pub fn release_metadata_part<P: Platform>(heap: &PageHeap<P>) -> bool {
    release_part_of(heap, if heap.region.top() <= SMALL_HEAP { RELEASE_MS } else { 0 })
}

/// As [`release_metadata_part`], for a block that is clean for so long.
pub(crate) fn release_part_of<P: Platform>(heap: &PageHeap<P>, age_ms: u32) -> bool {
    let Some((index, order, since, mut made)) = take_unreleased(heap, age_ms) else {
        return false;
    };
    while made < slices(order) {
        made += 1;
        if release_slice(heap, index as usize, order, made - 1) {
            break;
        }
    }
    put_clean(heap, index, order, since, made);
    true
}

/// Makes one of the [`slices`]; false if there was no whole page to give back. What goes back is
/// zeros or means nothing, and no thread reads it while the block is out of the buddy.
fn release_slice<P: Platform>(heap: &PageHeap<P>, start: usize, order: usize, nth: u32) -> bool {
    let (region, p, end) = (&heap.region, &heap.platform, start + (1 << order));
    match nth.checked_sub(descriptor_slices(order)) {
        None => {
            let from = start + nth as usize * DESCRIPTORS;
            // The first descriptor stays: it has the block's order and links.
            region.descriptors.give_back(p, from.max(start + 1), (from + DESCRIPTORS).min(end))
        }
        Some(nth) => {
            let from = start + nth as usize * ENTRIES;
            region.map.give_back(p, from, (from + ENTRIES).min(end))
        }
    }
}

/// Takes a large block that is clean for so long and not released out of the buddy: its
/// index and order, since when it is clean, and the slices made for it.
fn take_unreleased<P: Platform>(heap: &PageHeap<P>, age_ms: u32) -> Option<(u32, usize, u32, u32)> {
    let (region, now) = (&heap.region, heap.platform.now_ms() as u32);
    let made = |index| region.descriptor(index).granules.load(Ordering::Relaxed);
    let since = |index| region.descriptor(index).time.load(Ordering::Relaxed);
    let mut lists = heap.buddy.lock(&heap.platform);
    let (index, order) = (SMALLEST_RELEASED..ORDERS).rev().find_map(|order| {
        let wanted = |index| made(index) < slices(order) && is_old(now, since(index), age_ms);
        Some((lists.find_clean(region, order, LOOKS, wanted)?, order))
    })?;
    let (since, done) = (since(index), made(index));
    lists.remove(region, index);
    region.descriptor(index).set(GranuleKind::Purging, order as u32, 0);
    Some((index, order, since, done))
}

/// True if a block of that `time` is so old; false if `time` came after `now` was read.
fn is_old(now: u32, time: u32, age_ms: u32) -> bool {
    let age = now.wrapping_sub(time).cast_signed();
    age >= 0 && age.cast_unsigned() >= age_ms
}

/// Descriptors, and entries of the page map, of one slice.
const DESCRIPTORS: usize = MOST_BYTES / size_of::<Descriptor>();
const ENTRIES: usize = MOST_BYTES / size_of::<AtomicU16>();

fn descriptor_slices(order: usize) -> u32 {
    (1usize << order).div_ceil(DESCRIPTORS) as u32
}

/// Slices that release the metadata of a block of an order.
fn slices(order: usize) -> u32 {
    descriptor_slices(order) + (1usize << order).div_ceil(ENTRIES) as u32
}
