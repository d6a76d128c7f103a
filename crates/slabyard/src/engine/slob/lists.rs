//! The three lists of partly free pages, linked into one chain: an external reader follows the
//! chain and need not know the lists.
//!
//! ```text
//! small          medium    large
//! p3 - p9 - p4 - p8 - p1 - p6
//! head     tail  head tail head = tail
//! ```
//!
//! Invariant: a page's links connect the chain, and each page in the chain is marked as listed.

use super::blocks::Pages;
use super::blocks::{List, Lists};
use crate::engine::slabs::Links;
use crate::pages::descriptor::NIL;

/// Objects below this size are small.
pub const SMALL: u32 = 256;
/// Objects below this size are medium, if they are not small.
pub const MEDIUM: u32 = 1024;

/// The list of the pages for objects of a size.
#[must_use]
pub fn list_of(bytes: u32) -> usize {
    usize::from(bytes >= SMALL) + usize::from(bytes >= MEDIUM)
}

/// A size of objects for which there is this list.
pub(super) fn size_of(nth: usize) -> u32 {
    [1, SMALL, MEDIUM].get(nth).copied().unwrap_or(MEDIUM)
}

fn filled(page: u32) -> Option<u32> {
    (page != NIL).then_some(page)
}

impl Lists {
    /// Three empty lists.
    pub const NEW: Lists = Lists { lists: [List { head: NIL, tail: NIL }; 3], len: 0 };

    /// As numbers, for the words that keep them.
    pub(super) fn words(&self) -> [u32; 7] {
        let [small, medium, large] = self.lists;
        [small.head, small.tail, medium.head, medium.tail, large.head, large.tail, self.len]
    }

    pub(super) fn of_words(words: [u32; 7]) -> Self {
        let list = |at| List { head: words[at], tail: words[at + 1] };
        Lists { lists: [list(0), list(2), list(4)], len: words[6] }
    }

    /// Pages on all lists.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True without pages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first page of the chain, and its last.
    pub(super) fn ends(&self) -> (u32, u32) {
        (self.head_from(0), self.tail_before(3))
    }

    /// The first page for objects of a size.
    pub fn first_for(&self, bytes: u32) -> Option<u32> {
        filled(self.lists[list_of(bytes)].head)
    }

    /// The page behind another one on the list for objects of a size.
    pub(super) fn next<G: Pages>(&self, on: G, page: u32, bytes: u32) -> Option<u32> {
        let is_last = self.lists[list_of(bytes)].tail == page;
        filled(on.links(page).next()).filter(|_| !is_last)
    }

    /// The first page of the list `nth`, or of one behind it.
    fn head_from(&self, nth: usize) -> u32 {
        self.lists[nth..].iter().find_map(|list| filled(list.head)).unwrap_or(NIL)
    }

    /// The last page of the lists in front of `nth`.
    fn tail_before(&self, nth: usize) -> u32 {
        self.lists[..nth].iter().rev().find_map(|list| filled(list.tail)).unwrap_or(NIL)
    }

    /// Puts a page that is on no list at the head of that for objects of a size.
    pub(super) fn add<G: Pages>(&mut self, on: G, page: u32, bytes: u32) {
        let nth = list_of(bytes);
        let (prev, next) = (self.tail_before(nth), self.head_from(nth));
        link(on, prev, page);
        link(on, page, next);
        on.links(page).set_listed(true);
        let list = &mut self.lists[nth];
        list.head = page;
        if list.tail == NIL {
            list.tail = page;
        }
        self.len += 1;
    }

    /// Puts a page that is on no list at the tail of that for objects of a size.
    pub fn append<G: Pages>(&mut self, on: G, page: u32, bytes: u32) {
        self.add(on, page, bytes);
        let second = self.next(on, page, bytes);
        second.into_iter().for_each(|second| self.rotate(on, second, bytes));
    }

    /// Takes a page off its list.
    pub(super) fn remove<G: Pages>(&mut self, on: G, page: u32) {
        let (prev, next) = (on.links(page).prev(), on.links(page).next());
        link(on, prev, next);
        on.links(page).set_listed(false);
        for list in &mut self.lists {
            match (list.head == page, list.tail == page) {
                (true, true) => *list = List { head: NIL, tail: NIL },
                (true, false) => list.head = next,
                (false, true) => list.tail = prev,
                (false, false) => {}
            }
        }
        self.len -= 1;
    }

    /// Makes a page that is on a list its first: those in front of it come behind the others, in
    /// their order. The list is the one where the page is, which is that of the size searched for.
    pub(super) fn rotate<G: Pages>(&mut self, on: G, page: u32, bytes: u32) {
        let list = &mut self.lists[list_of(bytes)];
        let List { head, tail } = *list;
        if page == head {
            return;
        }
        let (before, after) = (on.links(head).prev(), on.links(tail).next());
        let last = on.links(page).prev();
        *list = List { head: page, tail: last };
        link(on, tail, head);
        link(on, before, page);
        link(on, last, after);
    }
}

/// Links two pages; either may be none.
fn link<G: Pages>(on: G, prev: u32, next: u32) {
    if prev != NIL {
        on.links(prev).set_next(next);
    }
    if next != NIL {
        on.links(next).set_prev(prev);
    }
}
