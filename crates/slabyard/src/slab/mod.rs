//! Floor 3: slabs. How many objects of a size fit ([`geometry`]), which of them
//! are free ([`freeset`]), and from an address to its slab and object.

pub mod freeset;
pub mod geometry;

pub use freeset::{Put, Version, Word};
pub use geometry::Geometry;

use crate::page::{Cause, Ground, Kind};
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

impl<P: Platform> Ground<P> {
    /// The object at an address, which the caller believes to be of this
    /// geometry and slot.
    ///
    /// # Errors
    /// Why it is not.
    pub fn resolve(&self, geometry: &Geometry, slot: u16, address: usize) -> Result<Object, Cause> {
        let slab = self.slab_of(geometry, slot, address)?;
        let offset = (address - self.region.address(slab)) as u32;
        let index = geometry.object_at(offset).ok_or(Cause::Interior)?;
        Ok(Object { slab, index })
    }

    /// The slab that an address lies in, which the caller believes to be of this
    /// geometry and slot.
    ///
    /// # Errors
    /// [`Cause::WrongSize`] if it is not.
    pub fn slab_of(&self, geometry: &Geometry, slot: u16, address: usize) -> Result<u32, Cause> {
        let granule = self.region.granule_of(address).ok_or(Cause::WrongSize)?;
        // Runs are aligned to their size.
        let slab = granule & !(geometry.granules() - 1);
        let frame = self.region.frame(slab);
        let is_slab = frame.kind() == Kind::Slab && frame.slot() == slot;
        is_slab.then_some(slab).ok_or(Cause::WrongSize)
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
