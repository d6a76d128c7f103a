//! Resizes large blocks in place, and zeroes fresh blocks.
//!
//! Neighbours: [`super::growth`] decides how much extra room a block gets; [`crate::large`]
//! allocates and frees blocks.

use crate::cache::classes;
use crate::debugging;
use crate::engine::Engine;
use crate::large::{SMALLEST_LARGE, alloc_warm_in, make_room, map_large};
use crate::pages::PageHeap;
use crate::platform::{GRANULE, Platform};
use crate::reclaim::live::is_large_warm;
use crate::slow_path::enter_slow_path;
use crate::sync::Ordering;
use crate::yard::depth::RUN_CALLS;
use crate::yard::large::{LARGEST_RUN, LARGEST_WARM_RUN};
use crate::yard::{AddressKind, Yard};

/// The alignment of blocks that `realloc` makes.
const ALIGN: usize = 16;

/// A zeroed block of up to this many bytes may be faulted in whole.
/// `calloc` wrote to each page of such blocks, because programs look into a table before they enter
/// something and each page faulted twice; but 2000 sparse ones of 200 KB were 402 MB resident, and
/// are 18. So it does so only for as many bytes as runs were freed before: a program whose tables
/// replace others takes 1.03 of the time.
const LARGEST_TOUCHED: usize = 256 << 10;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Resizes a block without copying its bytes: returns the same address, or that to which the
    /// system moved its pages. `None` if that is not possible.
    pub fn resize(&self, address: usize, bytes: usize) -> Option<usize> {
        match self.place_of(address) {
            // A debugged object moves, so that stale pointers are found.
            AddressKind::Object { .. } if debugging::is_debugged(self, address) => None,
            AddressKind::Large(_) if self.is_guarded() => None,
            AddressKind::Object { bytes: have, begin: true, .. } => {
                (bytes <= have && bytes >= have / 2).then_some(address)
            }
            AddressKind::Large(have) if self.heap.run_bytes(address).is_some() => {
                // A run of an object's size has an alignment that no object has; what `realloc`
                // makes of it is an object, whose size its free may name.
                if bytes <= classes::LARGEST {
                    return None;
                }
                if bytes > have {
                    return grow_live_run(self, address, have, bytes);
                }
                let _slow_path = enter_slow_path(self, RUN_CALLS)?;
                self.heap.shrink_run(address, bytes);
                Some(address)
            }
            AddressKind::Large(have) if bytes > LARGEST_RUN => {
                let _slow_path = enter_slow_path(self, RUN_CALLS)?;
                let moved = self.heap.mappings.remap(&self.heap.platform, address, bytes)?;
                if bytes > have {
                    make_room(self, (bytes - have) / GRANULE, bytes);
                }
                Some(moved)
            }
            _ => None,
        }
    }
}

/// As [`Yard::alloc_fast`], for a block that has grown and may grow again: a large one is a
/// mapping, which grows without copying, or where such blocks come and go a run with as much
/// room as the last freed large block had.
pub fn alloc_growing<P: Platform, E: Engine>(yard: &Yard<P, E>, bytes: usize) -> Option<usize> {
    if bytes > LARGEST_RUN
        && bytes <= isize::MAX as usize
        && !yard.is_guarded()
        && let Some(_slow_path) = enter_slow_path(yard, RUN_CALLS)
        && let Some(address) = alloc_large_growing(yard, bytes)
    {
        return Some(address);
    }
    yard.alloc_fast(bytes, ALIGN)
}

/// Zeroes a fresh allocation, and writes nothing that is known to be zero: a table may be
/// sparse. But where as many bytes of blocks that could be runs were freed before, a small
/// block is written to in each page: programs look into a table before they enter something,
/// and a page that is read first is faulted in twice, once as the page of zeros.
///
/// # Safety
/// `pointer` is an allocation of this yard of at least this many bytes, the caller's alone, in
/// which nothing was written yet.
pub unsafe fn zero_fresh<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    pointer: *mut u8,
    bytes: usize,
) {
    let touched = yard.large.touched.load(Ordering::Relaxed);
    if bytes > classes::LARGEST && bytes <= touched.min(LARGEST_TOUCHED) {
        yard.large.touched.store(touched - bytes, Ordering::Relaxed);
        for offset in (0..bytes).step_by(GRANULE) {
            // SAFETY: inside of the allocation.
            unsafe { pointer.add(offset).write_volatile(0) };
        }
    }
    each_dirty_part(&yard.heap, pointer.expose_provenance(), bytes, |offset, n| {
        // SAFETY: as above.
        unsafe { pointer.add(offset).write_bytes(0, n) };
    });
}

/// Calls `f` with offset and bytes of each part of a fresh allocation that may hold anything
/// but zeros.
pub fn each_dirty_part<P: Platform>(
    heap: &PageHeap<P>,
    address: usize,
    bytes: usize,
    mut f: impl FnMut(usize, usize),
) {
    let region = &heap.region;
    let Some(first) = region.granule_of(address) else {
        return;
    };
    if heap.class_at(address).is_some() {
        return f(0, bytes);
    }
    let (mut at, end) = (0, bytes.div_ceil(GRANULE));
    while at < end {
        let (n, dirty) = region.stretch(first as usize + at, end - at);
        if dirty {
            f(at * GRANULE, (n * GRANULE).min(bytes - at * GRANULE));
        }
        at += n;
    }
}

fn alloc_large_growing<P: Platform, E: Engine>(yard: &Yard<P, E>, bytes: usize) -> Option<usize> {
    let room = yard.large.freed_bytes.load(Ordering::Relaxed).min(LARGEST_WARM_RUN);
    if bytes <= LARGEST_WARM_RUN
        && is_large_warm(yard)
        && let Some(address) = alloc_warm_in(yard, room, bytes, ALIGN)
    {
        return Some(address);
    }
    map_large(yard, bytes, ALIGN)
}

/// Grows a run: in place, or a large one by moving its pages out to a mapping. `None` for a
/// smaller run that has no room, which the caller copies to dirty pages.
fn grow_live_run<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
    have: usize,
    bytes: usize,
) -> Option<usize> {
    let is_large = have > LARGEST_RUN;
    if !is_large && bytes > LARGEST_RUN {
        return None;
    }
    let _slow_path = enter_slow_path(yard, RUN_CALLS)?;
    if bytes <= LARGEST_WARM_RUN
        && let Some(new) = yard.heap.grow_run(address, bytes)
    {
        if bytes > SMALLEST_LARGE && new > 0 {
            make_room(yard, new, bytes);
        }
        return Some(address);
    }
    if !is_large {
        return None;
    }
    let moved = yard.heap.move_run_out(address, bytes)?;
    make_room(yard, (bytes - have) / GRANULE, bytes);
    Some(moved)
}
