//! The free blocks of a zone: lists by order and migratetype, from whose heads blocks are taken.
//!
//! A freed block is coalesced with its buddy, whatever the buddy's type. It is added at the head of
//! its list, or at the tail if the block that it would form with its buddy has a free buddy: once
//! its own buddy is freed, all of them coalesce.
//!
//! [`super::pageblocks`] decides from which type a block is taken; [`super::zone`] owns the free
//! lists and the pageblocks. Invariants: a page is in at most one block; two free buddies of one
//! order are always coalesced.

use super::buddy::MOST_ORDER;
use super::mobility::{TYPES, Type};
use std::collections::VecDeque;
use std::ops::Range;

const ORDERS: usize = MOST_ORDER as usize + 1;

/// A free block begins there.
#[derive(Clone, Copy)]
struct Head {
    order: u8,
    stamp: u32,
}

pub(super) struct FreeLists {
    /// Head first; entries of blocks that left meanwhile stay until they are met.
    lists: [[VecDeque<(u32, u32)>; TYPES]; ORDERS],
    heads: Vec<Option<Head>>,
    counts: [u32; ORDERS],
    pages: u32,
    stamps: u32,
}

/// Where a block is put in its list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ListEnd {
    Head,
    Tail,
}

impl FreeLists {
    /// Of so many pages, none of which is free.
    pub(super) fn new(pages: u32) -> FreeLists {
        FreeLists {
            lists: Default::default(),
            heads: vec![None; pages as usize],
            counts: [0; ORDERS],
            pages: 0,
            stamps: 0,
        }
    }

    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Free blocks of each order.
    pub(super) fn counts(&self) -> [u32; ORDERS] {
        self.counts
    }

    /// Of these pages, the free ones.
    pub(super) fn free_of(&self, pages: &Range<u32>) -> u32 {
        let heads = pages.clone().map_while(|page| self.heads.get(page as usize));
        heads.flatten().map(|head| 1 << head.order).sum()
    }

    /// A block of a type, of its smallest one that is large enough.
    pub(super) fn take(&mut self, order: u8, of: Type) -> Option<u32> {
        let (at, from) = (order..=MOST_ORDER).find_map(|from| Some((self.pop(from, of)?, from)))?;
        self.split(at, from, order, of);
        Some(at)
    }

    /// Upper halves of a block that was taken, down to an order, are free.
    pub(super) fn split(&mut self, at: u32, from: u8, order: u8, of: Type) {
        for half in (order..from).rev() {
            self.list(at + (1 << half), half, of, ListEnd::Head);
        }
    }

    /// What is free of these pages goes to the tails of a type's lists.
    pub(super) fn move_to(&mut self, pages: Range<u32>, of: Type) {
        let mut page = pages.start;
        while page < pages.end.min(self.heads.len() as u32) {
            page += match self.heads[page as usize] {
                Some(head) => {
                    self.unlist(page);
                    self.list(page, head.order, of, ListEnd::Tail);
                    1 << head.order
                }
                None => 1,
            };
        }
    }

    /// A block becomes free, and is joined.
    pub(super) fn put(&mut self, mut at: u32, mut order: u8, of: Type) {
        while order < MOST_ORDER && self.is_free(at ^ (1 << order), order) {
            self.unlist(at ^ (1 << order));
            at &= !(1 << order);
            order += 1;
        }
        let will_join = order + 1 < MOST_ORDER && {
            let pair = at & !(1 << order);
            self.is_free(pair ^ (1 << (order + 1)), order + 1)
        };
        self.list(at, order, of, if will_join { ListEnd::Tail } else { ListEnd::Head });
    }

    /// The list's head, if there is one.
    pub(super) fn first(&mut self, order: u8, of: Type) -> Option<u32> {
        let at = self.pop(order, of)?;
        self.list(at, order, of, ListEnd::Head);
        Some(at)
    }

    pub(super) fn pop(&mut self, order: u8, of: Type) -> Option<u32> {
        loop {
            let (at, stamp) = self.lists[usize::from(order)][of as usize].pop_front()?;
            if matches!(self.heads[at as usize], Some(head) if head.stamp == stamp) {
                self.unlist(at);
                return Some(at);
            }
        }
    }

    pub(super) fn list(&mut self, at: u32, order: u8, of: Type, end: ListEnd) {
        self.stamps += 1;
        self.heads[at as usize] = Some(Head { order, stamp: self.stamps });
        self.counts[usize::from(order)] += 1;
        self.pages += 1 << order;
        let list = &mut self.lists[usize::from(order)][of as usize];
        match end {
            ListEnd::Head => list.push_front((at, self.stamps)),
            ListEnd::Tail => list.push_back((at, self.stamps)),
        }
    }

    fn unlist(&mut self, at: u32) {
        if let Some(head) = self.heads[at as usize].take() {
            self.counts[usize::from(head.order)] -= 1;
            self.pages -= 1 << head.order;
        }
    }

    fn is_free(&self, at: u32, order: u8) -> bool {
        matches!(self.heads.get(at as usize), Some(Some(head)) if head.order == order)
    }
}
