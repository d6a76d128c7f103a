//! SLOB's interface: `malloc` puts the size in front of a block, a cache's object has no header,
//! and a request of more than a page gets a run of pages.

use crate::caches::{Core, FixedEngine, Repair, mark_one};
use crate::engine::Blocks;
use crate::live_map::{GRANULE, LiveMap};
use crate::pages::PageKind;
use crate::tally::{Counts, Tally};
use core::ops::Range;
use slabyard::engine::slob::{self, BlockRef, Request};

/// The engine without caches' slabs: objects of all sizes share pages.
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
    let BlockRef { page, unit } = slob::alloc(blocks(core), &request).ok()??;
    let unit_bytes = slob::kernel_unit(core.pages.table().page_bytes());
    Some(core.pages.table().address(page) + (unit * unit_bytes) as usize)
}

/// The place of an address in a page of blocks.
fn place_of(core: &Core<Slob>, address: usize) -> Option<BlockRef> {
    let (page, offset) = core.pages.table().page_of(address)?;
    let unit_bytes = slob::kernel_unit(core.pages.table().page_bytes());
    let is_blocks =
        matches!(core.pages.table().entry(page).kind(), PageKind::Blocks | PageKind::ListedBlocks);
    (is_blocks && offset.is_multiple_of(unit_bytes))
        .then_some(BlockRef { page, unit: offset / unit_bytes })
}

fn give(core: &Core<Slob>, place: BlockRef, bytes: u32) -> bool {
    slob::free(blocks(core), place, bytes).is_ok()
}

/// The size in front of a block; `None` if there is no such block.
fn size_in_front(core: &Core<Slob>, address: usize) -> Option<(BlockRef, u32)> {
    let place = place_of(core, address.checked_sub(HEADER as usize)?)?;
    let at = place.unit * slob::kernel_unit(core.pages.table().page_bytes());
    let size = u32::from(core.pages.table().half(place.page, at).get());
    (size > 0 && at + size + HEADER <= core.pages.table().page_bytes()).then_some((place, size))
}

/// A block's page, its bits in the live map, and its bytes; `None` for what is no block.
fn extent(
    core: &Core<Slob>,
    address: usize,
    cache: Option<&SlobCache>,
) -> Option<(u32, Range<usize>, u32)> {
    let (at, bytes) = match cache {
        Some(cache) => (address, cache.size),
        None => (address.checked_sub(HEADER as usize)?, size_in_front(core, address)?.1 + HEADER),
    };
    let (page, first) = (place_of(core, at)?.page, core.pages.table().granule(at)?);
    Some((page, first..first + bytes as usize / GRANULE, bytes))
}

/// Where a page of blocks has the number of its list: where slabs have their cache.
fn note_list(core: &Core<Slob>, page: u32, bytes: u32) {
    let entry = core.pages.table().entry(page);
    entry.set(entry.kind(), entry.order(), slob::list_of(bytes) as u8);
}

impl Repair for Slob {
    type Cache = SlobCache;

    fn mark(core: &Core<Slob>, live: &LiveMap, address: usize, cache: Option<&SlobCache>) {
        if let Some((page, bits, bytes)) = extent(core, address, cache) {
            note_list(core, page, bytes);
            live.set(bits);
        } else {
            mark_one(core, live, address);
        }
    }

    fn unmark(
        core: &Core<Slob>,
        live: &LiveMap,
        address: usize,
        cache: Option<&SlobCache>,
    ) -> bool {
        let block = extent(core, address, cache);
        if let Some((page, _, bytes)) = &block
            && core.pages.table().entry(*page).kind() == PageKind::Blocks
        {
            // A full page, which joins the list of what is freed.
            note_list(core, *page, *bytes);
        }
        let one = || core.pages.table().granule(address).map(|bit| bit..bit + 1);
        let bits = block.map(|(_, bits, _)| bits).or_else(one);
        let is_live = |bits: &Range<usize>| live.count(bits.clone()) as usize == bits.len();
        bits.filter(is_live).inspect(|bits| live.clear(bits.clone())).is_some()
    }

    fn live_granules(counts: &Counts) -> u64 {
        counts.live_bytes / GRANULE as u64
    }

    fn adopt(core: &Core<Slob>, live: &LiveMap, _: u32, page: u32) {
        let entry = core.pages.table().entry(page);
        if !matches!(entry.kind(), PageKind::Blocks | PageKind::ListedBlocks) {
            return;
        }
        entry.set(PageKind::Blocks, 0, entry.cache());
        let bits = core.pages.table().granules_of(page, 1);
        let units = GRANULE as u32 / slob::kernel_unit(core.pages.table().page_bytes());
        let is_live = |nth: u32| live.is_live(bits.start + nth as usize);
        let (nr, mut at) = (bits.len() as u32, 0);
        // The free stretches between live blocks.
        let free = core::iter::from_fn(|| {
            let first = (at..nr).find(|nth| !is_live(*nth))?;
            at = (first..nr).find(|nth| is_live(*nth)).unwrap_or(nr);
            Some((first * units, (at - first) * units))
        });
        // An error would be free memory that somebody writes to: the page is used no more then.
        let _adopted = slob::adopt(blocks(core), page, free, entry.cache().into());
    }
}

impl FixedEngine for Slob {
    const NAME: &'static str = "slob";

    fn new_cache(
        core: &Core<Slob>,
        _: u8,
        _: &str,
        (size, align): (u32, u32),
    ) -> Option<SlobCache> {
        let align = align.max(slob::kernel_unit(core.pages.table().page_bytes()));
        Some(SlobCache { size: size.next_multiple_of(align), align })
    }

    fn end_cache(_: &Core<Slob>, _: &SlobCache) {}

    fn cpu_bytes(_: u32) -> u32 {
        0
    }

    fn alloc(core: &Core<Slob>, _: u32, cache: &SlobCache) -> Option<usize> {
        if cache.size >= core.pages.table().page_bytes() {
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
        let page = core.pages.table().page_bytes();
        if bytes >= (page - HEADER) as usize {
            return core.take_run(core.order_of(bytes));
        }
        let size = (bytes as u32).max(1);
        let align = if size.is_power_of_two() { size.max(HEADER) } else { HEADER };
        let at = take(core, size, HEADER, align)?;
        let (page, offset) = core.pages.table().page_of(at)?;
        core.pages.table().half(page, offset).set(size as u16);
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
        let unit = slob::kernel_unit(core.pages.table().page_bytes());
        for page in 1..core.pages.table().nr() {
            let kind = core.pages.table().entry(page).kind();
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
            tally.counts.live_bytes += u64::from(core.pages.table().page_bytes() - free * unit);
        }
        if listed == core.lists.get().len() {
            Ok(())
        } else {
            Err("other pages of blocks are listed than are counted")
        }
    }
}
