//! Allocates, resizes and frees blocks that are separate mappings.
//!
//! Neighbour: [`super::mappings`] records them.

use crate::pages::PageHeap;
use crate::platform::Platform;
use crate::sync::Ordering;

impl<P: Platform> PageHeap<P> {
    /// Makes a mapping, zeroed and aligned; returns its address. `None` if the kernel refuses
    /// or there are too many.
    pub fn map_own(&self, bytes: usize, align: usize) -> Option<usize> {
        self.map_with(bytes, |bytes| self.platform.map(bytes, align))
    }

    /// As [`PageHeap::map_own`], with `map` to make it, of whole pages.
    pub(super) fn map_with(
        &self,
        bytes: usize,
        map: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        let (p, mappings) = (&self.platform, &self.mappings);
        let bytes = bytes.checked_next_multiple_of(p.page_bytes())?;
        let table = mappings.tables.iter().find(|table| table.reserve_slot())?;
        if table.is_there(p)
            && let Some(address) = map(bytes)
        {
            if mappings.insert(table, address, bytes) {
                return Some(address);
            }
            p.unmap(address, bytes);
        }
        table.release_slot();
        None
    }

    /// Bytes of the mapping that begins at `address`, if one does.
    pub fn own_bytes(&self, address: usize) -> Option<usize> {
        Some(self.mappings.find(address)?.entry.bytes.load(Ordering::Relaxed))
    }

    /// Unmaps the mapping that begins at `address`; returns its bytes, or `None` if none does.
    pub fn unmap_own(&self, address: usize) -> Option<usize> {
        let (table, bytes) = self.mappings.remove(address)?;
        self.platform.unmap(address, bytes);
        table.release_slot();
        Some(bytes)
    }

    /// Resizes a mapping, and moves it if it must. On `None` the mapping is unchanged.
    pub fn remap_own(&self, address: usize, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(self.platform.page_bytes())?;
        let (table, old) = self.mappings.remove(address)?;
        let moved = self.platform.remap(address, old, bytes);
        let (at, size) = moved.map_or((address, old), |at| (at, bytes));
        // A slot is free: `remove` left one reserved.
        let inserted = self.mappings.insert(table, at, size);
        debug_assert!(inserted);
        moved
    }
}
