//! Floor 3: slabs. How many objects of a size fit ([`geometry`]), which of them
//! are free ([`freeset`]), and from an address to its slab and object.

pub mod freeset;
pub mod geometry;

pub use freeset::{Put, Version, Word};
pub use geometry::Geometry;

use crate::pages::{Cause, Kind, PageHeap};
use crate::platform::{GRANULE, Platform};

/// One object: the slab's first granule, and the object's number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Object {
    /// First granule of the slab.
    pub slab: u32,
    /// Number within the slab.
    pub index: u32,
}

impl<P: Platform> PageHeap<P> {
    /// The object at an address, which the caller believes to be of this
    /// geometry and slot.
    ///
    /// # Errors
    /// Why it is not.
    pub fn resolve(&self, geometry: &Geometry, slot: u16, address: usize) -> Result<Object, Cause> {
        let (slab, offset) = self.spot(geometry, address).ok_or(Cause::WrongSize)?;
        if !self.is_slab(slab, slot) {
            return Err(Cause::WrongSize);
        }
        let index = geometry.object_at(offset).ok_or(Cause::Interior)?;
        Ok(Object { slab, index })
    }

    /// True if an object begins at an address that, by the page map, lies in a slab of this
    /// geometry: asks no descriptor, which is a miss.
    #[inline]
    pub fn begins_object(&self, geometry: &Geometry, address: usize) -> bool {
        self.spot(geometry, address).is_some_and(|(_, offset)| geometry.object_at(offset).is_some())
    }

    /// Where the slab begins that an address lies in, if it does in one of this geometry at
    /// all, and how far behind that it lies.
    #[inline]
    fn spot(&self, geometry: &Geometry, address: usize) -> Option<(u32, u32)> {
        let granule = self.region.granule_of(address)?;
        // Runs are aligned to their size, and the region to more than the largest slab's.
        let offset = address & (geometry.slab_bytes() - 1);
        Some((granule & !(geometry.granules() - 1), offset as u32))
    }

    /// True if a slab of a slot begins at a granule that is committed.
    #[inline]
    pub fn is_slab(&self, granule: u32, slot: u16) -> bool {
        let descriptor = self.region.descriptor(granule);
        descriptor.kind() == Kind::Slab && descriptor.slot() == slot
    }

    /// The slab, and in its bitmap the word of the object, that an address lies in, if [a
    /// slab](PageHeap::is_slab) of this geometry begins there.
    #[inline]
    pub fn word_at(&self, geometry: &Geometry, address: usize) -> Option<(u32, Word)> {
        let (slab, offset) = self.spot(geometry, address)?;
        let (index, _) = geometry.divide(offset);
        (index < geometry.objects).then_some((slab, Word::of(index).0))
    }

    /// The granule where the slab begins that an address lies in, if it does in one of this
    /// geometry: a number to fetch ahead.
    #[inline]
    pub fn slab_at(&self, geometry: &Geometry, address: usize) -> u32 {
        let granule = (address.wrapping_sub(self.region.base()) / GRANULE) as u32;
        granule & !(geometry.granules() - 1)
    }

    /// The address of an object.
    #[inline]
    pub fn address_of(&self, geometry: &Geometry, object: Object) -> usize {
        geometry.address_of(self.region.address(object.slab), object.index)
    }
}
