//! The buddy of a fixed memory: free blocks of 2^order pages, a list for each order, the block that
//! came last first.
//!
//! Source: K. C. Knowlton, "A fast storage allocator" (CACM 1965); Knuth, The Art of Computer
//! Programming 1, 2.5.
//! Invariants: a listed block is of kind [`Kind::Free`] and aligned, in pages from page 0 on, to
//! its size; of two buddies of one order at most one is free.

use super::{Kind, MOST_ORDER, Pages};
use core::cell::Cell;

const ORDERS: usize = MOST_ORDER as usize + 1;

/// The lists' heads, and how many blocks they have.
pub(super) struct Lists {
    heads: [Cell<u16>; ORDERS],
    blocks: [Cell<u16>; ORDERS],
}

impl Lists {
    pub(super) const fn new() -> Self {
        Lists { heads: [const { Cell::new(0) }; ORDERS], blocks: [const { Cell::new(0) }; ORDERS] }
    }

    /// No block is free.
    pub(super) fn forget(&self) {
        self.heads.iter().chain(&self.blocks).for_each(|word| word.set(0));
    }
}

impl Pages {
    /// Free blocks of each order.
    pub fn free_blocks(&self) -> [u32; ORDERS] {
        self.lists.blocks.each_ref().map(|blocks| blocks.get().into())
    }

    /// Free pages.
    pub fn free_pages(&self) -> u32 {
        self.free_blocks().iter().zip(0..).map(|(blocks, order)| blocks << order).sum()
    }

    /// Takes a block of so many pages; `None` where no free block is as large.
    pub fn take(&self, order: u32) -> Option<u32> {
        let from = (order..=MOST_ORDER).find(|o| self.lists.heads[*o as usize].get() != 0)?;
        let page = u32::from(self.lists.heads[from as usize].get());
        self.unlist(page, from);
        for half in (order..from).rev() {
            self.list(page + (1 << half), half);
        }
        Some(page)
    }

    /// Gives a block back, which joins its free buddies.
    pub fn give(&self, mut page: u32, mut order: u32) {
        // It may become the upper half of a larger block.
        self.entry(page).set(Kind::Inside, 0, 0);
        while order < MOST_ORDER {
            let buddy = page ^ 1 << order;
            // The last block may end where the memory does.
            if buddy + (1 << order) > self.nr() {
                break;
            }
            let entry = self.entry(buddy);
            if entry.kind() != Kind::Free || entry.order() != order {
                break;
            }
            self.unlist(buddy, order);
            page &= !(1 << order);
            order += 1;
        }
        self.list(page, order);
    }

    fn list(&self, page: u32, order: u32) {
        let (head, entry) = (&self.lists.heads[order as usize], self.entry(page));
        entry.set(Kind::Free, order, 0);
        entry.prev.set(0);
        entry.next.set(head.get());
        if head.get() != 0 {
            self.entry(head.get().into()).prev.set(page as u16);
        }
        head.set(page as u16);
        let blocks = &self.lists.blocks[order as usize];
        blocks.set(blocks.get() + 1);
    }

    fn unlist(&self, page: u32, order: u32) {
        let entry = self.entry(page);
        let (prev, next) = (entry.prev.get(), entry.next.get());
        match prev {
            0 => self.lists.heads[order as usize].set(next),
            _ => self.entry(prev.into()).next.set(next),
        }
        if next != 0 {
            self.entry(next.into()).prev.set(prev);
        }
        entry.set(Kind::Inside, 0, 0);
        let blocks = &self.lists.blocks[order as usize];
        blocks.set(blocks.get() - 1);
    }
}
