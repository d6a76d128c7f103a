//! Rebuilds a yard's caches and slabs after a call that was cut short, from the record of live
//! objects.
//!
//! Nothing is parked afterwards: objects that were in sheaves, arrays or CPU slabs, or that the
//! call held, are free in their slabs.
//!
//! Neighbours: [`crate::pages`] rebuilds the page table first; [`crate::repair`] walks over caches
//! and slabs.

use super::slabs::{Cache, CacheLimits, FixedSlabs, SlabEngine};
use crate::pages::{NONE, PageKind};
use slabyard::slab::Geometry;

impl<K: SlabEngine> Cache<K> {
    /// The cache as it began, without slabs. All that it was made of is the same, bit for bit: a
    /// repair may be cut short while this is written over the old one.
    pub fn renewed(&self, limits: &CacheLimits) -> Self {
        let geometry = self.header.shape().geometry;
        let new = Cache::new(self.number(), "", geometry, limits, self.cpus);
        new.header.rename_as(&self.header);
        new
    }
}

impl<K: SlabEngine> FixedSlabs<'_, K> {
    /// What CPUs have of the cache: nothing.
    pub fn forget_cpus(self) {
        if K::CPU_WORDS > 0 {
            let words = self.pages.table().words(self.cache.cpus, K::CPU_WORDS * self.cpu.1);
            words.iter().for_each(|word| word.set(0));
        }
    }

    /// Counts and lists a slab by what is live in it.
    pub fn adopt(self, slab: u32, is_live: impl Fn(u32) -> bool) {
        let Geometry { objects, .. } = self.cache.header.shape().geometry;
        let (mut first, mut free) = (NONE, 0);
        for index in (0..objects).rev() {
            if !is_live(index) {
                self.behind(slab, index).set(first);
                (first, free) = (index as u16, free + 1);
            }
        }
        let entry = self.pages.table().entry(slab);
        entry.free.set(free as u16);
        entry.first.set(first);
        entry.set_kind(PageKind::Slab);
        self.cache.header.count_found((objects - free).into());
        K::adopt(self, slab, free);
    }
}
