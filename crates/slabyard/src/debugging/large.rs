//! Large blocks with debugging: runs and mappings, which appear as a cache named [`NAME`].
//!
//! While there are fewer than [`MOST_GUARDED`] mappings, a block is a mapping followed by a guard
//! page; else it is a run. Both have a red zone and a seal (size and checksum) after the requested
//! bytes ([`crate::slab::debug`]). A freed mapping stays in quarantine, a ring of addresses: all
//! its pages fault, and a second free finds it there. The pages of a freed run are zeroed; reuse
//! first checks that they are still zero. A block never grows in place: `realloc` moves it.
//!
//! Neighbours: [`crate::large`] calls this module first; [`crate::yard::looks`] keeps checks away
//! from changing blocks. Invariant: while large blocks have debugging, every live run and mapping
//! of the yard has a seal, even one that a signal handler allocated.

use crate::cache::{Cache, debug_of};
use crate::engine::Engine;
use crate::pages::GranuleKind;
use crate::pages::finding::{By, Bytes, Finding, FindingKind};
use crate::platform::{Advice, GRANULE, Platform};
use crate::slab::debug::{Maker, SEAL, block, unused};
use crate::sync::Ordering;
use crate::yard::Yard;
use crate::yard::looks::PATIENCE;
use slabyard_abi::debug::DebugFlags;

/// The name by which rules know them.
pub const NAME: &str = "malloc-large";
/// Mappings with a guard page, at most: each is two mappings of the kernel's.
const MOST_GUARDED: usize = 4096;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// True if runs and mappings have debugging.
    #[inline(always)]
    pub fn is_guarded(&self) -> bool {
        E::SIZED && self.large.guarded.flags.load(Ordering::Relaxed) != 0
    }
}

/// Makes a mapping for a request that no cache serves now.
pub(crate) fn map_block<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    if yard.is_guarded() {
        return map_guarded(yard, bytes, align);
    }
    yard.heap.mappings.map(&yard.heap.platform, bytes.max(1), align)
}

/// Makes a block.
#[cold]
pub(crate) fn alloc_guarded<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    let _change = yard.large.guarded.looks.change();
    let is_few = yard.heap.mappings.live().0 < MOST_GUARDED;
    let mapped = if is_few { map_guarded(yard, bytes, align) } else { None };
    let block = mapped.or_else(|| {
        let address = yard.heap.alloc_run(bytes.checked_add(SEAL)?, align)?;
        let end = address + yard.heap.run_bytes(address)?;
        let first = yard.heap.region.granule_of(address)?;
        unused::look_at_taken(&yard.heap, first, (end - address) / GRANULE);
        block::seal_block(&yard.heap.platform, address, end, bytes, Maker::Malloc);
        Some(address)
    });
    // Not of a block that a handler gets, in which no stack is walked.
    if flags(yard).has(DebugFlags::TRACK)
        && let Some(address) = block
        && let Some(end) = end_of(yard, address)
    {
        block::track_block(&yard.heap, end, bytes);
    }
    block
}

/// Allocates no byte: a block of which the first page faults, where the cache that would serve
/// has checks of consistency, and large blocks have them.
pub(crate) fn alloc_nothing<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: &Cache<E>,
    align: usize,
) -> Option<usize> {
    let is_checked = flags(yard).has(DebugFlags::CHECK)
        && debug_of(cache).is_some_and(|debug| debug.flags().has(DebugFlags::CHECK))
        && yard.heap.mappings.live().0 < MOST_GUARDED;
    let nothing = if is_checked { alloc_guarded(yard, 0, align) } else { None };
    nothing.or_else(|| cache.engine.alloc_sized(cache.on(&yard.heap), 0, align))
}

/// The debugging of large blocks.
fn flags<P: Platform, E: Engine>(yard: &Yard<P, E>) -> DebugFlags {
    DebugFlags::of(yard.large.guarded.flags.load(Ordering::Relaxed) as u8)
}

fn map_guarded<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    let _change = yard.large.guarded.looks.change();
    let page = yard.platform().page_bytes();
    // A block of no bytes begins with a page that faults, for those who read or write there.
    let nothing = if bytes == 0 { page } else { 0 };
    let usable = bytes.max(nothing).checked_add(SEAL)?.checked_next_multiple_of(page)?;
    let map = || yard.heap.mappings.map(&yard.heap.platform, usable.checked_add(page)?, align);
    let address = map().or_else(|| {
        end_guarded_quarantine(yard);
        map()
    })?;
    yard.platform().advise(address + usable, page, Advice::NoAccess);
    if nothing > 0 {
        yard.platform().advise(address, nothing, Advice::NoAccess);
    }
    block::seal_block(&yard.heap.platform, address, address + usable, bytes, Maker::Malloc);
    Some(address)
}

/// Where the pages of a live block end that its owner may reach.
fn end_of<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> Option<usize> {
    let page = yard.platform().page_bytes();
    let mapped = || Some(address + yard.heap.mappings.bytes_of(address)? - page);
    yard.heap.run_bytes(address).map(|bytes| address + bytes).or_else(mapped)
}

/// As [`end_of`]; `None` for a freed mapping in quarantine.
fn live_end<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> Option<usize> {
    if is_in_quarantine(yard, address) { None } else { end_of(yard, address) }
}

/// True if a freed mapping at this address is in quarantine.
pub(crate) fn is_in_quarantine<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    let mut freed = yard.large.guarded.freed.iter();
    freed.any(|at| at.load(Ordering::Relaxed) == address)
}

/// Bytes that were requested of the live block at an address.
pub(crate) fn guarded_bytes<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
) -> Option<usize> {
    let end = live_end(yard, address)?;
    Some(block::sealed(&yard.heap.platform, address, end).unwrap_or(end - SEAL - address))
}

/// Notes who allocated the live block at an address.
pub(crate) fn note_maker_of_guarded<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
    maker: Maker,
) {
    if flags(yard).has(DebugFlags::CHECK)
        && let Some(end) = end_of(yard, address)
    {
        let _change = yard.large.guarded.looks.change();
        block::note_maker_of_block(&yard.heap.platform, address, end, maker);
    }
}

/// Who allocated the live block at an address, where that is noted.
pub(crate) fn maker_of_guarded<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
) -> Option<Maker> {
    if !flags(yard).has(DebugFlags::CHECK) {
        return None;
    }
    Some(block::sealed_by(&yard.heap.platform, address, live_end(yard, address)?)?.1)
}

/// Frees a block; false if none begins at an address.
#[cold]
pub(crate) fn free_guarded<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    let Some(end) = live_end(yard, address) else { return false };
    if let Some((what, bytes)) = block::wrong_block(&yard.heap.platform, address, end) {
        yard.heap.reports.finding(|| wrong(yard, what, address, end, bytes, By::Call));
    }
    let looks = &yard.large.guarded.looks;
    let _change = looks.change();
    if block::sealed(&yard.heap.platform, address, end).is_some()
        && !block::break_seal(&yard.heap.platform, address, end)
    {
        return false;
    }
    if yard.heap.free_live_run_clean(address).is_some() {
        return true;
    }
    if !looks.is_at(address) {
        yard.platform().advise(address, end - address, Advice::NoAccess);
    }
    let oldest = yard.large.guarded.park(address);
    if oldest != 0 {
        yard.heap.mappings.unmap(&yard.heap.platform, oldest);
    }
    true
}

/// Gives the address space of freed mappings back.
fn end_guarded_quarantine<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let guarded = &yard.large.guarded;
    let _change = guarded.looks.change();
    for freed in &guarded.freed {
        let address = freed.load(Ordering::Relaxed);
        let is_ours = || {
            // Acquire pairs with the Release in `park`: its pages have been taken away.
            freed.compare_exchange(address, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if address != 0 && !guarded.looks.is_at(address) && is_ours() {
            yard.heap.mappings.unmap(&yard.heap.platform, address);
        }
    }
}

/// Looks at the red zone of each live block; returns how many were wrong.
pub(crate) fn look_at_blocks<P: Platform, E: Engine>(yard: &Yard<P, E>) -> u64 {
    if !yard.is_guarded() || yard.large.guarded.half_done.load(Ordering::Relaxed) != 0 {
        return 0;
    }
    let region = &yard.heap.region;
    let (mut wrong, mut patience) = (0, PATIENCE);
    let mut look = |address| wrong += u64::from(look_at_block(yard, address, &mut patience));
    for granule in yard.platform().page_bytes() / GRANULE..region.top() {
        if region.descriptor(granule as u32).kind() == GranuleKind::Run {
            look(region.address(granule as u32));
        }
    }
    yard.heap.mappings.each(look);
    wrong
}

/// Looks at a block, if it is a live one, reports what is wrong, and puts it right.
fn look_at_block<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
    patience: &mut u32,
) -> bool {
    let read = || {
        let end = live_end(yard, address)?;
        let (what, bytes) = block::wrong_block(&yard.heap.platform, address, end)?;
        Some(wrong(yard, what, address, end, bytes, By::Look))
    };
    let restore = |found: &Finding| {
        let end = address + found.slab_bytes;
        if let Some((requested, maker)) = block::sealed_by(&yard.heap.platform, address, end) {
            block::seal_block(&yard.heap.platform, address, end, requested, maker);
        }
    };
    let looks = &yard.large.guarded.looks;
    let found = looks.look(yard.platform(), address, patience, read, restore);
    // Not while the look lasts: the report may make calls.
    found.inspect(|found| yard.heap.reports.finding(|| *found)).is_some()
}

#[cold]
fn wrong<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    what: FindingKind,
    address: usize,
    end: usize,
    bytes: Option<Bytes>,
    by: By,
) -> Finding {
    let requested =
        block::sealed(&yard.heap.platform, address, end).unwrap_or(end - SEAL - address);
    Finding {
        what,
        by,
        slot: Finding::NO_SLOT,
        slab: address,
        slab_bytes: end - address,
        objects: [1, 1],
        object: address,
        object_bytes: u32::try_from(end - SEAL - address).unwrap_or(u32::MAX),
        requested: u32::try_from(requested).unwrap_or(u32::MAX),
        pointer: address,
        bytes,
        allocated: if flags(yard).has(DebugFlags::TRACK) {
            block::block_track(&yard.heap.platform, end, bytes)
        } else {
            None
        },
        freed: None,
    }
}
