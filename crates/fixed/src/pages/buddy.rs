//! The buddy allocator of fixed memory: free blocks of 2^order pages, on one list per order, most
//! recently freed block first.
//!
//! Sources: K. C. Knowlton, "A fast storage allocator" (CACM 1965); Knuth, The Art of Computer
//! Programming 1, 2.5. Neighbours: [`super::table`] has the pages' entries, [`super::meta`] cuts
//! blocks from here into pieces. Invariants: a listed block is of kind [`PageKind::Free`] and
//! aligned to its size, counted in pages from page 0; of two buddies of one order at most one is
//! free.

use super::entry::{ENTRY_BYTES, Entry, MOST_ORDER, PageKind};
use super::table::{Table, TooSmall};
use core::cell::Cell;
use core::ops::Range;

const ORDERS: usize = MOST_ORDER as usize + 1;

/// The table of pages, and the free blocks of them.
pub struct PageBuddy {
    /// What is known of each page.
    pub table: Table,
    /// Pages that can be handed out.
    managed: Cell<u32>,
    /// The lists' heads, and how many blocks they have.
    heads: [Cell<u16>; ORDERS],
    blocks: [Cell<u16>; ORDERS],
}

impl PageBuddy {
    /// No memory yet; pages of 2^shift bytes.
    pub(super) const fn new(shift: u32) -> Self {
        PageBuddy {
            table: Table::new(shift),
            managed: Cell::new(0),
            heads: [const { Cell::new(0) }; ORDERS],
            blocks: [const { Cell::new(0) }; ORDERS],
        }
    }

    /// Takes memory over, once.
    ///
    /// # Errors
    /// [`TooSmall`] if there is no room, or the buddy has a memory already.
    ///
    /// # Safety
    /// The bytes are readable and writable for ever, and nobody else uses them.
    pub unsafe fn init(&self, at: usize, bytes: usize) -> Result<(), TooSmall> {
        let (first, nr) = self.table.layout(at, bytes)?;
        // SAFETY: the caller's promise; `layout` found the place.
        unsafe { self.table.begin(at, nr) };
        self.add(first, nr);
        Ok(())
    }

    /// As [`PageBuddy::init`], of memory with holes, which begin and end at these addresses. A page that
    /// a hole reaches into is never handed out.
    ///
    /// # Errors
    /// [`TooSmall`], also if the holes are in no ascending order, or where the entries must be.
    ///
    /// # Safety
    /// As there, of the bytes outside of the holes.
    pub unsafe fn init_around(
        &self,
        at: usize,
        bytes: usize,
        holes: &[Range<usize>],
    ) -> Result<(), TooSmall> {
        let (first, nr) = self.table.layout(at, bytes)?;
        let shift = self.table.page_shift();
        let begin = at.next_multiple_of(align_of::<Entry>());
        let base = begin & !((1 << shift) - 1);
        // The pages up to a hole, and the first one behind it.
        let around = |hole: &Range<usize>| {
            let [from, to] = [hole.start, hole.end].map(|edge| edge.saturating_sub(base));
            let to = to.div_ceil(1 << shift).min(nr as usize) as u32;
            ((from >> shift).min(nr as usize) as u32, to)
        };
        let (mut behind, mut page, mut usable) = (begin + nr as usize * ENTRY_BYTES, first, 0);
        for hole in holes {
            if hole.start < behind || hole.is_empty() {
                return Err(TooSmall);
            }
            let (from, to) = around(hole);
            usable += from.saturating_sub(page);
            (behind, page) = (hole.end, page.max(to));
        }
        if usable + nr.saturating_sub(page) == 0 {
            return Err(TooSmall);
        }
        // SAFETY: the caller's promise; the entries lie in front of all holes.
        unsafe { self.table.begin(at, nr) };
        page = first;
        for hole in holes {
            let (from, to) = around(hole);
            if from > page {
                self.add(page, from);
            }
            page = page.max(to);
        }
        self.add(page, nr);
        Ok(())
    }

    /// Gives the pages of a range to their lists: those that nobody else must have.
    fn add(&self, first: u32, end: u32) {
        let mut at = end;
        while at > first {
            let fits = (at - first).ilog2();
            let order = at.trailing_zeros().min(fits).min(MOST_ORDER);
            at -= 1 << order;
            self.give(at, order);
        }
        self.managed.set(self.managed.get() + end - first);
    }

    /// Pages that can be handed out.
    pub fn managed(&self) -> u32 {
        self.managed.get()
    }

    /// No block is free.
    pub(super) fn forget(&self) {
        self.heads.iter().chain(&self.blocks).for_each(|word| word.set(0));
    }

    /// Free blocks of each order.
    pub fn blocks(&self) -> [u32; ORDERS] {
        self.blocks.each_ref().map(|blocks| blocks.get().into())
    }

    /// Free pages.
    pub fn pages(&self) -> u32 {
        self.blocks().iter().zip(0..).map(|(blocks, order)| blocks << order).sum()
    }

    /// Takes a block of this order; `None` where no free block is as large.
    pub fn take(&self, order: u32) -> Option<u32> {
        let from = (order..=MOST_ORDER).find(|o| self.heads[*o as usize].get() != 0)?;
        let page = u32::from(self.heads[from as usize].get());
        self.unlist(page, from);
        for half in (order..from).rev() {
            self.list(page + (1 << half), half);
        }
        Some(page)
    }

    /// Takes a block in use: its first page has a kind, and the others know it.
    pub fn take_as(&self, kind: PageKind, order: u32, cache: u8) -> Option<u32> {
        let page = self.take(order)?;
        self.table.entry(page).set(kind, order, cache);
        for inside in page + 1..page + (1 << order) {
            self.table.entry(inside).set(PageKind::Inside, 0, cache);
            self.table.entry(inside).first.set(page as u16);
        }
        Some(page)
    }

    /// Gives a block back, which joins its free buddies.
    pub fn give(&self, mut page: u32, mut order: u32) {
        // It may become the upper half of a larger block.
        self.table.entry(page).set(PageKind::Inside, 0, 0);
        while order < MOST_ORDER {
            let buddy = page ^ 1 << order;
            // The last block may end where the memory does.
            if buddy + (1 << order) > self.table.nr() {
                break;
            }
            let entry = self.table.entry(buddy);
            if entry.kind() != PageKind::Free || entry.order() != order {
                break;
            }
            self.unlist(buddy, order);
            page &= !(1 << order);
            order += 1;
        }
        self.list(page, order);
    }

    fn list(&self, page: u32, order: u32) {
        let (head, entry) = (&self.heads[order as usize], self.table.entry(page));
        entry.set(PageKind::Free, order, 0);
        entry.prev.set(0);
        entry.next.set(head.get());
        if head.get() != 0 {
            self.table.entry(head.get().into()).prev.set(page as u16);
        }
        head.set(page as u16);
        let blocks = &self.blocks[order as usize];
        blocks.set(blocks.get() + 1);
    }

    fn unlist(&self, page: u32, order: u32) {
        let entry = self.table.entry(page);
        let (prev, next) = (entry.prev.get(), entry.next.get());
        match prev {
            0 => self.heads[order as usize].set(next),
            _ => self.table.entry(prev.into()).next.set(next),
        }
        if next != 0 {
            self.table.entry(next.into()).prev.set(prev);
        }
        entry.set(PageKind::Inside, 0, 0);
        let blocks = &self.blocks[order as usize];
        blocks.set(blocks.get() - 1);
    }
}
