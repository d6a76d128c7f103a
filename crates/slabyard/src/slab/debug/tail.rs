//! The bytes of a slab after its last object, which no object uses.
//!
//! ```text
//! slab | object and its parts | ... | object and its parts | tail, 0x5a |
//! ```
//!
//! With the flag P they are poisoned, so that a write far past the last object is detected, as by
//! the kernel's check of a slab's padding.

use super::Layout;
use super::object::POISON_NEW;
use crate::pages::finding::Bytes;
use crate::platform::Platform;
use crate::slab::Geometry;
use crate::slab::debug::object;
use slabyard_abi::debug::DebugFlags;

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
