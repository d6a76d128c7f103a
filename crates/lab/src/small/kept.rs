//! The per-CPU page lists in front of a zone's free blocks, by order and type: pages are taken from
//! the heads, and returned to the zone from the tails.
//!
//! Linux 6.1 has fixed limits; while no page is allocated, each return to the zone is twice as
//! large as the one before. Since 6.7 the limit adapts between a minimum and a maximum: each refill
//! raises it, and refills of order 0 double in size while there is no free between them. At the
//! limit a free returns about as many pages as were freed in a row; below the limit it returns
//! none. But the second free in a row of a block above order 0, after at least a batch of frees,
//! returns up to 32 batches. [`AdaptiveLimits`] has the details. (Source: `mm/page_alloc.c` of both
//! releases; the boots of `tests/small_told.rs` check the model.)
//!
//! [`super::zone`] refills the lists, and frees the pages that they return. Invariant: `pages` is
//! the number of pages on the lists.

use super::mobility::{AdaptiveLimits, TYPES, Type};
use slabyard_kernels::page_lists::Zone;
use std::collections::VecDeque;

/// Blocks of up to this order are kept on CPUs.
pub const MOST_KEPT: u8 = 3;

const KEPT_ORDERS: usize = MOST_KEPT as usize + 1;

/// Most doublings of a batch.
const MOST_DOUBLINGS: u32 = 5;

/// Limits of the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// At and above this number of pages, some are returned; 0: each at once.
    pub high: u32,
    /// Where that adapts, what it may rise to.
    pub most: u32,
    /// How many go back at least, and come at once.
    pub batch: u32,
}

impl Limits {
    /// Those of a machine whose pages are one zone with this many pages: a CPU keeps its share of
    /// the low watermark, or four batches. A batch is a quarter of a thousandth of the pages, of 1
    /// MiB at most, and half as many again, rounded down to one less than a power of two (6.1).
    #[must_use]
    pub fn of(pages: u32, page_size: u32, cpus: u32) -> Limits {
        let bytes = u64::from(pages) * u64::from(page_size);
        let zone = Zone::of(bytes, page_size.into(), cpus.into());
        let quarter = ((pages >> 10).min((1 << 20) / page_size) / 4).max(1);
        let batch = ((1u32 << (quarter + quarter / 2).ilog2()) - 1).max(1);
        let high = (zone.low_pages / zone.cpus).max(4 * u64::from(batch)) as u32;
        Limits { high, most: high, batch }
    }
}

/// A block that returns to the zone: its first page, its order, the type of its list.
pub(super) type Back = (u32, u8, Type);

/// The lists.
pub(super) struct KeptPages {
    adapts: AdaptiveLimits,
    limits: Limits,
    lists: [[VecDeque<u32>; TYPES]; KEPT_ORDERS],
    pages: u32,
    /// Of limits that adapt: the one in force.
    high: u32,
    /// Doublings of the number of pages returned (fixed limits), or refilled (adaptive limits).
    doublings: u32,
    /// Pages freed in a row, halved by each allocation.
    in_a_row: u32,
    /// What was freed last was of an order above 0.
    was_high: bool,
}

impl KeptPages {
    pub(super) fn new(adapts: AdaptiveLimits) -> KeptPages {
        KeptPages {
            adapts,
            limits: Limits { high: 0, most: 0, batch: 1 },
            lists: Default::default(),
            pages: 0,
            high: 0,
            doublings: 0,
            in_a_row: 0,
            was_high: false,
        }
    }

    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    pub(super) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// An allocation begins.
    pub(super) fn asked(&mut self) {
        match self.adapts {
            AdaptiveLimits::Never => self.doublings >>= 1,
            AdaptiveLimits::Always => self.in_a_row >>= 1,
        }
    }

    pub(super) fn pop(&mut self, order: u8, of: Type) -> Option<u32> {
        let at = self.lists[usize::from(order)][of as usize].pop_front()?;
        self.pages -= 1 << order;
        Some(at)
    }

    /// Behind those that came at once.
    pub(super) fn refill(&mut self, at: u32, order: u8, of: Type) {
        self.lists[usize::from(order)][of as usize].push_back(at);
        self.pages += 1 << order;
    }

    /// How many blocks an empty list is refilled with.
    pub(super) fn wanted(&mut self, order: u8) -> u32 {
        let blocks = match self.adapts {
            AdaptiveLimits::Never => self.limits.batch,
            AdaptiveLimits::Always => match self.adapted(order) {
                Some(blocks) => blocks,
                None => return 1,
            },
        };
        if blocks > 1 { (blocks >> order).max(2) } else { 1 }
    }

    fn adapted(&mut self, order: u8) -> Option<u32> {
        let Limits { high: least, most, batch } = self.limits;
        self.high = self.high.clamp(least, most);
        if self.high < batch {
            return None;
        }
        let doublings = if order == 0 { self.doublings } else { 0 };
        let mut blocks = batch << doublings;
        if least != most {
            self.high = (self.high + blocks).min(most);
        }
        if order == 0 {
            let room = self.high.saturating_sub(self.pages + batch).max(batch);
            if blocks <= room && self.doublings < MOST_DOUBLINGS {
                self.doublings += 1;
            }
            blocks = blocks.min(room);
        }
        Some(blocks)
    }

    /// Adds what was freed; returns the blocks that go back to the zone in consequence.
    pub(super) fn put(&mut self, at: u32, order: u8, of: Type) -> Vec<Back> {
        self.lists[usize::from(order)][of as usize].push_front(at);
        self.pages += 1 << order;
        let count = match self.adapts {
            AdaptiveLimits::Never => self.too_many(order),
            AdaptiveLimits::Always => self.too_many_now(order),
        };
        self.back(count, usize::from(order) * TYPES + of as usize)
    }

    fn too_many(&mut self, order: u8) -> u32 {
        let Limits { high, batch, .. } = self.limits;
        if self.doublings > 0 && order > 0 {
            return self.pages;
        }
        if self.pages < high {
            return 0;
        }
        if high < batch {
            return 1;
        }
        let most = high - batch;
        let count = batch << self.doublings;
        if count < most && self.doublings < MOST_DOUBLINGS {
            self.doublings += 1;
        }
        count.max(batch).min(most)
    }

    fn too_many_now(&mut self, order: u8) -> u32 {
        let Limits { high: least, most, batch } = self.limits;
        let many = batch << MOST_DOUBLINGS;
        self.doublings >>= 1;
        let all = order > 0 && self.was_high && self.in_a_row >= batch && self.pages >= batch;
        self.was_high = order > 0;
        if self.in_a_row < many {
            self.in_a_row += 1 << order;
        }
        self.high = self.high.clamp(least, most);
        if self.high > 0 && all {
            self.high = self.high.saturating_sub(many).max(least);
            return self.pages.min(many);
        }
        let high = self.high;
        if self.pages < high {
            return 0;
        }
        if high > 0 {
            self.high = high.max((self.in_a_row + batch).clamp(least, most));
        }
        if all {
            return self.pages.min(many);
        }
        if high < batch {
            return 1;
        }
        self.in_a_row.max(batch).min(high - batch)
    }

    /// So many pages, from a list's tail first, then from the next lists'.
    pub(super) fn back(&mut self, count: u32, first: usize) -> Vec<Back> {
        let (mut left, mut nth) = (i64::from(count.min(self.pages)), first);
        let mut back = Vec::new();
        while left > 0 {
            let (order, of) = (nth / TYPES, nth % TYPES);
            while left > 0
                && let Some(at) = self.lists[order][of].pop_back()
            {
                left -= 1 << order;
                self.pages -= 1 << order;
                back.push((at, order as u8, Type::ALL[of]));
            }
            nth = (nth + 1) % (KEPT_ORDERS * TYPES);
        }
        back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { high: 4, most: 100, batch: 1 };

    fn kept() -> KeptPages {
        let mut kept = KeptPages::new(AdaptiveLimits::Always);
        kept.limit(LIMITS);
        kept
    }

    /// A guest of 16 MiB whose kernel had 1721 pages to give when it set its watermarks reported
    /// 102 and 1 (`small_slub-o3.state.zst`); a large machine's batch is 63.
    #[test]
    fn limits_follow_from_the_pages() {
        assert_eq!(Limits::of(1721, 4096, 1), Limits { high: 102, most: 102, batch: 1 });
        assert_eq!(Limits::of(2500, 4096, 64).high, 4);
        assert_eq!(Limits::of(4 << 20, 4096, 8).batch, 63);
    }

    #[test]
    fn refills_double_until_a_free_and_raise_the_limit() {
        let mut kept = kept();
        let refills: Vec<u32> = (0..5).map(|_| kept.wanted(0)).collect();
        assert_eq!(refills, [1, 2, 4, 8, 16]);
        assert_eq!(kept.high, 4 + 1 + 2 + 4 + 8 + 16);
        assert!(kept.put(7, 0, Type::Unmovable).is_empty());
        assert_eq!(kept.wanted(0), 4, "five doublings, halved");
        assert_eq!(kept.wanted(1), 1, "of order 0 alone");
    }

    #[test]
    fn as_many_go_back_as_were_freed_in_a_row() {
        let mut kept = kept();
        let back: Vec<usize> = (0..8).map(|at| kept.put(at, 0, Type::Unmovable).len()).collect();
        // The limit rises to what is freed in a row and a batch.
        assert_eq!(back, [0, 0, 0, 3, 0, 0, 0, 4]);
        assert_eq!((kept.pages(), kept.high), (1, 9));
    }

    #[test]
    fn two_large_blocks_in_a_row_take_others_along() {
        let mut kept = kept();
        kept.limit(Limits { high: 50, ..LIMITS });
        for at in 0..10 {
            assert!(kept.put(at, 0, Type::Unmovable).is_empty());
        }
        assert!(kept.put(16, 1, Type::Unmovable).is_empty());
        let back = kept.put(18, 1, Type::Unmovable);
        assert_eq!((back[0], back.len()), ((16, 1, Type::Unmovable), 12));
        assert_eq!(kept.pages(), 0);
    }
}
