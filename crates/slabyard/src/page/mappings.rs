//! Mappings of their own: what is too large for a run. A table from address to
//! bytes, without a lock, so that a signal handler that interrupts a slow path
//! can use it.
//!
//! Open addressing; a key is 0 (never used), [`GONE`], [`BUSY`] (being written),
//! or an address. The number of mappings is bounded: beyond [`LIMIT`], memory
//! comes from the region.

use super::Ground;
use super::table::Table;
use crate::platform::{GRANULE, Platform};
use crate::sync::{AtomicUsize, Ordering};

/// Most mappings at a time.
pub const LIMIT: usize = 4096;
const PLACES: usize = 2 * LIMIT;
const GONE: usize = 1;
const BUSY: usize = 2;

/// All mappings of a yard.
pub struct Mappings {
    keys: Table<AtomicUsize>,
    sizes: Table<AtomicUsize>,
    count: AtomicUsize,
    bytes: AtomicUsize,
}

impl Mappings {
    pub(super) const fn new() -> Self {
        Mappings {
            keys: Table::new(),
            sizes: Table::new(),
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    pub(super) fn init<P: Platform>(&self, p: &P) -> bool {
        // Committed whole at once: nothing may fail or wait later.
        [&self.keys, &self.sizes].iter().all(|t| t.reserve(p, PLACES) && t.ensure(p, PLACES))
    }

    /// Bytes of the table.
    pub fn metadata_bytes(&self) -> usize {
        self.keys.committed_bytes() + self.sizes.committed_bytes()
    }

    /// Addresses of: live mappings, their bytes, bytes committed for keys and sizes.
    pub(super) fn words_at(&self) -> [usize; 4] {
        [
            self.count.as_ptr() as usize,
            self.bytes.as_ptr() as usize,
            self.keys.committed_at(),
            self.sizes.committed_at(),
        ]
    }

    /// Live mappings: number and bytes.
    pub fn live(&self) -> (usize, usize) {
        (self.count.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    fn probe(address: usize) -> impl Iterator<Item = usize> {
        // Fibonacci hashing of the page number (Knuth, TAOCP 6.4).
        let hash = (address / GRANULE).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        (0..PLACES).map(move |i| (hash + i) % PLACES)
    }

    fn find(&self, address: usize) -> Option<usize> {
        for i in Self::probe(address) {
            // Acquire pairs with the Release in `insert`: the size is there.
            match self.keys.get(i).load(Ordering::Acquire) {
                0 => return None,
                key if key == address => return Some(i),
                _ => {}
            }
        }
        None
    }

    fn insert(&self, address: usize, bytes: usize) -> bool {
        for i in Self::probe(address) {
            let key = self.keys.get(i);
            let old = key.load(Ordering::Relaxed);
            if old > GONE
                || key.compare_exchange(old, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
                continue;
            }
            self.sizes.get(i).store(bytes, Ordering::Relaxed);
            key.store(address, Ordering::Release);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            return true;
        }
        false
    }

    fn remove(&self, address: usize) -> Option<usize> {
        let i = self.find(address)?;
        let bytes = self.sizes.get(i).load(Ordering::Relaxed);
        // Of two threads that free the same mapping, one gets it.
        self.keys
            .get(i)
            .compare_exchange(address, GONE, Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Some(bytes)
    }

    /// True if an address lies in a live mapping. Looks at all of them: for
    /// messages only.
    pub fn contains(&self, address: usize) -> bool {
        (0..PLACES).any(|i| {
            let key = self.keys.get(i).load(Ordering::Acquire);
            let bytes = self.sizes.get(i).load(Ordering::Relaxed);
            key > BUSY && (key..key + bytes).contains(&address)
        })
    }

    /// True if another mapping may be made.
    pub fn has_room(&self) -> bool {
        self.count.load(Ordering::Relaxed) < LIMIT
    }
}

impl<P: Platform> Ground<P> {
    /// A mapping of its own: zeroed, aligned. `None` if the system refuses or
    /// there are too many.
    pub fn map_own(&self, bytes: usize, align: usize) -> Option<usize> {
        self.map_with(bytes, |bytes| self.platform.map(bytes, align))
    }

    /// As [`Ground::map_own`], made by `map` of whole pages.
    pub(super) fn map_with(
        &self,
        bytes: usize,
        map: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(self.platform.page_bytes())?;
        if self.mappings.count.fetch_add(1, Ordering::Relaxed) < LIMIT
            && let Some(address) = map(bytes)
        {
            if self.mappings.insert(address, bytes) {
                return Some(address);
            }
            self.platform.unmap(address, bytes);
        }
        self.mappings.count.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Bytes of the mapping that begins at `address`, if one does.
    pub fn own_bytes(&self, address: usize) -> Option<usize> {
        let i = self.mappings.find(address)?;
        Some(self.mappings.sizes.get(i).load(Ordering::Relaxed))
    }

    /// Ends the mapping that begins at `address`: its bytes, or `None` if none does.
    pub fn unmap_own(&self, address: usize) -> Option<usize> {
        let bytes = self.mappings.remove(address)?;
        self.platform.unmap(address, bytes);
        self.mappings.count.fetch_sub(1, Ordering::Relaxed);
        Some(bytes)
    }

    /// Resizes a mapping, moving it if need be. On `None` it is as it was.
    pub fn remap_own(&self, address: usize, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(self.platform.page_bytes())?;
        let old = self.mappings.remove(address)?;
        let moved = self.platform.remap(address, old, bytes);
        let (at, size) = moved.map_or((address, old), |at| (at, bytes));
        // There is a free place: one was given up above, and `count` holds it.
        let inserted = self.mappings.insert(at, size);
        debug_assert!(inserted);
        moved
    }
}
