//! SLOB: blocks of several sizes share a page, in the kernel's units of two bytes.
//!
//! Neighbours: [`slabyard::engine::slob`] is the policy; [`crate::slob`] puts the header in front
//! of blocks from `malloc`.

use crate::pages::{Entry, PageKind, Pages};
use core::cell::Cell;
use slabyard::engine::slob::{Lists, Pages as Units, kernel_unit};

/// The lists of a yard, and its pages.
#[derive(Clone, Copy)]
pub struct Blocks<'a> {
    /// Those of the whole board: SLOB's take what they need.
    pub pages: &'a Pages,
    /// The lists of partly free ones.
    pub lists: &'a Cell<Lists>,
}

impl Units for Blocks<'_> {
    type Links = Entry;

    fn page_units(self) -> u32 {
        self.pages.table().page_bytes() / self.unit_bytes()
    }

    fn unit_bytes(self) -> u32 {
        kernel_unit(self.pages.table().page_bytes())
    }

    fn get(self, page: u32, unit: u32) -> i32 {
        let at = unit * self.unit_bytes();
        let low = self.pages.table().half(page, at).get();
        if self.unit_bytes() == 2 {
            return i32::from(low.cast_signed());
        }
        let high = self.pages.table().half(page, at + 2).get();
        (u32::from(low) | u32::from(high) << 16).cast_signed()
    }

    fn set(self, page: u32, unit: u32, value: i32) {
        let at = unit * self.unit_bytes();
        self.pages.table().half(page, at).set(value as u16);
        if self.unit_bytes() == 4 {
            self.pages.table().half(page, at + 2).set((value >> 16) as u16);
        }
    }

    fn free(self, page: u32) -> (u32, u32) {
        let entry = self.pages.table().entry(page);
        (entry.free.get().into(), entry.first.get().into())
    }

    fn set_free(self, page: u32, units: u32, first: u32) {
        let entry = self.pages.table().entry(page);
        entry.free.set(units as u16);
        entry.first.set(first as u16);
    }

    fn links(&self, page: u32) -> &Entry {
        self.pages.table().entry(page)
    }

    fn set_aside(self, page: u32) {
        self.set_free(page, 0, 0);
    }

    fn begin_page(self) -> Option<u32> {
        let page = self.pages.buddy.take_as(PageKind::Blocks, 0, 0)?;
        self.set_free(page, 0, 0);
        Some(page)
    }

    fn end_page(self, page: u32) {
        self.pages.buddy.give(page, 0);
    }

    fn with_lists<R>(self, f: impl FnOnce(&mut Lists) -> R) -> R {
        let mut lists = self.lists.get();
        let result = f(&mut lists);
        self.lists.set(lists);
        result
    }
}
