//! Free blocks of pages as a kernel keeps them: one list per order, most recently freed block
//! first.
//!
//! The buddy system is from Knowlton, "A Fast Storage Allocator" (CACM 8:10, 1965). A block is
//! taken from the head of the list of the lowest sufficient order that has one. If the block is too
//! large, it is split, and its lower half is split further. `super::memory` allocates its blocks
//! here. Invariants: two free buddies of one order are always coalesced; a page is in at most one
//! free block.

/// The highest order of a block.
pub const MOST_ORDER: u8 = 10;

/// Not the first page of a free block.
const NOT_FREE: u8 = u8::MAX;

/// A block: its first page, and its order.
pub type Block = (u32, u8);

/// Free blocks.
#[derive(Clone, Debug)]
pub struct Buddy {
    /// By order; entries of blocks that were taken meanwhile stay until they are met.
    lists: [Vec<(u32, u32)>; MOST_ORDER as usize + 1],
    /// Of each page, the order of the free block that it begins; and how often that changed.
    heads: Vec<(u8, u32)>,
    counts: [u32; MOST_ORDER as usize + 1],
    free_pages: u32,
}

impl Buddy {
    /// A machine of so many pages, all free, freed in descending order: the lowest are taken first.
    #[must_use]
    pub fn new(pages: u32) -> Buddy {
        let mut buddy = Buddy {
            lists: Default::default(),
            heads: vec![(NOT_FREE, 0); pages as usize],
            counts: [0; MOST_ORDER as usize + 1],
            free_pages: 0,
        };
        let mut end = pages;
        while end > 0 {
            // The largest aligned block that ends there.
            let order = (end.trailing_zeros() as u8).min(MOST_ORDER);
            end -= 1 << order;
            buddy.put((end, order));
        }
        buddy
    }

    /// Sum over all orders.
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        self.free_pages
    }

    /// Free blocks of each order.
    #[must_use]
    pub fn counts(&self) -> [u32; MOST_ORDER as usize + 1] {
        self.counts
    }

    /// Takes a block of an order; `None` if no block is as large.
    pub fn take(&mut self, order: u8) -> Option<Block> {
        let from = (order..=MOST_ORDER).find(|order| self.counts[*order as usize] > 0)?;
        let at = loop {
            let (at, stamp) = self.lists[from as usize].pop()?;
            if self.heads[at as usize] == (from, stamp) {
                break at;
            }
        };
        self.mark(at, NOT_FREE);
        self.counts[from as usize] -= 1;
        for half in (order..from).rev() {
            self.list(at + (1 << half), half);
        }
        self.free_pages -= 1 << order;
        Some((at, order))
    }

    /// Gives a block back: it is joined with its buddy as long as that is free.
    pub fn put(&mut self, (mut at, mut order): Block) {
        self.free_pages += 1 << order;
        while order < MOST_ORDER {
            let buddy = at ^ (1 << order);
            match self.heads.get(buddy as usize) {
                Some((of, _)) if *of == order => {}
                _ => break,
            }
            self.mark(buddy, NOT_FREE);
            self.counts[order as usize] -= 1;
            at &= !(1 << order);
            order += 1;
        }
        self.list(at, order);
    }

    fn list(&mut self, at: u32, order: u8) {
        let stamp = self.mark(at, order);
        self.lists[order as usize].push((at, stamp));
        self.counts[order as usize] += 1;
    }

    fn mark(&mut self, at: u32, order: u8) -> u32 {
        let head = &mut self.heads[at as usize];
        *head = (order, head.1.wrapping_add(1));
        head.1
    }

    /// As `/proc/buddyinfo` has it, without the zone's name.
    #[must_use]
    pub fn line(counts: &[u32; MOST_ORDER as usize + 1]) -> String {
        counts.iter().map(|n| format!("{n:>6} ")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_split_and_join() {
        let mut buddy = Buddy::new(1027);
        assert_eq!((buddy.free_pages(), buddy.counts[10], buddy.counts[1]), (1027, 1, 1));
        let odd = buddy.take(0).unwrap();
        assert_eq!(odd, (1026, 0), "the smallest that fits");
        let taken: Vec<Block> = (0..4).map(|_| buddy.take(3).unwrap()).collect();
        assert_eq!(taken, [(0, 3), (8, 3), (16, 3), (24, 3)]);
        buddy.put(taken[2]);
        buddy.put(taken[0]);
        assert_eq!(buddy.take(3), Some((0, 3)), "the one freed last");
        [(0, 3), taken[1], taken[3], odd].into_iter().for_each(|block| buddy.put(block));
        assert_eq!((buddy.free_pages(), buddy.counts[10], buddy.counts[3]), (1027, 1, 0));
        assert_eq!(Buddy::line(&buddy.counts).split_whitespace().count(), 11);
    }

    #[test]
    fn pages_are_neither_lost_nor_doubled() {
        let mut buddy = Buddy::new(777);
        let mut taken: Vec<Block> = Vec::new();
        let mut seed = 1u32;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let order = (seed >> 24) as u8 % 6;
            if seed >> 31 == 0
                && let Some(block) = buddy.take(order)
            {
                taken.push(block);
            } else if !taken.is_empty() {
                buddy.put(taken.swap_remove((seed >> 8) as usize % taken.len()));
            }
            let held: u32 = taken.iter().map(|(_, order)| 1 << order).sum();
            assert_eq!(held + buddy.free_pages(), 777);
        }
        let mut pages = vec![false; 777];
        for (at, order) in &taken {
            for page in *at..*at + (1 << order) {
                assert!(!std::mem::replace(&mut pages[page as usize], true), "page {page} twice");
            }
        }
    }
}
