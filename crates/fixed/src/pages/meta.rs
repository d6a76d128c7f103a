//! Memory for the allocator's own small tables: caches, sheaves, per-CPU state. Pages are cut into
//! pieces of 2^n bytes, at least 16; a page whose pieces are all free returns to the buddy. Larger
//! tables are blocks of pages.
//!
//! Neighbours: [`super::buddy`] supplies the pages; [`MetaRef`] refers to a piece. Invariant: the
//! pages that have a free piece of a size are on that size's list. A piece is free, or belongs to
//! one table: it never contains an object.

use super::buddy::PageBuddy;
use super::entry::{NONE, PageKind};
use super::table::{MetaRef, Table};
use core::cell::Cell;

const LEAST: u32 = 4;
/// A page has 2^16 bytes at most.
const SIZES: usize = 17 - LEAST as usize;

/// The size, as a shift, and how many pages it takes, as an order.
pub(super) fn size_for(bytes: u32, page_shift: u32) -> (u32, u32) {
    let size = bytes.next_power_of_two().ilog2().max(LEAST);
    (size, size.saturating_sub(page_shift))
}

/// All pages, and those that are cut.
pub struct Pages {
    /// The free blocks.
    pub buddy: PageBuddy,
    /// The heads of the lists, by size.
    heads: [Cell<u16>; SIZES],
    /// Pages taken.
    pages: Cell<u32>,
}

impl Pages {
    /// No memory yet; pages of 2^shift bytes.
    pub const fn new(shift: u32) -> Self {
        Pages {
            buddy: PageBuddy::new(shift),
            heads: [const { Cell::new(0) }; SIZES],
            pages: Cell::new(0),
        }
    }

    /// What is known of each page.
    #[inline(always)]
    pub fn table(&self) -> &Table {
        &self.buddy.table
    }

    /// No page has places.
    pub(super) fn forget_tables(&self) {
        self.heads.iter().for_each(|head| head.set(0));
        self.pages.set(0);
    }

    /// Pages of tables.
    pub fn meta_pages(&self) -> u32 {
        self.pages.get()
    }

    /// Takes a piece of this many bytes, zeroed.
    pub fn take_place(&self, bytes: u32) -> Option<MetaRef> {
        let (size, order) = size_for(bytes, self.table().page_shift());
        let place = if size >= self.table().page_shift() {
            let page = self.buddy.take_as(PageKind::Meta, order, 0)?;
            self.pages.set(self.pages.get() + (1 << order));
            MetaRef::at(page, 0)
        } else {
            self.take_cut(size)?
        };
        for at in (0..1 << size).step_by(2) {
            self.table().half(place.page(), place.offset() + at).set(0);
        }
        Some(place)
    }

    fn take_cut(&self, size: u32) -> Option<MetaRef> {
        let head = &self.heads[(size - LEAST) as usize];
        if head.get() == 0 {
            let page = self.buddy.take_as(PageKind::Meta, 0, 0)?;
            let places = 1u32 << (self.table().page_shift() - size);
            for nth in 0..places {
                let next = if nth + 1 < places { nth as u16 + 1 } else { NONE };
                self.table().half(page, nth << size).set(next);
            }
            let entry = self.table().entry(page);
            entry.free.set(places as u16);
            entry.first.set(0);
            self.list(page, head);
            self.pages.set(self.pages.get() + 1);
        }
        let page = u32::from(head.get());
        let entry = self.table().entry(page);
        let offset = u32::from(entry.first.get()) << size;
        entry.first.set(self.table().half(page, offset).get());
        entry.free.set(entry.free.get() - 1);
        if entry.free.get() == 0 {
            self.unlist(page, head);
        }
        Some(MetaRef::at(page, offset))
    }

    /// Frees the piece of this many bytes.
    pub fn give_place(&self, place: MetaRef, bytes: u32) {
        let (size, order) = size_for(bytes, self.table().page_shift());
        let page = place.page();
        if size >= self.table().page_shift() {
            self.pages.set(self.pages.get() - (1 << order));
            return self.buddy.give(page, order);
        }
        let head = &self.heads[(size - LEAST) as usize];
        let entry = self.table().entry(page);
        self.table().half(page, place.offset()).set(entry.first.get());
        entry.first.set((place.offset() >> size) as u16);
        if entry.free.get() == 0 {
            self.list(page, head);
        }
        entry.free.set(entry.free.get() + 1);
        if u32::from(entry.free.get()) << size == self.table().page_bytes() {
            self.unlist(page, head);
            self.pages.set(self.pages.get() - 1);
            self.buddy.give(page, 0);
        }
    }

    /// Counts and lists a page of a [repaired](super::repair) self.table().
    pub(super) fn count_tables(&self, page: u32, shift: u32, pages: u32) {
        self.pages.set(self.pages.get() + pages);
        if shift < self.table().page_shift() && self.table().entry(page).free.get() > 0 {
            self.list(page, &self.heads[(shift - LEAST) as usize]);
        }
    }

    fn list(&self, page: u32, head: &Cell<u16>) {
        self.table().entry(page).prev.set(0);
        self.table().entry(page).next.set(head.get());
        if head.get() != 0 {
            self.table().entry(head.get().into()).prev.set(page as u16);
        }
        head.set(page as u16);
    }

    fn unlist(&self, page: u32, head: &Cell<u16>) {
        let (prev, next) =
            (self.table().entry(page).prev.get(), self.table().entry(page).next.get());
        match prev {
            0 => head.set(next),
            _ => self.table().entry(prev.into()).next.set(next),
        }
        if next != 0 {
            self.table().entry(next.into()).prev.set(prev);
        }
    }
}
