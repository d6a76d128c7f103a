//! SLOB's interface to its pages: blocks of units, and the size of a request.
//!
//! Neighbours: the lab's memory (`slabyard-model`) and `on_pages` implement it; [`super::lists`]
//! and [`super::page`] use it.

use crate::engine::slabs::Links;

/// What the policy stands on: pages of units, and what is known of each page.
pub trait Pages: Copy {
    /// How a page is on one of the lists: next and previous page.
    type Links: Links;

    /// Its bytes divided by [`Pages::unit_bytes`].
    fn page_units(self) -> u32;
    /// Bytes of a unit: a power of two.
    fn unit_bytes(self) -> u32;
    /// The value of a unit of free memory.
    fn get(self, page: u32, unit: u32) -> i32;
    /// Changes it.
    fn set(self, page: u32, unit: u32, value: i32);
    /// Free units of a page, and the first free block.
    fn free(self, page: u32) -> (u32, u32);
    /// Changes these.
    fn set_free(self, page: u32, units: u32, first: u32);
    /// Those by which a list has the page.
    fn links(&self, page: u32) -> &Self::Links;
    /// True if no live object begins in these units, as far as the pages say.
    fn is_clear(self, _page: u32, _unit: u32, _units: u32) -> bool {
        true
    }
    /// A block was handed out. The lock is held.
    fn taken(self, _page: u32, _unit: u32, _request: &Request) {}
    /// A page's free memory cannot be relied on: nothing is handed out of it any more. It is off
    /// its list; the lock is held.
    fn set_aside(self, page: u32);
    /// A new page, not 0, that counts no free unit yet; `None` without memory. The lock is not
    /// held.
    fn begin_page(self) -> Option<u32>;
    /// Gives a page back: all of it is free, or no object was ever handed out of it. The lock is
    /// not held.
    fn end_page(self, page: u32);
    /// Calls `f` under the one lock.
    fn with_lists<R>(self, f: impl FnOnce(&mut Lists) -> R) -> R;
}

/// What SLOB is asked for, with the header that the caller wants in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the block, those in front of the object included.
    pub bytes: u32,
    /// Bytes in front of the object, a multiple of a unit.
    pub header: u32,
    /// Alignment of the object: a power of two, a unit at least.
    pub align: u32,
}

/// A block of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    /// By the number that [`Pages`] has of it.
    pub page: u32,
    /// Its first unit.
    pub unit: u32,
}

/// The three lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lists {
    pub(super) lists: [List; 3],
    pub(super) len: u32,
}

/// One list: a part of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
}
