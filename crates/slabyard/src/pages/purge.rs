//! Giving pages back: those of blocks that stayed free for a while, or all at once.
//!
//! It goes in steps of one system call, of at most [`MOST_BYTES`], or of as much as
//! somebody asked for. What the call is about is out of the buddy meanwhile, so that it
//! is made under no lock; the rest of its block stays there.
//!
//! What describes a large free block goes back too: its descriptors (but the first)
//! and its part of the page map are zeros, as in memory that was never touched.
//! The first descriptor's `granules` counts the steps that were made for it; a block with
//! all of them is *bare*. In a small heap this waits: its descriptors are little memory, and
//! who asks for the block again would fault their pages in one by one.

use super::PageHeap;
use super::blocks::ORDERS;
use super::descriptor::{Descriptor, Kind};
use super::huge::{HUGE, HUGE_ORDER};
use crate::platform::{GRANULE, Platform, Stretch};
use crate::sync::{AtomicU16, Ordering};

/// A joined block younger than this goes to the young end of its list.
pub(super) const YOUNG_MS: u32 = 100;

/// Most bytes of one call of `give_back`.
pub const MOST_BYTES: usize = 512 << 10;
/// Most granules of a call that is in proportion to what somebody asked for.
const MOST_AT_ONCE: usize = (64 << 20) / GRANULE;
/// Most parts of blocks in one call: what a burst leaves free lies in pieces.
const PARTS: usize = 64;

/// Order from which on a free block is made bare: 512 KiB, two pages of descriptors.
const SMALLEST_RELEASED: usize = 7;
/// In a heap of up to so many granules, 256 MiB with 4 MiB of descriptors, a block is clean for
/// so long before it is made bare.
const SMALL_HEAP: usize = (256 << 20) / GRANULE;
const RELEASE_MS: u32 = 1000;
/// Blocks of an order looked at for one that is not bare.
const LOOKS: usize = 16;

/// A part of a free block, out of the buddy.
#[derive(Clone, Copy)]
struct Part {
    index: u32,
    order: usize,
    /// Its granules from the first dirty one to the last; whole huge pages if it is large.
    first: usize,
    granules: usize,
    /// The dirty ones among them.
    dirty: usize,
    /// The block lies beside others in the place of a huge page.
    beside_others: bool,
}

impl Part {
    const NONE: Part =
        Part { index: 0, order: 0, first: 0, granules: 0, dirty: 0, beside_others: false };
}

impl<P: Platform> PageHeap<P> {
    /// Gives back dirty blocks that were freed at least `age_ms` ago, because somebody
    /// asked for it: `most` granules, or up to two huge pages more, clean ones between
    /// them among them. Large blocks go in whole huge pages, which are not split then; their
    /// page tables go too (since Linux 6.14), so that there are huge pages again. Returns
    /// the granules given back.
    pub fn purge(&self, age_ms: u32, most: usize) -> usize {
        // Read once: what is refused is younger, and is tried once.
        let now = self.platform.now_ms() as u32;
        let (mut done, mut left) = (0, (most.div_ceil(HUGE) + 1).saturating_mul(HUGE));
        while done < most
            && let Some((went, spent)) = self.purge_parts(now, age_ms, left.min(MOST_AT_ONCE))
        {
            done += went;
            left -= spent;
        }
        done
    }

    /// Gives back parts of the largest dirty blocks that were freed at least `age_ms`
    /// ago: by one call, of at most [`MOST_BYTES`]. Returns the granules given back;
    /// `None` if there is no such block, or the system refused all that were tried.
    pub fn purge_part(&self, age_ms: u32) -> Option<usize> {
        let now = self.platform.now_ms() as u32;
        let (went, _) = self.purge_parts(now, age_ms, MOST_BYTES / GRANULE)?;
        (went > 0).then_some(went)
    }

    /// By one call of at most so many granules: how many dirty ones went, and of how many
    /// the call was.
    fn purge_parts(&self, now: u32, age_ms: u32, most: usize) -> Option<(usize, usize)> {
        let (mut parts, mut stretches) = ([Part::NONE; PARTS], [Stretch::NONE; PARTS]);
        let (mut n, mut left, mut went) = (0, most, 0);
        while n < PARTS
            && left >= self.granules_for(1)
            && let Some(part) = self.take_old(now, age_ms, left)
        {
            // Clean pages between dirty ones have nothing to lose.
            let address = self.region.address(part.first as u32);
            stretches[n] = Stretch { address, bytes: part.granules * GRANULE };
            left -= part.granules;
            went += part.dirty;
            parts[n] = part;
            n += 1;
        }
        if n == 0 {
            return None;
        }
        self.platform.give_back(&mut stretches[..n]);
        for (part, stretch) in parts[..n].iter().zip(&stretches) {
            if *stretch == Stretch::NONE {
                went -= part.dirty;
                self.put_refused(part, now);
            } else {
                self.region.set_dirty(part.first, part.granules, false);
                self.put_clean(part.index, part.order, now, 0);
                if part.beside_others {
                    self.keep_sparse(part.first);
                }
                self.allow_whole(part.first, part.first + part.granules);
            }
        }
        self.buddy.set_refused(went == 0);
        Some((went, most - left))
    }

    /// Puts a part back that the system did not take: as dirty as it was, and younger than
    /// `now`. It is not joined, so that what lies beside it need not wait with it.
    fn put_refused(&self, part: &Part, now: u32) {
        let region = &self.region;
        let mut lists = self.buddy.lists.lock(&self.platform);
        lists.insert(region, part.index, part.order as u32, true, now.wrapping_add(1), true);
        lists.dirty_granules += part.dirty;
        self.set_dirty_hint(lists.dirty_granules);
    }

    /// Takes the first dirty part of the oldest dirty block, if it is old enough, out
    /// of the buddy: at most so many granules. Larger blocks first.
    fn take_old(&self, now: u32, age_ms: u32, most: usize) -> Option<Part> {
        let region = &self.region;
        let mut lists = self.all_lists();
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
        while 1 << order > most {
            // The half without the part stays free: the lower one is clean.
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
        self.set_dirty_hint(lists.dirty_granules);
        region.descriptor(index as u32).set(Kind::Purging, order as u32, 0);
        let beside_others = found < HUGE_ORDER;
        Some(Part { index: index as u32, order, first, granules, dirty, beside_others })
    }

    /// Puts a block back that is clean since then, for which so many steps of the strip
    /// were made.
    fn put_clean(&self, index: u32, order: usize, since: u32, made: u32) {
        let start = index as usize;
        let descriptor = self.region.descriptor(index);
        let mut lists = self.buddy.lists.lock(&self.platform);
        descriptor.set(Kind::None, 0, 0);
        lists.free_range(&self.region, start, start + (1 << order), false, since);
        // Joined with its buddy it begins anew: the buddy's first descriptor is there.
        if descriptor.kind() == Kind::Free && descriptor.order() == order as u32 {
            descriptor.granules.store(made, Ordering::Relaxed);
        }
    }

    /// Gives back what describes large clean blocks, of some that are not bare
    /// yet. Returns true if there were any.
    pub fn release_metadata(&self) -> bool {
        let mut released = false;
        while self.release_part_of(0) {
            released = true;
        }
        released
    }

    /// Gives back a part of what describes a large clean block: by one call, of at most
    /// [`MOST_BYTES`]. False if all of them are bare, or are to wait.
    pub fn release_metadata_part(&self) -> bool {
        self.release_part_of(if self.region.top() <= SMALL_HEAP { RELEASE_MS } else { 0 })
    }

    /// Of a block that is clean for so long.
    fn release_part_of(&self, age_ms: u32) -> bool {
        let Some((index, order, since, mut made)) = self.take_unreleased(age_ms) else {
            return false;
        };
        while made < steps(order) {
            made += 1;
            if self.release_step(index as usize, order, made - 1) {
                break;
            }
        }
        self.put_clean(index, order, since, made);
        true
    }

    /// One of [`steps`]; false if there was no whole page to give back.
    fn release_step(&self, start: usize, order: usize, step: u32) -> bool {
        let (region, p, end) = (&self.region, &self.platform, start + (1 << order));
        match step.checked_sub(descriptor_slices(order)) {
            None => {
                let from = start + step as usize * DESCRIPTORS;
                // The first descriptor tells of the block.
                region.give_back_descriptors(p, from.max(start + 1), (from + DESCRIPTORS).min(end))
            }
            Some(step) => {
                let from = start + step as usize * ENTRIES;
                region.give_back_map(p, from, (from + ENTRIES).min(end))
            }
        }
    }

    /// A large block that is clean for so long and not bare: its order, since when, and the
    /// steps made for it.
    fn take_unreleased(&self, age_ms: u32) -> Option<(u32, usize, u32, u32)> {
        let (region, now) = (&self.region, self.platform.now_ms() as u32);
        let made = |index| region.descriptor(index).granules.load(Ordering::Relaxed);
        let since = |index| region.descriptor(index).time.load(Ordering::Relaxed);
        let mut lists = self.buddy.lists.lock(&self.platform);
        let (index, order) = (SMALLEST_RELEASED..ORDERS).rev().find_map(|order| {
            let wanted = |index| made(index) < steps(order) && is_old(now, since(index), age_ms);
            Some((lists.find_clean(region, order, LOOKS, wanted)?, order))
        })?;
        let (since, done) = (since(index), made(index));
        lists.remove(region, index);
        region.descriptor(index).set(Kind::Purging, order as u32, 0);
        Some((index, order, since, done))
    }
}

/// True for a block of that `time`; not if that came after `now` was read.
fn is_old(now: u32, time: u32, age_ms: u32) -> bool {
    let age = now.wrapping_sub(time).cast_signed();
    age >= 0 && age.cast_unsigned() >= age_ms
}

/// Descriptors, and entries of the page map, of one step.
const DESCRIPTORS: usize = MOST_BYTES / size_of::<Descriptor>();
const ENTRIES: usize = MOST_BYTES / size_of::<AtomicU16>();

fn descriptor_slices(order: usize) -> u32 {
    (1usize << order).div_ceil(DESCRIPTORS) as u32
}

/// Steps that make a block of an order bare.
fn steps(order: usize) -> u32 {
    descriptor_slices(order) + (1usize << order).div_ceil(ENTRIES) as u32
}
