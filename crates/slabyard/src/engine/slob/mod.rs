//! SLOB, Linux's allocator for the smallest machines (2.6.16 to 6.3, removed in 6.4): a heap of
//! free blocks in single pages, instead of slabs of one size.
//!
//! The policy is written once: [`page`] finds and merges the free blocks of a page, [`lists`] has
//! the three lists of partly free pages, and this module chooses the page. It works on [`Pages`]:
//! the memory of a modelled kernel (the crate `slabyard-model`), or slabs of a yard (`on_pages`),
//! whose engine is [`Slob`].
//!
//! * A page is cut into units. The free blocks of a page form a list in address order, stored in
//!   the free memory itself.
//! * Partly free pages are on one of three lists, by the size of the objects that they serve: below
//!   256 bytes, below 1024, and the rest. A full page that gets a free block joins the list for the
//!   size that was just freed, so lists mix sizes.
//! * The search for a page starts where the last one ended: the list is rotated so that the page
//!   that served last comes first (next fit: Knuth, The Art of Computer Programming 1, 2.5). Within
//!   a page the first block that fits serves the request.
//! * A page that is entirely free is returned at once.
//!
//! # Locks
//!
//! One lock protects the lists and the blocks of all pages. A page is allocated and returned
//! without the lock. There is no per-CPU state, and an allocation may search all pages: many partly
//! free pages make it slow.
//!
//! # Equations (asserted by `verify`)
//!
//! Each page is tiled by free blocks and blocks of live objects; no two free blocks are adjacent;
//! the page's count of free units is the sum over its free blocks; a page is listed if and only if
//! it has a free block.

mod blocks;
mod engine;
mod lists;
mod on_pages;
pub mod page;

pub use blocks::{BlockRef, Lists, Pages, Request};
pub use lists::list_of;
pub use on_pages::Slob;
pub use page::{Block, Overwritten};

use super::slabs::Links;
use page::{give, take};

/// Bytes of a unit in the kernel: so many that an offset in a page, negated, fits.
#[must_use]
pub const fn kernel_unit(page_bytes: u32) -> u32 {
    if page_bytes <= i16::MAX as u32 * 2 { 2 } else { 4 }
}

/// Finds a block in a listed page, or in a new one. `None` without memory. The caller makes sure
/// that an empty page has room.
///
/// # Errors
/// The page whose free memory was written to: it is off its list.
pub fn alloc<G: Pages>(on: G, request: &Request) -> Result<Option<BlockRef>, Overwritten> {
    if let Some(place) = on.with_lists(|lists| search(on, lists, request))? {
        return Ok(Some(place));
    }
    let Some(page) = on.begin_page() else { return Ok(None) };
    on.with_lists(|lists| {
        give(on, page, 0, on.page_units())?;
        lists.add(on, page, request.bytes);
        take_listed(on, lists, page, request)
    })
}

/// Frees a block of `bytes` bytes.
///
/// # Errors
/// The free memory of its page was written to: the page is off its list, and the block is lost.
pub fn free<G: Pages>(on: G, place: BlockRef, bytes: u32) -> Result<(), Overwritten> {
    if on.with_lists(|lists| free_locked(on, lists, place, bytes))? {
        on.end_page(place.page);
    }
    Ok(())
}

/// Makes a page's free blocks anew, of ranges of units in order of addresses, and lists it as the
/// list `nth` had it: for a yard that is repaired. The page is on no list.
pub fn adopt<G: Pages>(
    on: G,
    page: u32,
    free: impl Iterator<Item = (u32, u32)>,
    nth: usize,
) -> Result<(), Overwritten> {
    on.set_free(page, 0, 0);
    free.into_iter().try_for_each(|(unit, units)| give(on, page, unit, units))?;
    if on.free(page).0 > 0 {
        on.with_lists(|lists| lists.add(on, page, lists::size_of(nth)));
    }
    Ok(())
}

/// As [`free`], under the lock. True if the page is all free, and off its list: the caller ends it.
pub(super) fn free_locked<G: Pages>(
    on: G,
    lists: &mut Lists,
    place: BlockRef,
    bytes: u32,
) -> Result<bool, Overwritten> {
    let BlockRef { page, unit } = place;
    let units = bytes.div_ceil(on.unit_bytes());
    let (free, _) = on.free(page);
    if free + units == on.page_units() {
        if free > 0 {
            lists.remove(on, page);
        }
        on.set_free(page, on.page_units(), 0);
        return Ok(true);
    }
    give(on, page, unit, units).inspect_err(|_| drop_page(on, lists, page))?;
    if free == 0 {
        lists.add(on, page, bytes);
    }
    Ok(false)
}

/// Takes a page whose free memory cannot be relied on off its list, for good.
pub(super) fn drop_page<G: Pages>(on: G, lists: &mut Lists, page: u32) {
    if on.links(page).is_listed() {
        lists.remove(on, page);
    }
    on.set_aside(page);
}

/// Free units of a page, as its blocks say.
///
/// # Errors
/// Its free memory was written to, or the blocks are not those that it counts.
pub fn free_units<G: Pages>(on: G, page: u32) -> Result<u32, Overwritten> {
    let mut units = 0;
    page::each(on, page, |block| units += block.units)?;
    Ok(units)
}

fn search<G: Pages>(
    on: G,
    lists: &mut Lists,
    request: &Request,
) -> Result<Option<BlockRef>, Overwritten> {
    let units = request.bytes.div_ceil(on.unit_bytes());
    let mut at = lists.first_for(request.bytes);
    while let Some(page) = at {
        if on.free(page).0 >= units
            && let Some(place) = take_listed(on, lists, page, request)?
        {
            return Ok(Some(place));
        }
        at = lists.next(on, page, request.bytes);
    }
    Ok(None)
}

/// Takes a block out of a listed page. The page becomes the first of its list, or leaves it.
fn take_listed<G: Pages>(
    on: G,
    lists: &mut Lists,
    page: u32,
    request: &Request,
) -> Result<Option<BlockRef>, Overwritten> {
    let taken = take(on, page, request).inspect_err(|_| drop_page(on, lists, page))?;
    let Some(unit) = taken else { return Ok(None) };
    if on.free(page).0 == 0 {
        lists.remove(on, page);
    } else {
        lists.rotate(on, page, request.bytes);
    }
    on.taken(page, unit, request);
    Ok(Some(BlockRef { page, unit }))
}
