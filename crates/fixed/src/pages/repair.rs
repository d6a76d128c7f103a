//! Rebuilds the page table and its lists after a call that was cut short: blocks with a live bit
//! stay, and all other pages become free.
//!
//! The page-table heads of blocks in use can be trusted, whatever the interrupted call did. A call
//! writes heads only for pages that it owns, which are free pages or a block whose bit it has
//! cleared; each head that it writes describes only such pages. In blocks with live bits, a call
//! changes at most the list that a slab is on, by one store to the head.
//!
//! Neighbours: [`super::buddy`] and [`super::meta`] own the lists; [`crate::repair`] says which
//! pieces are in use. Invariant: a repair that is cut short is repeated from the start. Therefore a
//! repair does not change its input: heads and bits of blocks in use, and tables of caches.

use super::entry::{NONE, PageKind};
use super::meta::{Pages, size_for};
use super::table::{MetaRef, Table};
use crate::live_map::{GRANULE, LiveMap};
use core::ops::Range;

impl Table {
    /// The bits of this many pages.
    pub fn granules_of(&self, page: u32, pages: u32) -> Range<usize> {
        let bits = 1usize << self.page_shift() >> GRANULE.ilog2();
        let end = (page + pages).min(self.nr());
        page as usize * bits..end as usize * bits
    }

    /// The bit of an offset in a page; `None` if no block begins there.
    #[inline]
    pub fn granule_at(&self, page: u32, offset: u32) -> Option<usize> {
        let bits = self.page_shift() - GRANULE.ilog2();
        offset
            .is_multiple_of(GRANULE as u32)
            .then(|| ((page as usize) << bits) + offset as usize / GRANULE)
    }

    /// The bit of an address; `None` if no block begins there.
    #[inline]
    pub fn granule(&self, address: usize) -> Option<usize> {
        let (page, offset) = self.page_of(address)?;
        self.granule_at(page, offset)
    }

    /// Calls `f` with each block in use, its first page.
    pub fn each_in_use(&self, mut f: impl FnMut(u32)) {
        let mut page = 0;
        while page < self.nr() {
            let entry = self.entry(page);
            page += match entry.kind() {
                PageKind::Reserved | PageKind::Inside => 1,
                kind => {
                    let pages = 1 << entry.order();
                    if kind != PageKind::Free {
                        f(page);
                    }
                    pages
                }
            };
        }
    }

    /// Tells the pages of the first free blocks from those that were never given: a repair must.
    pub fn name_insides(&self) {
        let mut page = 0;
        while page < self.nr() {
            let pages = match self.entry(page).kind() {
                PageKind::Reserved => 1,
                _ => 1 << self.entry(page).order(),
            };
            for inside in page + 1..page + pages {
                self.entry(inside).set(PageKind::Inside, 0, 0);
            }
            page += pages;
        }
    }

    /// Forgets which places of tables are in use. Those that are [kept](Table::keep_place) afterwards
    /// have a bit until [`Pages::repair_tables`], and their pages the places' size, as a shift, where
    /// pages of slabs have their cache.
    pub fn forget_places(&self, live: &LiveMap) {
        for page in 1..self.nr() {
            let entry = self.entry(page);
            if entry.kind() == PageKind::Meta {
                live.clear(self.granules_of(page, 1 << entry.order()));
                entry.set(PageKind::Meta, entry.order(), 0);
            }
        }
    }

    /// A piece of this many bytes is in use.
    pub fn keep_place(&self, live: &LiveMap, place: MetaRef, bytes: u32) {
        let address = self.address_of(place);
        let (Some((page, _)), Some(bit)) = (self.page_of(address), self.granule(address)) else {
            return;
        };
        live.set(bit..bit + 1);
        let (entry, (shift, _)) = (self.entry(page), size_for(bytes, self.page_shift()));
        entry.set(PageKind::Meta, entry.order(), entry.cache().max(shift as u8));
    }

    /// Bytes of a place that is kept: more than it was kept for, if that is what its page says.
    pub fn place_bytes(&self, place: MetaRef) -> u32 {
        let page = self.page_of(self.address_of(place)).map_or(0, |(page, _)| page);
        let (shift, order) = (u32::from(self.entry(page).cache()), self.entry(page).order());
        1 << shift.max(if order > 0 { self.page_shift() + order } else { 0 })
    }
}

impl Pages {
    /// Makes the buddy's lists anew.
    pub fn repair(&self, live: &LiveMap) {
        self.buddy.forget();
        let mut page = 0;
        while page < self.table().nr() {
            let entry = self.table().entry(page);
            let (kind, order) = (entry.kind(), entry.order());
            let pages = 1 << order;
            match kind {
                PageKind::Reserved => page += 1,
                _ if kind.is_in_use() && live.count(self.table().granules_of(page, pages)) > 0 => {
                    page += pages;
                }
                _ => {
                    entry.set(PageKind::Inside, 0, 0);
                    live.clear(self.table().granules_of(page, 1));
                    page += 1;
                }
            }
        }
        self.give_all();
    }

    /// Gives the buddy all pages that are inside of no block in use.
    fn give_all(&self) {
        let mut page = 0;
        while page < self.table().nr() {
            let entry = self.table().entry(page);
            match entry.kind() {
                PageKind::Reserved => page += 1,
                PageKind::Inside => {
                    self.buddy.give(page, 0);
                    page += 1;
                }
                _ => page += 1 << entry.order(),
            }
        }
    }

    /// Makes the lists of places anew: those without a bit are free.
    pub fn repair_tables(&self, live: &LiveMap) {
        self.forget_tables();
        self.table().each_in_use(|page| {
            let entry = self.table().entry(page);
            if entry.kind() == PageKind::Meta {
                let pages = 1 << entry.order();
                // Of larger places, each is a block of its own.
                let shift = u32::from(entry.cache());
                if shift < self.table().page_shift() {
                    self.chain_places(live, page, shift);
                }
                self.count_tables(page, shift, pages);
                live.clear(self.table().granules_of(page, pages));
            }
        });
    }

    fn chain_places(&self, live: &LiveMap, page: u32, shift: u32) {
        let (mut first, mut free) = (NONE, 0);
        for nth in (0..1u32 << (self.table().page_shift() - shift)).rev() {
            let offset = nth << shift;
            if !self.table().granule_at(page, offset).is_some_and(|bit| live.is_live(bit)) {
                self.table().half(page, offset).set(first);
                (first, free) = (nth as u16, free + 1);
            }
        }
        let entry = self.table().entry(page);
        entry.first.set(first);
        entry.free.set(free);
    }
}
