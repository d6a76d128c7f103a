//! Blocks that are too large for a run: each is a separate mapping, and hash tables map its address
//! to its size. The tables have no lock, so that a signal handler that interrupts a slow path can
//! use them.
//!
//! The tables use open addressing. A search is bounded by the largest distance that any address
//! ever had from its home slot. So a slot that was freed needs no tombstone, and a search for an
//! absent address is short however many mappings were made and freed. At most half of a table's
//! slots are used, which keeps that distance small.
//!
//! The first table exists from the start. The second is made when a program has more mappings than
//! the first has room for. From then on blocks of up to 16 MiB come from the region; larger ones
//! may be sparse, and would fill it.

use crate::platform::{GRANULE, Platform, Use};
use crate::sync::{AtomicUsize, OnceNumber, Ordering};

/// Mappings that each table takes.
pub const LIMITS: [usize; 2] = [4096, 128 << 10];
/// At most one in this many of a table's slots is used.
const PART: usize = 2;
/// The key of a slot that is being written.
const BUSY: usize = 1;

/// A slot of the table: the address of a mapping, 0 if the slot is free, and its bytes.
#[repr(C)]
struct Entry {
    key: AtomicUsize,
    bytes: AtomicUsize,
}

/// Readers find `base` before `committed_bytes` (`abi::region::mapping_table`).
#[repr(C)]
struct Table {
    /// Address of the first slot; 0 without a table.
    base: OnceNumber,
    committed_bytes: AtomicUsize,
    limit: usize,
    /// Mappings in it, and those that are being made.
    taken: AtomicUsize,
    /// Largest distance from its own slot at which an address was ever put.
    farthest: AtomicUsize,
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
            base: OnceNumber::new(),
            committed_bytes: AtomicUsize::new(0),
            limit,
            taken: AtomicUsize::new(0),
            farthest: AtomicUsize::new(0),
        }
    }

    const fn slots(&self) -> usize {
        PART * self.limit
    }

    /// Makes the table, if it does not exist; false without memory. If two threads make it at
    /// once, the memory of one stays unused.
    fn is_there<P: Platform>(&self, p: &P) -> bool {
        if self.base.get() != 0 {
            return true;
        }
        let page = p.page_bytes();
        let bytes = (self.slots() * size_of::<Entry>()).next_multiple_of(page);
        let Some(base) = p.reserve(bytes, page, Use::Table).filter(|base| p.commit(*base, bytes))
        else {
            return false;
        };
        if self.base.set(base).is_ok() {
            self.committed_bytes.store(bytes, Ordering::Relaxed);
        }
        true
    }

    fn entries(&self) -> &[Entry] {
        match self.base.get() {
            0 => &[],
            // SAFETY: so many slots were committed, zeroed, before the address was set, for
            // ever; they are atomic numbers.
            base => unsafe { core::slice::from_raw_parts(base as *const Entry, self.slots()) },
        }
    }

    /// Slots for an address and their distance, its own slot first.
    fn probe(&self, address: usize, most: usize) -> impl Iterator<Item = (usize, &Entry)> {
        // Fibonacci hashing of the page number (Knuth, TAOCP 6.4).
        let number = (address / GRANULE) as u64;
        let hash = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
        let entries = self.entries();
        (0..most.min(entries.len())).map(move |i| (i, &entries[(hash + i) % entries.len()]))
    }

    /// Most slots that a search looks at.
    fn longest_search(&self) -> usize {
        (self.farthest.load(Ordering::Relaxed) + 1).min(self.entries().len())
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
            // Before the address is written: a thread that knows it came after that, and searches
            // far enough.
            if distance > self.farthest.load(Ordering::Relaxed) {
                self.farthest.fetch_max(distance, Ordering::Relaxed);
            }
            entry.key.store(address, Ordering::Release);
            return true;
        }
        false
    }

    /// Reserves a slot for a mapping that is being made; false if there is none.
    fn reserve_slot(&self) -> bool {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed) < self.limit;
        if !taken {
            self.release_slot();
        }
        taken
    }

    fn release_slot(&self) {
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

    /// Most slots that a search for an address without a mapping looks at.
    pub fn longest_search(&self) -> usize {
        self.tables.iter().map(Table::longest_search).sum()
    }

    /// True if there are so many that the region should serve smaller blocks.
    pub fn are_many(&self) -> bool {
        self.tables[0].taken.load(Ordering::Relaxed) >= LIMITS[0]
    }

    /// Makes a mapping, zeroed and aligned; returns its address. `None` if the kernel refuses
    /// or there are too many.
    pub fn map<P: Platform>(&self, p: &P, bytes: usize, align: usize) -> Option<usize> {
        self.map_with(p, bytes, |bytes| p.map(bytes, align))
    }

    /// As [`Mappings::map`], with `map` to make it, of whole pages.
    pub(super) fn map_with<P: Platform>(
        &self,
        p: &P,
        bytes: usize,
        map: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(p.page_bytes())?;
        let table = self.tables.iter().find(|table| table.reserve_slot())?;
        if table.is_there(p)
            && let Some(address) = map(bytes)
        {
            if self.insert(table, address, bytes) {
                return Some(address);
            }
            p.unmap(address, bytes);
        }
        table.release_slot();
        None
    }

    /// Bytes of the mapping that begins at `address`, if one does.
    pub fn bytes_of(&self, address: usize) -> Option<usize> {
        Some(self.find(address)?.1.bytes.load(Ordering::Relaxed))
    }

    /// Unmaps the mapping that begins at `address`; returns its bytes, or `None` if none does.
    pub fn unmap<P: Platform>(&self, p: &P, address: usize) -> Option<usize> {
        let (table, bytes) = self.remove(address)?;
        p.unmap(address, bytes);
        table.release_slot();
        Some(bytes)
    }

    /// Resizes a mapping, and moves it if it must. On `None` the mapping is unchanged.
    pub fn remap<P: Platform>(&self, p: &P, address: usize, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(p.page_bytes())?;
        let (table, old) = self.remove(address)?;
        let moved = p.remap(address, old, bytes);
        let (at, size) = moved.map_or((address, old), |at| (at, bytes));
        // A slot is free: `remove` left one reserved.
        let inserted = self.insert(table, at, size);
        debug_assert!(inserted);
        moved
    }

    fn find(&self, address: usize) -> Option<(&Table, &Entry)> {
        if address <= BUSY {
            return None;
        }
        self.tables.iter().find_map(|table| Some((table, table.find(address)?)))
    }

    fn insert(&self, table: &Table, address: usize, bytes: usize) -> bool {
        let inserted = table.insert(address, bytes);
        if inserted {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        inserted
    }

    /// Removes a mapping; returns its table, in which a slot stays reserved, and its bytes.
    fn remove(&self, address: usize) -> Option<(&Table, usize)> {
        let (table, entry) = self.find(address)?;
        let bytes = entry.bytes.load(Ordering::Relaxed);
        // If two threads free the same mapping, one of them succeeds.
        entry.key.compare_exchange(address, 0, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some((table, bytes))
    }

    /// In the child of a fork: forgets entries that threads were writing which are not there, and
    /// counts the others.
    pub(super) fn count_anew(&self) {
        let (mut count, mut bytes) = (0, 0);
        for table in &self.tables {
            let mut taken = 0;
            for entry in table.entries() {
                match entry.key.load(Ordering::Relaxed) {
                    0 => {}
                    BUSY => entry.key.store(0, Ordering::Relaxed),
                    _ => {
                        taken += 1;
                        bytes += entry.bytes.load(Ordering::Relaxed);
                    }
                }
            }
            table.taken.store(taken, Ordering::Relaxed);
            count += taken;
        }
        self.count.store(count, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Calls `f` with the address of each live mapping, as of a moment ago.
    pub fn each(&self, mut f: impl FnMut(usize)) {
        for entry in self.tables.iter().flat_map(Table::entries) {
            let key = entry.key.load(Ordering::Acquire);
            if key > BUSY {
                f(key);
            }
        }
    }

    /// True if an address is in a live mapping. Looks at all of them: used for messages only.
    pub fn contains(&self, address: usize) -> bool {
        self.tables.iter().flat_map(Table::entries).any(|entry| {
            let key = entry.key.load(Ordering::Acquire);
            let bytes = entry.bytes.load(Ordering::Relaxed);
            key > BUSY && (key..key + bytes).contains(&address)
        })
    }
}
