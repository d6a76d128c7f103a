//! Types of a zone's pageblocks, and the fallback if a request's type has no free block: the
//! request takes the largest block of another type, with all free pages of its pageblock.
//!
//! The pageblock's type changes if at least half of its pages are free or compatible with the
//! request. Movable pages are compatible with a movable request; in a movable pageblock, all pages
//! that are not movable are compatible with other requests. On a machine too small to group pages
//! by mobility, the type always changes. A page that was taken for a movable request counts as
//! movable until it is freed; a real kernel checks whether it can be moved.
//!
//! [`super::mobility`] defines the types; [`super::zone`] owns the free lists and the pageblocks.

use super::buddy::{Block, MOST_ORDER};
use super::free_lists::FreeLists;
use super::mobility::{Mobility, TakesOver, Type};
use std::ops::Range;

pub(super) struct Pageblocks {
    takes_over: TakesOver,
    mobility: Mobility,
    order: u8,
    types: Vec<Type>,
    /// Pages that the zone spans.
    span: Range<u32>,
    /// Pages that are held and may be moved.
    held_movable: Vec<bool>,
}

/// How the next block is looked for, of several that are taken at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// In its type's lists first.
    Own,
    /// The last one was split off another type's smallest block.
    Split,
}

impl Pageblocks {
    pub(super) fn new(
        takes_over: TakesOver,
        pages: u32,
        mobility: Mobility,
        order: u8,
        types: &[Type],
    ) -> Pageblocks {
        let mut types = types.to_vec();
        types.resize((pages >> order) as usize + 1, Type::Movable);
        let held_movable = vec![false; pages as usize];
        Pageblocks { takes_over, mobility, order, types, span: 0..pages, held_movable }
    }

    pub(super) fn span(&mut self, pages: Range<u32>) {
        self.span = pages;
    }

    /// The type that a request counts as.
    pub(super) fn counts_as(&self, of: Type) -> Type {
        if self.mobility == Mobility::Off { Type::Unmovable } else { of }
    }

    pub(super) fn type_of(&self, at: u32) -> Type {
        self.types[(at >> self.order) as usize]
    }

    /// The type by which a block becomes free that the CPU kept on a type's list.
    pub(super) fn type_back(&self, at: u32, list: Type) -> Type {
        match self.takes_over {
            TakesOver::Moved => list,
            // The pageblock may have been claimed meanwhile.
            TakesOver::Claimed => self.type_of(at),
        }
    }

    pub(super) fn hold(&mut self, (at, order): Block, is_movable: bool) {
        self.held_movable[at as usize..at as usize + (1 << order)].fill(is_movable);
    }

    /// Takes a block for a request of a type.
    pub(super) fn take(
        &mut self,
        free: &mut FreeLists,
        order: u8,
        of: Type,
        search: &mut Search,
    ) -> Option<u32> {
        if *search == Search::Own
            && let Some(at) = free.take(order, of)
        {
            return Some(at);
        }
        *search = Search::Own;
        if self.takes_over == TakesOver::Moved {
            self.take_over(free, order, of)?;
            return free.take(order, of);
        }
        if let Some(at) = self.claim(free, order, of) {
            return Some(at);
        }
        *search = Search::Split;
        let mut orders = order..=MOST_ORDER;
        let smallest = orders.find_map(|from| {
            of.others().into_iter().find(|other| free.first(from, *other).is_some())
        });
        free.take(order, smallest?)
    }

    /// Makes free pages of another type be of this one, and their pageblock, if it should.
    fn take_over(&mut self, free: &mut FreeLists, order: u8, of: Type) -> Option<()> {
        let mut find = |from: u8| {
            let at = of.others().into_iter().find_map(|other| free.first(from, other))?;
            Some((at, from))
        };
        let mut found = (order..=MOST_ORDER).rev().find_map(&mut find)?;
        if !self.may_have_all(found.1, of) && found.1 > order {
            found = (order..=MOST_ORDER).find_map(find)?;
        }
        let (at, from) = found;
        let block = at..at + (1 << from);
        if from >= self.order {
            self.retype(block.clone(), of);
        }
        if from >= self.order || !self.may_have_all(from, of) {
            free.move_to(block, of);
            return Some(());
        }
        let pageblock = self.pageblock(at);
        let is_claimed = self.is_alike(free, &pageblock, of);
        free.move_to(pageblock.clone(), of);
        if is_claimed {
            self.retype(pageblock, of);
        }
        Some(())
    }

    /// Makes the pageblock of the largest block that can be be of this type, and takes of it.
    fn claim(&mut self, free: &mut FreeLists, order: u8, of: Type) -> Option<u32> {
        for from in (order..=MOST_ORDER).rev() {
            let first = |other| Some((free.first(from, other)?, other));
            let Some((at, other)) = of.others().into_iter().find_map(first) else { continue };
            if !self.may_have_all(from, of) {
                return None;
            }
            if from >= self.order {
                free.pop(from, other);
                self.retype(at..at + (1 << from), of);
                free.split(at, from, order, of);
                return Some(at);
            }
            let pageblock = self.pageblock(at);
            let has_whole = self.span.start <= pageblock.start && pageblock.end <= self.span.end;
            if has_whole && self.is_alike(free, &pageblock, of) {
                self.retype(pageblock.clone(), of);
                free.move_to(pageblock, of);
                return free.take(order, of);
            }
        }
        None
    }

    fn retype(&mut self, pages: Range<u32>, of: Type) {
        let pageblocks = pages.start >> self.order..pages.end.div_ceil(1 << self.order);
        for pageblock in pageblocks {
            self.types[pageblock as usize] = of;
        }
    }

    fn pageblock(&self, at: u32) -> Range<u32> {
        let first = at >> self.order << self.order;
        first..first + (1 << self.order)
    }

    /// A movable request does not take a pageblock over for a small block.
    fn may_have_all(&self, from: u8, of: Type) -> bool {
        from >= self.order / 2 || of != Type::Movable || self.mobility == Mobility::Off
    }

    fn is_alike(&self, free: &FreeLists, pageblock: &Range<u32>, of: Type) -> bool {
        if self.mobility == Mobility::Off {
            return true;
        }
        let all = pageblock.end - pageblock.start;
        let free = free.free_of(pageblock);
        let held = pageblock.clone().map_while(|page| self.held_movable.get(page as usize));
        let movable = held.filter(|held| **held).count() as u32;
        let alike = match (of, self.type_of(pageblock.start)) {
            (Type::Movable, _) => movable,
            (_, Type::Movable) => all - (free + movable),
            _ => 0,
        };
        free + alike >= all / 2
    }
}
