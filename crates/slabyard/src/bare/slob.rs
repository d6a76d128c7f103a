//! SLOB's door of a bare yard: the size lies in front of what `malloc` hands out, an object of a
//! cache has nothing in front, and what a page does not hold is pages.

use super::caches::{Core, Engine};
use super::tally::Tally;
use crate::engine::bare::blocks::Blocks;
use crate::engine::slob::{self, Place, Request};
use crate::pages::bare::Kind as PageKind;

/// SLOB.
pub enum Slob {}

/// A cache of SLOB: the size of its objects, and their alignment.
pub struct SlobCache {
    size: u32,
    align: u32,
}

/// Bytes in front of a block, and its least alignment.
const HEADER: u32 = 8;

fn blocks(core: &Core<Slob>) -> Blocks<'_> {
    Blocks { pages: &core.pages, lists: &core.lists }
}

/// An object, with `header` bytes in front.
fn take(core: &Core<Slob>, size: u32, header: u32, align: u32) -> Option<usize> {
    let request = Request { bytes: size + header, header, align };
    let Place { page, unit } = slob::alloc(blocks(core), &request).ok()??;
    let unit_bytes = slob::kernel_unit(core.pages.page_bytes());
    Some(core.pages.address(page) + (unit * unit_bytes) as usize)
}

/// The place of an address in a page of blocks.
fn place_of(core: &Core<Slob>, address: usize) -> Option<Place> {
    let (page, offset) = core.pages.page_of(address)?;
    let unit_bytes = slob::kernel_unit(core.pages.page_bytes());
    let is_blocks =
        matches!(core.pages.entry(page).kind(), PageKind::Blocks | PageKind::ListedBlocks);
    (is_blocks && offset.is_multiple_of(unit_bytes))
        .then_some(Place { page, unit: offset / unit_bytes })
}

fn give(core: &Core<Slob>, place: Place, bytes: u32) -> bool {
    slob::free(blocks(core), place, bytes).is_ok()
}

/// The size in front of a block; `None` if there is no such block.
fn size_in_front(core: &Core<Slob>, address: usize) -> Option<(Place, u32)> {
    let place = place_of(core, address.checked_sub(HEADER as usize)?)?;
    let at = place.unit * slob::kernel_unit(core.pages.page_bytes());
    let size = u32::from(core.pages.half(place.page, at).get());
    (size > 0 && at + size + HEADER <= core.pages.page_bytes()).then_some((place, size))
}

impl Engine for Slob {
    type Cache = SlobCache;
    const NAME: &'static str = "slob";

    fn new_cache(
        core: &Core<Slob>,
        _: u8,
        _: &str,
        (size, align): (u32, u32),
    ) -> Option<SlobCache> {
        let align = align.max(slob::kernel_unit(core.pages.page_bytes()));
        Some(SlobCache { size: size.next_multiple_of(align), align })
    }

    fn end_cache(_: &Core<Slob>, _: &SlobCache) {}

    fn cpu_bytes(_: u32) -> u32 {
        0
    }

    fn alloc(core: &Core<Slob>, _: u32, cache: &SlobCache) -> Option<usize> {
        if cache.size >= core.pages.page_bytes() {
            return core.take_run(core.order_of(cache.size as usize));
        }
        take(core, cache.size, 0, cache.align)
    }

    fn free(core: &Core<Slob>, _: u32, cache: &SlobCache, address: usize) -> bool {
        match place_of(core, address) {
            Some(place) => give(core, place, cache.size),
            None => core.give_run(address),
        }
    }

    fn shrink(_: &Core<Slob>, _: u32, _: &SlobCache) {}

    fn malloc(core: &Core<Slob>, _: u32, bytes: usize) -> Option<usize> {
        let page = core.pages.page_bytes();
        if bytes >= (page - HEADER) as usize {
            return core.take_run(core.order_of(bytes));
        }
        let size = (bytes as u32).max(1);
        let align = if size.is_power_of_two() { size.max(HEADER) } else { HEADER };
        let at = take(core, size, HEADER, align)?;
        let (page, offset) = core.pages.page_of(at)?;
        core.pages.half(page, offset).set(size as u16);
        Some(at + HEADER as usize)
    }

    fn mfree(core: &Core<Slob>, _: u32, address: usize) -> bool {
        match size_in_front(core, address) {
            Some((place, size)) => give(core, place, size + HEADER),
            None => core.give_run(address),
        }
    }

    fn usable(core: &Core<Slob>, address: usize) -> usize {
        match size_in_front(core, address) {
            Some((_, size)) => size as usize,
            None => core.run_bytes(address),
        }
    }

    fn verify(_: &Core<Slob>, _: u32, _: &SlobCache, _: &mut Tally) -> Result<(), &'static str> {
        Ok(())
    }

    fn verify_blocks(core: &Core<Slob>, tally: &mut Tally) -> Result<(), &'static str> {
        let (blocks, mut listed) = (blocks(core), 0);
        let unit = slob::kernel_unit(core.pages.page_bytes());
        for page in 1..core.pages.nr() {
            let kind = core.pages.entry(page).kind();
            if !matches!(kind, PageKind::Blocks | PageKind::ListedBlocks) {
                continue;
            }
            let free = slob::free_units(blocks, page)
                .map_err(|_| "the free blocks of a page are not in order")?;
            if (free > 0) != (kind == PageKind::ListedBlocks) {
                return Err("a page of blocks is listed without free ones, or the reverse");
            }
            listed += u32::from(free > 0);
            tally.counts.slabs += 1;
            tally.counts.slab_pages += 1;
            tally.counts.live_bytes += u64::from(core.pages.page_bytes() - free * unit);
        }
        if listed == core.lists.get().len() {
            Ok(())
        } else {
            Err("other pages of blocks are listed than are counted")
        }
    }
}
