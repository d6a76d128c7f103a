//! Large allocations: a block larger than every class is a run of pages, or a mapping of its own.
//!
//! Neighbours: runs come from the buddy ([`crate::pages::buddy`]), mappings from
//! [`crate::pages::mappings`].
//!
//! The pages of a freed run stay resident for the decay time, and the next run reuses them. A freed
//! mapping's pages are unmapped at once; a mapping grows without copying. So a block above
//! [`LARGEST_RUN`] is a mapping, unless the program frees and allocates such blocks in turn. It is
//! a run if it is allocated within the decay time after such a block was freed. Thus a program that
//! frees a large block and then goes idle gives its memory back; a program that replaces the block
//! reuses resident pages. A large block that grows is a mapping, or, if the program replaces such
//! blocks, a run with as much room as the last freed large block had. A run that outgrows its room
//! moves its pages out to a mapping ([`crate::pages`]'s `grown`). (glibc adapts its `mmap`
//! threshold to the sizes of freed blocks for the same reason: mallopt(3).) In a process whose
//! first frees were checked closely ([`crate::verify::close`]), blocks from [`SMALLEST_FAULTING`]
//! to [`LARGEST_RUN`] are mappings too, as many as [`Large::may_fault`](crate::yard::large) allows,
//! so that a use after free faults. Their cost in system calls and page faults is bounded per unit
//! of time, so the check may last for ever; a program that always replaces large blocks gets runs.

use crate::debugging::large::{alloc_guarded, free_guarded};
use crate::engine::Engine;
use crate::pages::{bank, runs};
use crate::platform::{GRANULE, Platform};
use crate::reclaim::live::{is_large_warm, live_granules};
use crate::reclaim::surplus::{give_surplus_of, look_at_surplus};
use crate::reclaim::ticker::start_ticker_for_bank;
use crate::sync::Ordering;
use crate::yard::Yard;
use crate::yard::large::{LARGEST_RUN, LARGEST_WARM_RUN};

/// The largest run where there are [many](crate::pages::mappings::Mappings::are_many) mappings:
/// larger blocks may be sparse, and would leave small objects no room.
const LARGEST_OF_MANY: usize = 16 << 20;
/// The smallest block that may be a mapping where it could be a run: glibc's threshold.
pub(crate) const SMALLEST_FAULTING: usize = 128 << 10;

/// No such mapping is made where there are so many mappings: the kernel has a limit.
const MOST_FAULTING: usize = 1024;

/// Where large blocks come and go, dirty free pages may raise the peak by this part of it, and by
/// this many granules. A block that is copied to another of twice its size each time it is full has
/// had blocks of twice the last one's size together, of which the last two, three quarters, are
/// live at once: where the others' pages go back, the next such block takes new ones.
/// With a quarter, a vector of 4 MiB lay 2 MiB further each time: 200 had 20,200 to
/// 22,200 page faults and have 5600 to 6900, at the same peak (`vector_2_4m` of
/// `ci/growth-by-hand`).
const PEAK_PART: usize = 3;
const PEAK_MORE: usize = (512 << 10) / GRANULE;

/// Zeroed blocks of at most this many bytes in a row may be faulted in whole.
const MOST_TOUCHED: usize = 1 << 20;

/// The free of a block may give back this many times as much.
pub(crate) const SHED: usize = 4;

/// A run larger than this makes room for the new pages that it takes, and gives back as it is freed.
pub(crate) const SMALLEST_LARGE: usize = 64 << 10;

pub(crate) fn alloc_large<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    if yard.is_guarded() {
        return alloc_guarded(yard, bytes, align);
    }
    let bytes = bytes.max(1);
    let need = bytes.max(align);
    if need <= LARGEST_RUN {
        let faulting = need >= SMALLEST_FAULTING && is_to_fault(yard, need);
        let mapped = if faulting { map_large(yard, bytes, align) } else { None };
        return mapped.or_else(|| alloc_warm(yard, bytes, align));
    }
    yard.surplus.allocates();
    if need <= LARGEST_WARM_RUN
        && is_large_warm(yard)
        && let Some(address) = alloc_warm(yard, bytes, align)
    {
        return Some(address);
    }
    if yard.heap.mappings.are_many()
        && need <= LARGEST_OF_MANY
        && let Some(address) = yard.heap.alloc_run(bytes, align)
    {
        return Some(address);
    }
    // Where address space is limited, the region may hold all that there is.
    map_large(yard, bytes, align).or_else(|| yard.heap.alloc_run(bytes, align))
}

/// As many bytes of zeroed blocks may be faulted in whole.
#[inline(always)]
pub(crate) fn note_freed<P: Platform, E: Engine>(yard: &Yard<P, E>, bytes: usize) {
    let touched = yard.large.touched.load(Ordering::Relaxed);
    if bytes <= LARGEST_RUN && touched < MOST_TOUCHED {
        yard.large.touched.store((touched + bytes).min(MOST_TOUCHED), Ordering::Relaxed);
    }
}

fn alloc_warm<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    alloc_warm_in(yard, bytes, bytes, align)
}

pub(crate) fn alloc_warm_in<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    room: usize,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    let address = yard.heap.alloc_run_in(room, bytes, align)?;
    let region = &yard.heap.region;
    if bytes > SMALLEST_LARGE
        && let Some(first) = region.granule_of(address)
    {
        let granules = yard.heap.granules_for(bytes);
        let new = granules - region.dirty_in(first as usize, granules);
        if new > 0 {
            make_room(yard, new, bytes);
        }
    }
    Some(address)
}

pub(crate) fn map_large<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    let address = yard.heap.mappings.map(&yard.heap.platform, bytes, align)?;
    make_room(yard, bytes / GRANULE, bytes);
    Some(address)
}

/// Makes room for this many granules that will be touched anew. Dirty free pages may raise the
/// peak by a [`PEAK_PART`]th and a little at most: the surplus is purged, up to `new` granules.
pub(crate) fn make_room<P: Platform, E: Engine>(yard: &Yard<P, E>, new: usize, request: usize) {
    let heap = &yard.heap;
    let free = runs::free_count(heap);
    let live = live_granules(yard, free.free);
    let peak = yard.large.peak.fetch_max(live, Ordering::Relaxed).max(live);
    let surplus = (live + free.dirty).saturating_sub(peak + peak / PEAK_PART + PEAK_MORE);
    if surplus == 0 || free.dirty == 0 {
        return;
    }
    if request > LARGEST_RUN {
        // In proportion to the request, as its mapping and unmapping are.
        heap.purge(0, surplus.min(new));
    } else {
        // The next slow paths purge it: this call stays within its bound.
        yard.backlog.fetch_max(surplus.min(new), Ordering::Relaxed);
    }
}

/// Frees the run or mapping that begins at an address; false if none does.
pub(crate) fn free_large<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    if yard.is_guarded() {
        return free_guarded(yard, address);
    }
    yard.growth.forget(&yard.heap, address);
    if let Some(bytes) = bank::put_in_slow_path(&yard.heap, address, !yard.surplus.has_collapsed())
    {
        note_freed(yard, bytes);
        // Its runs go back when it is idle, and count for the surplus until then.
        start_ticker_for_bank(yard);
        look_at_surplus(yard);
        return true;
    }
    let run = yard.heap.free_live_run(address);
    let Some(bytes) = run.or_else(|| yard.heap.mappings.unmap(&yard.heap.platform, address)) else {
        return false;
    };
    note_freed(yard, bytes);
    if bytes > LARGEST_RUN {
        yard.large.freed.store(yard.platform().now_ms() + 1, Ordering::Relaxed);
        yard.large.freed_bytes.store(bytes, Ordering::Relaxed);
    }
    if run.is_some() && bytes > SMALLEST_LARGE {
        give_surplus_of(yard, SHED * bytes / GRANULE);
    }
    true
}

/// True if a block that could be a run is to be a mapping, which faults after its free.
fn is_to_fault<P: Platform, E: Engine>(yard: &Yard<P, E>, bytes: usize) -> bool {
    yard.checks.began()
        && yard.heap.mappings.live().0 < MOST_FAULTING
        && yard.large.may_fault(yard.platform().now_ms(), bytes)
}
