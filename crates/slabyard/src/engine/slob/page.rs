//! The free blocks of one page.
//!
//! ```text
//! a block of n > 1 units         a block of one unit
//! | n | next |  ...  |           | -next |
//! ```
//!
//! `next` is the first unit of the next free block; in the last block it is the number of units of
//! a page. Blocks are in address order, and no two are adjacent: a free merges them.
//!
//! The blocks are in memory to which programs have written, so each is checked when it is read: a
//! write to freed memory is detected, and the search never leaves the page.

use super::blocks::{Pages, Request};

/// A free block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its first unit.
    pub at: u32,
    /// Its length; 1 at least.
    pub units: u32,
    /// The first unit of the next one; the units of a page behind the last.
    pub next: u32,
}

impl Block {
    /// The unit behind it.
    pub(super) fn end(self) -> u32 {
        self.at + self.units
    }
}

/// Free memory holds something else than what the allocator wrote there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten {
    /// By the number that [`super::Pages`] has of it.
    pub page: u32,
    /// The free block's first unit.
    pub unit: u32,
}

/// Reads the free block that begins at a unit.
pub(super) fn read<G: Pages>(on: G, page: u32, at: u32) -> Result<Block, Overwritten> {
    let end = on.page_units();
    let overwritten = Overwritten { page, unit: at };
    if at >= end {
        return Err(overwritten);
    }
    let (units, next) = match on.get(page, at) {
        value if value < 0 => (1, value.checked_neg()),
        units if units > 1 && units as u32 <= end - at => (units, Some(on.get(page, at + 1))),
        _ => return Err(overwritten),
    };
    let (units, next) = (units as u32, next.ok_or(overwritten)?);
    let (behind, next) = (at + units, u32::try_from(next).map_err(|_| overwritten)?);
    // A next block that touches this one would have been merged.
    let follows = next == end || next > behind && next < end;
    if behind <= end && follows && on.is_clear(page, at, units) {
        Ok(Block { at, units, next })
    } else {
        Err(overwritten)
    }
}

fn write<G: Pages>(on: G, page: u32, block: Block) {
    if block.units > 1 {
        on.set(page, block.at, block.units as i32);
        on.set(page, block.at + 1, block.next as i32);
    } else {
        on.set(page, block.at, -(block.next as i32));
    }
}

/// Calls `f` with each free block of a page: those that it counts, no more and no fewer.
pub fn each<G: Pages>(on: G, page: u32, mut f: impl FnMut(Block)) -> Result<(), Overwritten> {
    let (mut left, mut at) = on.free(page);
    while left > 0 {
        let block = read(on, page, at)?;
        left = left.checked_sub(block.units).ok_or(Overwritten { page, unit: at })?;
        f(block);
        at = block.next;
    }
    if on.free(page).0 > 0 && at != on.page_units() {
        return Err(Overwritten { page, unit: at });
    }
    Ok(())
}

/// Takes the first block of a page that fits: its first unit, if there is one.
pub(super) fn take<G: Pages>(
    on: G,
    page: u32,
    request: &Request,
) -> Result<Option<u32>, Overwritten> {
    let unit_bytes = on.unit_bytes();
    let units = request.bytes.div_ceil(unit_bytes);
    let header = request.header / unit_bytes;
    let align = (request.align / unit_bytes).max(1);
    let (free, first) = on.free(page);
    let (mut at, mut prev) = (first, None);
    while at < on.page_units() {
        let block = read(on, page, at)?;
        let begin = (at + header).next_multiple_of(align) - header;
        let end = begin + units;
        if end > block.end() {
            (prev, at) = (Some(block), block.next);
            continue;
        }
        // What is left behind it, and in front of it, stays free.
        let mut next = block.next;
        if end < block.end() {
            write(on, page, Block { at: end, units: block.end() - end, next });
            next = end;
        }
        if begin > at {
            write(on, page, Block { at, units: begin - at, next });
            next = at;
        }
        let first = match prev {
            None => next,
            Some(prev) => {
                write(on, page, Block { next, ..prev });
                first
            }
        };
        on.set_free(page, free - units, first);
        return Ok(Some(begin));
    }
    Ok(None)
}

/// Gives a block back to its page, and merges it with its neighbours.
pub fn give<G: Pages>(on: G, page: u32, at: u32, units: u32) -> Result<(), Overwritten> {
    let (free, first) = on.free(page);
    let (prev, next) = if free == 0 { (None, None) } else { around(on, page, at)? };
    let mut new = Block { at, units, next: next.map_or(on.page_units(), |next| next.at) };
    if let Some(next) = next.filter(|next| next.at == new.end()) {
        new = Block { units: new.units + next.units, next: next.next, ..new };
    }
    let mut new_first = first;
    match prev {
        Some(prev) if prev.end() == at => {
            new = Block { at: prev.at, units: prev.units + new.units, ..new };
        }
        Some(prev) => write(on, page, Block { next: at, ..prev }),
        None => new_first = at,
    }
    write(on, page, new);
    on.set_free(page, free + units, new_first);
    Ok(())
}

/// The free blocks in front of and behind a unit of a live object.
pub(super) fn around<G: Pages>(
    on: G,
    page: u32,
    unit: u32,
) -> Result<(Option<Block>, Option<Block>), Overwritten> {
    let (free, mut at) = on.free(page);
    if free == 0 {
        return Ok((None, None));
    }
    let mut prev = None;
    while at < on.page_units() {
        let block = read(on, page, at)?;
        if block.at >= unit {
            return Ok((prev, Some(block)));
        }
        (prev, at) = (Some(block), block.next);
    }
    Ok((prev, None))
}
