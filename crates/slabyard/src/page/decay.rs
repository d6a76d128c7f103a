//! Giving pages back: blocks that stayed free for a while, or all at once.
//!
//! A block is taken out of the buddy while its pages go back, so that the system
//! call is made under no lock.
//!
//! What describes a large free block goes back too: its frames (but the first)
//! and its part of the page map are zeros, as in memory that was never touched.
//! Such a block is *bare*; its first frame's `granules` says so.

use super::Ground;
use super::buddy::ORDERS;
use super::frame::Kind;
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

/// A joined block younger than this goes to the young end of its list.
pub(super) const YOUNG_MS: u32 = 100;

/// Order from which on a free block is made bare: 512 KiB, two pages of frames.
const SMALLEST_BARE: usize = 7;
/// `granules` in the first frame of a bare block.
const BARE: u32 = 1;
/// Blocks of an order looked at for one that is not bare.
const LOOKS: usize = 16;

/// Granules in one call of `give_back`: 512 KiB.
const CHUNK: usize = (512 << 10) / GRANULE;

impl<P: Platform> Ground<P> {
    /// Gives back dirty blocks that were freed at least `age_ms` ago, `most`
    /// granules or a little more. Returns the granules given back.
    pub fn purge(&self, age_ms: u32, most: usize) -> usize {
        let mut done = 0;
        let mut order = ORDERS;
        while order > 0 && done < most {
            order -= 1;
            while done < most {
                let Some((index, dirty)) = self.take_old(order, age_ms) else {
                    break;
                };
                self.give_back_block(index, order);
                done += dirty;
                self.put_clean(index, order);
            }
        }
        done
    }

    /// Takes the oldest dirty block of an order out of the buddy, if it is old enough.
    fn take_old(&self, order: usize, age_ms: u32) -> Option<(u32, usize)> {
        let now = self.platform.now_ms() as u32;
        let region = &self.region;
        let mut lists = self.buddy.lists.lock(&self.platform);
        let index = lists.oldest_of(order)?;
        let time = region.frame(index).time.load(Ordering::Relaxed);
        if now.wrapping_sub(time) < age_ms {
            return None;
        }
        lists.remove(region, index);
        region.frame(index).set(Kind::Purging, order as u32, 0);
        let dirty = region.dirty_in(index as usize, 1 << order);
        lists.dirty_granules -= dirty;
        self.set_dirty_hint(lists.dirty_granules);
        Some((index, dirty))
    }

    /// Gives the dirty granules of a block back, stretch by stretch.
    fn give_back_block(&self, index: u32, order: usize) {
        let region = &self.region;
        let (mut at, end) = (index as usize, index as usize + (1 << order));
        while at < end {
            if region.dirty_in(at, 1) == 0 {
                at += 1;
                continue;
            }
            let mut n = 1;
            while at + n < end && n < CHUNK && region.dirty_in(at + n, 1) == 1 {
                n += 1;
            }
            self.platform.give_back(region.address(at as u32), n * GRANULE);
            region.set_dirty(at, n, false);
            at += n;
        }
    }

    fn put_clean(&self, index: u32, order: usize) {
        let now = self.platform.now_ms() as u32;
        let start = index as usize;
        let mut lists = self.buddy.lists.lock(&self.platform);
        self.region.frame(index).set(Kind::None, 0, 0);
        lists.free_range(&self.region, start, start + (1 << order), false, now);
    }

    /// Gives back what describes large clean blocks, of some that are not bare
    /// yet. Returns true if there were any.
    pub fn strip(&self) -> bool {
        let mut stripped = false;
        for order in (SMALLEST_BARE..ORDERS).rev() {
            while let Some(index) = self.take_unstripped(order) {
                self.region.give_back_tables(&self.platform, index, order as u32);
                self.put_bare(index, order);
                stripped = true;
            }
        }
        stripped
    }

    fn take_unstripped(&self, order: usize) -> Option<u32> {
        let region = &self.region;
        let mut lists = self.buddy.lists.lock(&self.platform);
        let index = lists.find_clean(region, order, LOOKS, |index| {
            region.frame(index).granules.load(Ordering::Relaxed) != BARE
        })?;
        lists.remove(region, index);
        region.frame(index).set(Kind::Purging, order as u32, 0);
        Some(index)
    }

    fn put_bare(&self, index: u32, order: usize) {
        self.put_clean(index, order);
        let _lists = self.buddy.lists.lock(&self.platform);
        let frame = self.region.frame(index);
        // Joined with its buddy it is not bare: the buddy's first frame is there.
        if frame.kind() == Kind::Free && frame.order() == order as u32 {
            frame.granules.store(BARE, Ordering::Relaxed);
        }
    }
}
