//! Floor 3: slabs. [`geometry`] computes how many objects of a size fit, [`freeset`] records which
//! of them are free, [`constructor`] initialises them, [`debug`] adds zones and tracks, [`units`]
//! divides SLOB's pages; this module finds the slab and the object of an address.

pub mod constructor;
pub mod debug;
pub mod freeset;
pub mod frozen;
pub mod geometry;
pub mod units;
mod word;

pub use constructor::ObjectFn;
pub use freeset::{Put, Version};
pub use geometry::Geometry;
pub use word::Word;

use crate::pages::{Cause, GranuleKind, Region};
use crate::platform::GRANULE;

/// One object: the slab's first granule, and the object's number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Object {
    /// First granule of the slab.
    pub slab: u32,
    /// Number within the slab.
    pub index: u32,
}

/// The object at an address that should be of this geometry and slot.
///
/// # Errors
/// The cause of misuse, if no such object begins there.
pub fn resolve(
    region: &Region,
    geometry: &Geometry,
    slot: u16,
    address: usize,
) -> Result<Object, Cause> {
    let (slab, offset) = spot(region, geometry, address).ok_or(Cause::WrongSize)?;
    if !is_slab(region, slab, slot) {
        return Err(Cause::WrongSize);
    }
    let index = geometry.object_at(offset).ok_or(Cause::Interior)?;
    Ok(Object { slab, index })
}

/// True if an object begins at an address that, by the page map, is in a slab of this
/// geometry. Reads no descriptor, because that is a cache miss.
#[inline]
pub fn begins_object(region: &Region, geometry: &Geometry, address: usize) -> bool {
    spot(region, geometry, address).is_some_and(|(_, offset)| geometry.object_at(offset).is_some())
}

/// If an address is in the region: the granule where a slab of this geometry around it
/// would begin, and the address's offset from there.
#[inline]
fn spot(region: &Region, geometry: &Geometry, address: usize) -> Option<(u32, u32)> {
    let granule = region.granule_of(address)?;
    // Runs are aligned to their size, and the region to more than the largest slab's.
    let offset = address & (geometry.slab_bytes() - 1);
    Some((granule & !(geometry.granules() - 1), offset as u32))
}

/// True if a slab of a slot begins at a granule that is committed.
#[inline]
pub fn is_slab(region: &Region, granule: u32, slot: u16) -> bool {
    let descriptor = region.descriptor(granule);
    descriptor.kind() == GranuleKind::Slab && descriptor.slot() == slot
}

/// The slab around an address, and the word of its bitmap with the object there. Holds if
/// [a slab](is_slab) of this geometry begins there, which the caller checks.
#[inline]
pub fn word_at(region: &Region, geometry: &Geometry, address: usize) -> Option<(u32, Word)> {
    let (slab, offset) = spot(region, geometry, address)?;
    let (index, _) = geometry.index_at(offset);
    (index < geometry.objects).then_some((slab, Word::of(index).0))
}

/// The granule where a slab of this geometry around an address would begin, unchecked:
/// good for a prefetch alone.
#[inline]
pub fn slab_at(region: &Region, geometry: &Geometry, address: usize) -> u32 {
    let granule = (address.wrapping_sub(region.base()) / GRANULE) as u32;
    granule & !(geometry.granules() - 1)
}

/// The address of an object.
#[inline]
pub fn address_of(region: &Region, geometry: &Geometry, object: Object) -> usize {
    geometry.address_of(region.address(object.slab), object.index)
}
