//! Blocks that `realloc` grows step by step: they get extra room in proportion to their size, so
//! that a buffer to which a program appends moves only O(log size) times.
//!
//! A block that grows for the first time gets exactly the requested size. Its new address and size
//! are recorded in a small table; if the block grows again from there by a small step, it gets a
//! [`PART`]th more than was requested. A program that grows its blocks geometrically makes room
//! itself, so its blocks get none here. The extra room is part of the block: the program may use it
//! (`malloc_usable_size`). Pages of the room that were never touched are not resident, and a run or
//! mapping that the program shrinks gives back all pages above the new size.
//!
//! A buffer that grows to 1 MB by 1000 bytes at a time moves 12 times; without extra room it moved
//! 256 times. 2000 live lines, grown to at most 8 KB, take 10.8 MiB instead of 10.1. Without the
//! recorded size, each growth within the room would look like a shrink and release the room.
//!
//! Neighbours: [`crate::large`] grows and shrinks runs and mappings in place.
//! Invariant: the table is a hint. Threads overwrite each other's entries, and a new block at the
//! address of an earlier growing block may get room one growth too early.

use crate::cache::classes::{LARGEST, STEP};
use crate::cache::slots::number_of;
use crate::calls::is_sized;
use crate::calls::resize;
use crate::engine::Engine;
use crate::pages::GranuleKind;
use crate::platform::{GRANULE, Platform, Slot};
use crate::sync::Ordering;
use crate::verify::close;
use crate::yard::growth::bit;
use crate::yard::large::LARGEST_RUN;
use crate::yard::{AddressKind, Yard};
use crate::{debugging, slab};

/// A step is small up to this part of the block. The room is the same part of it.
pub(crate) const PART: usize = 4;
/// The most room.
pub(crate) const MOST: usize = 64 << 20;
/// A known block that becomes smaller by up to this part keeps its pages: it may grow again.
const KEPT_PART: usize = 8;

/// True if a block of the caller's stays as it is: an object that has room for this many bytes,
/// not twice as much, or a run of which as many pages are asked for as before. As
/// [`resize_at`] would say, but sooner; false says nothing.
#[inline]
pub fn stays<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize, bytes: usize) -> bool {
    if E::SIZED {
        return false;
    }
    let region = &yard.heap.region;
    let Some(granule) = region.granule_of(address) else { return false };
    let Some(class) = number_of(Slot::at(region.map_value(granule))) else {
        return bytes > LARGEST && run_stays(yard, granule, address, bytes);
    };
    let Some(cache) = yard.caches.classes().get(class) else { return false };
    let geometry = &cache.shape().geometry;
    let have = geometry.object as usize;
    let stays = bytes <= have
        && bytes >= have / 2
        && slab::begins_object(&yard.heap.region, geometry, address)
        && !close::looks_freed(yard, address);
    if stays {
        note_roomy(yard, class, bytes);
    }
    stays
}

/// Resizes a block of the caller's where it is, or by moving its pages: returns its address.
/// `None` if it must be copied: to a block of [`alloc_resized`]. The place is what
/// [`Yard::place_of`] says of it.
#[inline]
pub fn resize_at<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    place: AddressKind,
    address: usize,
    bytes: usize,
) -> Option<usize> {
    match place {
        AddressKind::Object { class, bytes: have, begin: true }
            if bytes <= have && bytes >= have / 2 =>
        {
            // A debugged object moves, so that stale pointers are found.
            if debugging::is_debugged(yard, address) {
                return None;
            }
            note_roomy(yard, class, bytes);
            Some(address)
        }
        AddressKind::Large(have) => resize_large(yard, address, have, bytes),
        _ => None,
    }
}

/// A block to which the caller copies one that [`resize_at`] could not resize.
pub fn alloc_resized<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
    have: usize,
    bytes: usize,
) -> Option<usize> {
    if bytes <= have {
        return yard.alloc_fast(bytes, STEP);
    }
    let room = roomy_bytes(yard, address, have, bytes);
    let new = resize::alloc_growing(yard, room)
        .or_else(|| (room > bytes).then(|| resize::alloc_growing(yard, bytes))?)?;
    yard.growth.note_asked(&yard.heap, new, bytes);
    if room > bytes
        && let Some(class) = yard.heap.class_at(new)
    {
        note_roomy(yard, class, bytes);
    }
    Some(new)
}

/// True if objects of a class may be larger than what was asked for last says, because
/// `realloc` left them room.
pub fn is_roomy<P: Platform, E: Engine>(yard: &Yard<P, E>, class: usize) -> bool {
    yard.growth.roomy.load(Ordering::Relaxed) & bit(class) != 0
}

/// Bytes for a block of `have` bytes that is asked to grow.
fn roomy_bytes<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
    have: usize,
    bytes: usize,
) -> usize {
    let is_step = bytes - have <= have / PART;
    if !is_step
        || yard.growth.asked(&yard.heap, address).is_none()
        || debugging::is_debugged(yard, address)
        || yard.is_guarded()
    {
        return bytes;
    }
    let room = bytes.saturating_add((bytes / PART).min(MOST));
    // A block stays of its kind; SLOB has other limits.
    let is_object = |bytes| yard.class_for(bytes, STEP).is_some();
    if is_sized(yard) && is_object(bytes) != is_object(room) {
        return bytes;
    }
    let limits = [LARGEST, LARGEST_RUN];
    limits.into_iter().find(|limit| bytes <= *limit).map_or(room, |limit| room.min(limit))
}

#[inline]
fn run_stays<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    granule: u32,
    address: usize,
    bytes: usize,
) -> bool {
    let run = yard.heap.region.descriptor(granule);
    let have = run.granules.load(Ordering::Relaxed) as usize;
    address.is_multiple_of(GRANULE)
        && run.kind() == GranuleKind::Run
        && bytes <= have * GRANULE
        && yard.growth.asked(&yard.heap, address).unwrap_or(have) == yard.heap.granules_for(bytes)
}

fn resize_large<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
    have: usize,
    bytes: usize,
) -> Option<usize> {
    if bytes <= have {
        return resize_inside(yard, address, have, bytes);
    }
    let room = roomy_bytes(yard, address, have, bytes);
    let resized = yard.resize(address, room).or_else(|| {
        // There is less room behind it, or less memory.
        (room > bytes).then(|| yard.resize(address, bytes))?
    })?;
    yard.growth.note_asked(&yard.heap, resized, bytes);
    Some(resized)
}

/// Resizes a large block to what it has or less.
fn resize_inside<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
    have: usize,
    bytes: usize,
) -> Option<usize> {
    // SLOB's runs may be small.
    if yard.class_for(bytes, STEP).is_some() || yard.is_guarded() {
        return yard.resize(address, bytes);
    }
    let granules = yard.heap.granules_for(bytes);
    if let Some(asked) = yard.growth.asked(&yard.heap, address) {
        if granules != asked {
            yard.growth.note_asked(&yard.heap, address, bytes);
        }
        // It grows in its room, or may grow again.
        if granules >= asked || have - bytes <= have / KEPT_PART {
            return Some(address);
        }
    }
    if granules == yard.heap.granules_for(have) {
        Some(address)
    } else {
        yard.resize(address, bytes)
    }
}

/// Records that an object of a class serves this many bytes.
#[inline]
fn note_roomy<P: Platform, E: Engine>(yard: &Yard<P, E>, class: usize, bytes: usize) {
    let is_sized = E::SIZED && is_sized(yard);
    if (is_sized || yard.class_for(bytes, STEP) != Some(class)) && !is_roomy(yard, class) {
        yard.growth.roomy.fetch_or(bit(class), Ordering::Relaxed);
    }
}
