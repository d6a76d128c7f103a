//! Giving pages back: blocks that stayed free for a while, or all at once.
//!
//! A block is taken out of the buddy while its pages go back, so that the system
//! call is made under no lock.

use super::Ground;
use super::buddy::ORDERS;
use super::frame::Kind;
use crate::platform::{GRANULE, Platform};
use crate::sync::Ordering;

/// A joined block younger than this goes to the young end of its list.
pub(super) const YOUNG_MS: u32 = 100;

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

    /// True if a free block is dirty.
    pub fn has_dirty(&self) -> bool {
        self.buddy.lists.lock(&self.platform).oldest_dirty(0).is_some()
    }

    /// Age in milliseconds of the oldest dirty block, for tests.
    pub fn oldest_dirty_ms(&self) -> Option<u32> {
        let now = self.platform.now_ms() as u32;
        let lists = self.buddy.lists.lock(&self.platform);
        let index = lists.oldest_dirty(0)?;
        Some(now.wrapping_sub(self.region.frame(index).time.load(Ordering::Relaxed)))
    }
}
