//! Memory for the allocator's own small tables: caches, sheaves, what a CPU has. Pages are cut into
//! places of 2^n bytes, 16 at least; a page whose places are all free goes back. Larger tables are
//! blocks of pages.
//!
//! Invariant: the pages of a size that have a free place are on its list. A place is free, or its
//! taker's alone: no object lies there.

use super::{Kind, NONE, Pages};
use core::cell::Cell;

const LEAST: u32 = 4;
/// A page has 2^16 bytes at most.
const SIZES: usize = 17 - LEAST as usize;

/// The lists' heads, by size; and pages taken.
pub(super) struct Lists {
    heads: [Cell<u16>; SIZES],
    pages: Cell<u32>,
}

impl Lists {
    pub(super) const fn new() -> Self {
        Lists { heads: [const { Cell::new(0) }; SIZES], pages: Cell::new(0) }
    }

    /// No page has places.
    pub(super) fn forget(&self) {
        self.heads.iter().for_each(|head| head.set(0));
        self.pages.set(0);
    }
}

/// Names a place: its page, and in the low half the offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    /// No place.
    pub const NONE: Place = Place(0);

    /// As a number; 0 is no place's.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The place of a number.
    #[must_use]
    pub const fn of(number: u32) -> Self {
        Place(number)
    }

    fn page(self) -> u32 {
        self.0 >> 16
    }

    fn offset(self) -> u32 {
        self.0 & 0xffff
    }
}

/// The size, as a shift, and how many pages it takes, as an order.
pub(super) fn size_for(bytes: u32, page_shift: u32) -> (u32, u32) {
    let size = bytes.next_power_of_two().ilog2().max(LEAST);
    (size, size.saturating_sub(page_shift))
}

impl Pages {
    /// Pages of tables.
    pub fn meta_pages(&self) -> u32 {
        self.meta.pages.get()
    }

    /// Takes a place for so many bytes, zeroed.
    pub fn take_place(&self, bytes: u32) -> Option<Place> {
        let (size, order) = size_for(bytes, self.page_shift());
        let place = if size >= self.page_shift() {
            let page = self.take_as(Kind::Meta, order, 0)?;
            self.meta.pages.set(self.meta.pages.get() + (1 << order));
            Place(page << 16)
        } else {
            self.take_cut(size)?
        };
        for at in (0..1 << size).step_by(2) {
            self.half(place.page(), place.offset() + at).set(0);
        }
        Some(place)
    }

    fn take_cut(&self, size: u32) -> Option<Place> {
        let head = &self.meta.heads[(size - LEAST) as usize];
        if head.get() == 0 {
            let page = self.take_as(Kind::Meta, 0, 0)?;
            let places = 1u32 << (self.page_shift() - size);
            for nth in 0..places {
                let next = if nth + 1 < places { nth as u16 + 1 } else { NONE };
                self.half(page, nth << size).set(next);
            }
            let entry = self.entry(page);
            entry.free.set(places as u16);
            entry.first.set(0);
            self.list_meta(page, head);
            self.meta.pages.set(self.meta.pages.get() + 1);
        }
        let page = u32::from(head.get());
        let entry = self.entry(page);
        let offset = u32::from(entry.first.get()) << size;
        entry.first.set(self.half(page, offset).get());
        entry.free.set(entry.free.get() - 1);
        if entry.free.get() == 0 {
            self.unlist_meta(page, head);
        }
        Some(Place(page << 16 | offset))
    }

    /// Gives the place for so many bytes back.
    pub fn give_place(&self, place: Place, bytes: u32) {
        let (size, order) = size_for(bytes, self.page_shift());
        let page = place.page();
        if size >= self.page_shift() {
            self.meta.pages.set(self.meta.pages.get() - (1 << order));
            return self.give(page, order);
        }
        let head = &self.meta.heads[(size - LEAST) as usize];
        let entry = self.entry(page);
        self.half(page, place.offset()).set(entry.first.get());
        entry.first.set((place.offset() >> size) as u16);
        if entry.free.get() == 0 {
            self.list_meta(page, head);
        }
        entry.free.set(entry.free.get() + 1);
        if u32::from(entry.free.get()) << size == self.page_bytes() {
            self.unlist_meta(page, head);
            self.meta.pages.set(self.meta.pages.get() - 1);
            self.give(page, 0);
        }
    }

    /// Counts and lists a page of a [repaired](super::repair) table.
    pub(super) fn count_tables(&self, page: u32, shift: u32, pages: u32) {
        self.meta.pages.set(self.meta.pages.get() + pages);
        if shift < self.page_shift() && self.entry(page).free.get() > 0 {
            self.list_meta(page, &self.meta.heads[(shift - LEAST) as usize]);
        }
    }

    fn list_meta(&self, page: u32, head: &Cell<u16>) {
        self.entry(page).prev.set(0);
        self.entry(page).next.set(head.get());
        if head.get() != 0 {
            self.entry(head.get().into()).prev.set(page as u16);
        }
        head.set(page as u16);
    }

    fn unlist_meta(&self, page: u32, head: &Cell<u16>) {
        let (prev, next) = (self.entry(page).prev.get(), self.entry(page).next.get());
        match prev {
            0 => head.set(next),
            _ => self.entry(prev.into()).next.set(next),
        }
        if next != 0 {
            self.entry(next.into()).prev.set(prev);
        }
    }

    /// The words of a place.
    ///
    /// # Panics
    /// If they leave the memory, or the place is none.
    #[inline]
    pub fn words(&self, place: Place, words: u32) -> &[Cell<u32>] {
        let at = self.address_of(place);
        let end = at + words as usize * size_of::<u32>();
        assert!(place != Place::NONE && end <= self.address(self.nr()), "in the memory");
        // SAFETY: in the memory, aligned to 16; a place's words are changed as cells only.
        unsafe { core::slice::from_raw_parts(at as *const Cell<u32>, words as usize) }
    }

    /// The address of a place.
    #[inline]
    pub fn address_of(&self, place: Place) -> usize {
        self.address(place.page()) + place.offset() as usize
    }
}
