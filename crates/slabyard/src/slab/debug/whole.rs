//! Debugging of whole slabs: sets up a new slab's objects, checks the bytes after the last one, and
//! marks a slab whose memory was found corrupt.
//!
//! ```text
//! slab | object and its parts | ... | object and its parts | tail, 0x5a |
//! ```
//!
//! With the debug flag P the tail, which no object uses, is poisoned, so that a write far past the
//! last object is detected, as by the kernel's check of a slab's padding.
//!
//! A corrupt slab is set aside: its objects are not allocated any more, and frees to it have no
//! effect. Its free objects are removed from the free set, so that lists and counters treat the
//! slab as full; its live objects stay with their owners. The descriptor's `granules` field holds
//! the mark.

use super::object::POISON_NEW;
use super::{Layout, object, track};
use crate::pages::finding::Bytes;
use crate::pages::{PageHeap, Region};
use crate::platform::Platform;
use crate::slab::{Geometry, freeset};
use crate::sync::Ordering;
use slabyard_abi::debug::DebugFlags;

/// Makes all objects of a slab that is about to begin free ones, and poisons its tail.
pub fn prepare_slab<P: Platform>(
    heap: &PageHeap<P>,
    slab: u32,
    layout: &Layout,
    geometry: &Geometry,
) {
    heap.region.descriptor(slab).granules.store(0, Ordering::Relaxed);
    let begin = heap.region.address(slab);
    for index in 0..geometry.objects {
        let object = geometry.address_of(begin, index);
        track::clear_tracks(&heap.platform, layout, object);
        if layout.flags.has(DebugFlags::POISON) {
            let (at, bytes) = layout.padding();
            // SAFETY: padding of an object of a slab that nobody else knows.
            unsafe { heap.platform.fill(object + at, bytes, POISON_NEW) };
        }
        object::release(&heap.platform, layout, object);
    }
    fill_tail(&heap.platform, layout, geometry, begin);
}

/// Begin and bytes of the tail of the slab at an address.
fn tail(layout: &Layout, geometry: &Geometry, slab: usize) -> (usize, usize) {
    let last = geometry.address_of(slab, geometry.objects - 1);
    let begin = last + (layout.stride - layout.left) as usize;
    (begin, slab + geometry.slab_bytes() - begin)
}

/// Poisons the tail.
pub fn fill_tail<P: Platform>(p: &P, layout: &Layout, geometry: &Geometry, slab: usize) {
    if layout.flags.has(DebugFlags::POISON) {
        let (begin, bytes) = tail(layout, geometry, slab);
        // SAFETY: the end of a slab, where nobody has a byte.
        unsafe { p.fill(begin, bytes, POISON_NEW) };
    }
}

/// The bytes behind the last object that are not poison any more; `None` if all are.
pub fn wrong_tail<P: Platform>(
    p: &P,
    layout: &Layout,
    geometry: &Geometry,
    slab: usize,
) -> Option<Bytes> {
    if !layout.flags.has(DebugFlags::POISON) {
        return None;
    }
    let (begin, bytes) = tail(layout, geometry, slab);
    object::wrong_in(p, begin, bytes, POISON_NEW)
}

/// In place of granules, which a slab does not have.
const ASIDE: u32 = u32::MAX;

/// True if a slab was set aside.
pub fn is_slab_aside(region: &Region, slab: u32) -> bool {
    region.descriptor(slab).granules.load(Ordering::Relaxed) == ASIDE
}

/// Sets a slab aside; returns how many free objects it had. Its cache's list lock is held, and
/// the caller takes it off the list.
pub fn set_slab_aside<P: Platform>(heap: &PageHeap<P>, slab: u32) -> u32 {
    let lost = freeset::take(heap, slab, u32::MAX, false, |_, _| {}).0;
    heap.region.descriptor(slab).granules.store(ASIDE, Ordering::Relaxed);
    heap.reports.set_aside.fetch_add(lost.into(), Ordering::Relaxed);
    lost
}
