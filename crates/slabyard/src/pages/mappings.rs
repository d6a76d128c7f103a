//! Mappings of their own: what is too large for a run. Tables from address to bytes,
//! without a lock, so that a signal handler that interrupts a slow path can use them.
//!
//! Open addressing, with a bound on each search: the largest distance of an address from
//! its place that there ever was. So a place that was given up is as one never used, and a
//! search for what is not there ends soon however many mappings came and went. Half of a
//! table is used at most, which keeps that distance small.
//!
//! The first table is there from the begin. The second is made where somebody has more
//! mappings than it takes: of smaller blocks memory comes from the region then, but sparse
//! ones would be most of it.

use super::PageHeap;
use crate::platform::{GRANULE, Platform, Use};
use crate::sync::{AtomicUsize, Ordering};

/// Mappings that each table takes.
pub const LIMITS: [usize; 2] = [4096, 128 << 10];
/// Of a table's places so many are used at most, one of them.
const PART: usize = 2;
/// The key of a place that is being written.
const BUSY: usize = 1;

/// A place: an address, 0 where it is free, and its bytes.
#[repr(C)]
struct Entry {
    key: AtomicUsize,
    bytes: AtomicUsize,
}

struct Table {
    /// Address of the first place; 0 without a table.
    base: AtomicUsize,
    committed_bytes: AtomicUsize,
    limit: usize,
    /// Mappings in it, and those that are being made.
    taken: AtomicUsize,
    /// Most places behind its own at which an address was ever put.
    farthest: AtomicUsize,
}

/// Where a mapping is written down.
#[derive(Clone, Copy)]
struct Spot<'a> {
    table: &'a Table,
    entry: &'a Entry,
}

/// All mappings of a yard.
pub struct Mappings {
    tables: [Table; LIMITS.len()],
    count: AtomicUsize,
    bytes: AtomicUsize,
}

impl Table {
    const fn new(limit: usize) -> Self {
        Table {
            base: AtomicUsize::new(0),
            committed_bytes: AtomicUsize::new(0),
            limit,
            taken: AtomicUsize::new(0),
            farthest: AtomicUsize::new(0),
        }
    }

    const fn places(&self) -> usize {
        PART * self.limit
    }

    /// Makes it, if it is not there. Of two that make it, one leaves its memory unused.
    fn is_there<P: Platform>(&self, p: &P) -> bool {
        if self.base.load(Ordering::Acquire) != 0 {
            return true;
        }
        let page = p.page_bytes();
        let bytes = (self.places() * size_of::<Entry>()).next_multiple_of(page);
        let Some(base) = p.reserve(bytes, page, Use::Table).filter(|base| p.commit(*base, bytes))
        else {
            return false;
        };
        let (set, seen) = (Ordering::AcqRel, Ordering::Acquire);
        if self.base.compare_exchange(0, base, set, seen).is_ok() {
            self.committed_bytes.store(bytes, Ordering::Relaxed);
        }
        true
    }

    fn entries(&self) -> &[Entry] {
        match self.base.load(Ordering::Acquire) {
            0 => &[],
            // SAFETY: so many places were committed, zeroed, before the address was set, for
            // ever; they are atomic numbers.
            base => unsafe { core::slice::from_raw_parts(base as *const Entry, self.places()) },
        }
    }

    /// Places for an address, its own first.
    fn probe(&self, address: usize, most: usize) -> impl Iterator<Item = (usize, &Entry)> {
        // Fibonacci hashing of the page number (Knuth, TAOCP 6.4).
        let hash = (address / GRANULE).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let entries = self.entries();
        (0..most.min(entries.len())).map(move |i| (i, &entries[(hash + i) % entries.len()]))
    }

    /// Most places that a search looks at.
    fn longest_search(&self) -> usize {
        (self.farthest.load(Ordering::Acquire) + 1).min(self.entries().len())
    }

    fn find(&self, address: usize) -> Option<&Entry> {
        // Acquire pairs with the Release in `insert`: the size is there.
        self.probe(address, self.longest_search())
            .map(|(_, entry)| entry)
            .find(|entry| entry.key.load(Ordering::Acquire) == address)
    }

    fn insert(&self, address: usize, bytes: usize) -> bool {
        for (distance, entry) in self.probe(address, usize::MAX) {
            let (set, seen) = (Ordering::AcqRel, Ordering::Relaxed);
            if entry.key.load(Ordering::Relaxed) != 0
                || entry.key.compare_exchange(0, BUSY, set, seen).is_err()
            {
                continue;
            }
            entry.bytes.store(bytes, Ordering::Relaxed);
            // Before the address is there: who knows it looks far enough.
            if distance > self.farthest.load(Ordering::Relaxed) {
                self.farthest.fetch_max(distance, Ordering::AcqRel);
            }
            entry.key.store(address, Ordering::Release);
            return true;
        }
        false
    }

    /// Keeps a place for a mapping that is being made; false if there is none.
    fn take_place(&self) -> bool {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed) < self.limit;
        if !taken {
            self.give_place();
        }
        taken
    }

    fn give_place(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Mappings {
    pub(super) const fn new() -> Self {
        Mappings {
            tables: [Table::new(LIMITS[0]), Table::new(LIMITS[1])],
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    pub(super) fn init<P: Platform>(&self, p: &P) -> bool {
        self.tables[0].is_there(p)
    }

    /// Bytes of the tables.
    pub fn metadata_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.committed_bytes.load(Ordering::Relaxed)).sum()
    }

    /// Addresses of: live mappings, their bytes, bytes committed for each table.
    pub(super) fn words_at(&self) -> [usize; 4] {
        let [first, second] = &self.tables;
        [&self.count, &self.bytes, &first.committed_bytes, &second.committed_bytes]
            .map(|word| word.as_ptr() as usize)
    }

    /// Live mappings: number and bytes.
    pub fn live(&self) -> (usize, usize) {
        (self.count.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Most places that are looked at for an address that is none of a mapping.
    pub fn longest_search(&self) -> usize {
        self.tables.iter().map(Table::longest_search).sum()
    }

    /// True if there are so many that smaller blocks are to be the region's.
    pub fn are_many(&self) -> bool {
        self.tables[0].taken.load(Ordering::Relaxed) >= LIMITS[0]
    }

    fn find(&self, address: usize) -> Option<Spot<'_>> {
        if address <= BUSY {
            return None;
        }
        let spot = |table| Table::find(table, address).map(|entry| Spot { table, entry });
        self.tables.iter().find_map(spot)
    }

    fn insert(&self, table: &Table, address: usize, bytes: usize) -> bool {
        let inserted = table.insert(address, bytes);
        if inserted {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        inserted
    }

    /// Its table, where a place is kept still, and its bytes.
    fn remove(&self, address: usize) -> Option<(&Table, usize)> {
        let Spot { table, entry } = self.find(address)?;
        let bytes = entry.bytes.load(Ordering::Relaxed);
        // Of two threads that free the same mapping, one gets it.
        entry.key.compare_exchange(address, 0, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some((table, bytes))
    }

    /// True if an address lies in a live mapping. Looks at all of them: for
    /// messages only.
    pub fn contains(&self, address: usize) -> bool {
        self.tables.iter().flat_map(Table::entries).any(|entry| {
            let key = entry.key.load(Ordering::Acquire);
            let bytes = entry.bytes.load(Ordering::Relaxed);
            key > BUSY && (key..key + bytes).contains(&address)
        })
    }
}

impl<P: Platform> PageHeap<P> {
    /// A mapping of its own: zeroed, aligned. `None` if the system refuses or
    /// there are too many.
    pub fn map_own(&self, bytes: usize, align: usize) -> Option<usize> {
        self.map_with(bytes, |bytes| self.platform.map(bytes, align))
    }

    /// As [`PageHeap::map_own`], made by `map` of whole pages.
    pub(super) fn map_with(
        &self,
        bytes: usize,
        map: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        let (p, mappings) = (&self.platform, &self.mappings);
        let bytes = bytes.checked_next_multiple_of(p.page_bytes())?;
        let table = mappings.tables.iter().find(|table| table.take_place())?;
        if table.is_there(p)
            && let Some(address) = map(bytes)
        {
            if mappings.insert(table, address, bytes) {
                return Some(address);
            }
            p.unmap(address, bytes);
        }
        table.give_place();
        None
    }

    /// Bytes of the mapping that begins at `address`, if one does.
    pub fn own_bytes(&self, address: usize) -> Option<usize> {
        Some(self.mappings.find(address)?.entry.bytes.load(Ordering::Relaxed))
    }

    /// Ends the mapping that begins at `address`: its bytes, or `None` if none does.
    pub fn unmap_own(&self, address: usize) -> Option<usize> {
        let (table, bytes) = self.mappings.remove(address)?;
        self.platform.unmap(address, bytes);
        table.give_place();
        Some(bytes)
    }

    /// Resizes a mapping, moving it if need be. On `None` it is as it was.
    pub fn remap_own(&self, address: usize, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(self.platform.page_bytes())?;
        let (table, old) = self.mappings.remove(address)?;
        let moved = self.platform.remap(address, old, bytes);
        let (at, size) = moved.map_or((address, old), |at| (at, bytes));
        // There is a free place: the one that was kept.
        let inserted = self.mappings.insert(table, at, size);
        debug_assert!(inserted);
        moved
    }
}
