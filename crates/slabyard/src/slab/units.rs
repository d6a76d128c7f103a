//! SLOB's pages: slabs whose free memory holds the blocks' sizes and links.
//!
//! A unit is a 16-byte object of the slab's geometry. The fields of the free set have other
//! meanings here:
//!
//! * a bit is 0 where a live object starts, and 1 elsewhere;
//! * the word counts free units;
//! * the descriptor's `granules` is the number of the page's first free unit.
//!
//! Neighbours: [`crate::engine::slob`] has the policy; [`super::freeset`] sets up and discards such
//! slabs. Invariant: every change is made under the engine's lock.

use super::Word;
use super::freeset::{FREE_MASK, parts};
use crate::pages::{PageHeap, Region};
use crate::platform::{GRANULE, Platform};
use crate::slab::freeset;
use crate::sync::{AtomicU64, Ordering};

/// Bytes of a unit: what C aligns each allocation to.
pub const UNIT: u32 = 16;

/// Instead of a first free block: the slab is set aside.
const SET_ASIDE: u32 = u32::MAX;

/// The value of a unit: of free memory, or in front of an object.
///
/// # Panics
/// If the slab has no such unit.
#[inline]
pub fn unit<P: Platform>(heap: &PageHeap<P>, slab: u32, unit: u32) -> i32 {
    unit_word(heap, slab, unit).load(Ordering::Relaxed) as i32
}

/// Changes it.
///
/// # Panics
/// If the slab has no such unit.
#[inline]
pub fn set_unit<P: Platform>(heap: &PageHeap<P>, slab: u32, unit: u32, value: i32) {
    unit_word(heap, slab, unit).store(value as u32 as u64, Ordering::Relaxed);
}

#[inline]
fn unit_word<P: Platform>(heap: &PageHeap<P>, slab: u32, unit: u32) -> &AtomicU64 {
    let units = (GRANULE as u32 / UNIT) << heap.region.descriptor(slab).order();
    assert!(unit < units, "a unit of the slab");
    let at = unit as usize * UNIT as usize;
    // SAFETY: the word lies in a slab, which is committed; a unit that no live object covers
    // is the allocator's, and so is the one in front of an object.
    unsafe { heap.platform.word(heap.region.address(slab) + at) }
}

/// Free units, and the first free block.
pub fn free_units(region: &Region, slab: u32) -> (u32, u32) {
    let descriptor = region.descriptor(slab);
    let (_, free) = parts(descriptor.word.load(Ordering::Relaxed));
    (free, descriptor.granules.load(Ordering::Relaxed))
}

/// Changes them. Returns the free units before.
pub fn set_free_units(region: &Region, slab: u32, units: u32, first: u32) -> u32 {
    let descriptor = region.descriptor(slab);
    let old = descriptor.word.load(Ordering::Relaxed);
    descriptor.word.store(old & !FREE_MASK | u64::from(units), Ordering::Relaxed);
    descriptor.granules.store(first, Ordering::Relaxed);
    parts(old).1
}

/// Sets a slab aside for good. Returns the free units that are lost.
pub fn set_aside_units(region: &Region, slab: u32) -> u32 {
    set_free_units(region, slab, 0, SET_ASIDE)
}

/// True if it was set aside.
pub fn is_set_aside(region: &Region, slab: u32) -> bool {
    free_units(region, slab).1 == SET_ASIDE
}

/// The first unit from `from` on, and below `end`, where a live object begins.
pub fn next_begin<P: Platform>(heap: &PageHeap<P>, slab: u32, from: u32, end: u32) -> Option<u32> {
    let (mut at, mut skipped) = (from / Word::OBJECTS, from % Word::OBJECTS);
    while at * Word::OBJECTS < end {
        let begins = !freeset::free_bits(heap, slab, Word::nth(at as usize)) >> skipped << skipped;
        if begins != 0 {
            return Some(at * Word::OBJECTS + begins.trailing_zeros()).filter(|at| *at < end);
        }
        (at, skipped) = (at + 1, 0);
    }
    None
}
