//! Finds the kind of memory that an address is in, by the page map and the descriptors.
//!
//! Neighbours: `realloc`, `malloc_usable_size`, and frees of pointers to no live object call this.
//! Invariant: no lock is taken; for a live allocation that the caller owns, the answer is exact.

use crate::cache::classes::CLASSES;
use crate::cache::slots::{number_of, slot_of};
use crate::cache::{Cache, debug_of};
use crate::debugging::large::{guarded_bytes, is_in_quarantine};
use crate::engine::Engine;
use crate::pages::{GranuleKind, PageHeap};
use crate::platform::{GRANULE, Platform, Slot};
use crate::slab;
use crate::sync::Ordering;
use crate::yard::large::LARGEST_WARM_RUN;
use crate::yard::{AddressKind, Yard};

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Where an address is. Takes no lock; for live allocations it is exact.
    pub fn place_of(&self, address: usize) -> AddressKind {
        let region = &self.heap.region;
        if let Some(class) = self.heap.class_at(address) {
            let cache = self.caches.get(class);
            let size = cache.engine.size_at(cache.on(&self.heap), address);
            let bytes = size.unwrap_or(cache.shape().geometry.object as usize);
            return AddressKind::Object { class, bytes, begin: size.is_some() };
        }
        if self.is_guarded() && is_in_quarantine(self, address) {
            return AddressKind::Free;
        }
        if self.is_guarded()
            && let Some(bytes) = guarded_bytes(self, address)
        {
            return AddressKind::Large(bytes);
        }
        let Some(granule) = region.granule_of(address) else {
            return match self.heap.mappings.bytes_of(address) {
                Some(bytes) => AddressKind::Large(bytes),
                None if self.heap.mappings.contains(address) => AddressKind::Inside,
                None => AddressKind::Foreign,
            };
        };
        if let Some(bytes) = self.heap.run_bytes(address) {
            return AddressKind::Large(bytes);
        }
        // It may lie inside of a run: that begins at the nearest granule below which begins
        // anything.
        for first in (granule.saturating_sub((LARGEST_WARM_RUN / GRANULE) as u32)..=granule).rev() {
            let descriptor = region.descriptor(first);
            match descriptor.kind() {
                GranuleKind::None => {}
                GranuleKind::Run
                    if granule - first < descriptor.granules.load(Ordering::Relaxed) =>
                {
                    return AddressKind::Inside;
                }
                _ => break,
            }
        }
        AddressKind::Free
    }

    /// Bytes that the live allocation at an address may use.
    pub fn usable(&self, address: usize) -> Option<usize> {
        self.place_of(address).usable()
    }
}

impl<P: Platform> PageHeap<P> {
    /// Number of the cache whose slab is at an address: of a class of malloc's, or of a created
    /// cache.
    #[inline]
    pub fn class_at(&self, address: usize) -> Option<usize> {
        let granule = self.region.granule_of(address)?;
        match self.region.map_value(granule) {
            0 => None,
            offset => number_of(Slot::at(offset)),
        }
    }
}

/// False where no object of a cache begins. Only objects of malloc's classes are all aligned
/// to 16 bytes.
#[inline]
pub(crate) fn may_begin<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: &Cache<E>,
    address: usize,
) -> bool {
    if debug_of(cache).is_some() {
        // It says more about a wrong address.
        return true;
    }
    let shape = cache.shape();
    if shape.slot < slot_of(CLASSES).0 {
        return address.is_multiple_of(16);
    }
    slab::begins_object(&yard.heap.region, &shape.geometry, address)
}
