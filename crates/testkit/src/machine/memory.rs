//! Memory of the modelled machine: what is reserved, committed and mapped.
//!
//! The modelled memory checks its users: pages that were never committed cannot be decommitted or
//! hold a word, and a mapping is unmapped once, with exactly its length.
//!
//! Invariants: `committed_bytes` = pages in all `committed` sets × page size; `mapped_bytes` = sum
//! over `mappings`; both together stay within the limit; an address is never reused.

use super::config::Config;
use super::huge::{EXTENT, HugePages};
use slabyard_platform::Use;
use slabyard_platform::sync::{AtomicU64, Ordering};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::ptr::NonNull;

/// Where addresses without memory begin.
const ARENAS: usize = 1 << 40;
const MAPPINGS: usize = 1 << 45;
/// Bytes of a page of filled bytes: no more than any page has.
const FILLED: usize = 4096;

pub(super) struct ModelledMemory {
    page_bytes: usize,
    limit: usize,
    refuse: Option<u64>,
    requests: u64,
    reservations: Vec<Reservation>,
    mappings: BTreeMap<usize, usize>,
    /// Words that moved from where threads shared them, and are not 0.
    words: BTreeMap<usize, usize>,
    /// Words that threads share, in place of those in `words`. They stay: references to them
    /// live as long as the machine.
    shared: BTreeMap<usize, SharedWord>,
    /// Bytes that were filled, apart from the words, by the number of their page.
    filled: BTreeMap<usize, Box<[u8; FILLED]>>,
    /// Addresses of locked pages.
    locked: BTreeSet<usize>,
    /// Which pages are resident, where there are huge ones.
    huge: Option<HugePages>,
    next_arena: usize,
    next_mapping: usize,
    committed_bytes: usize,
    mapped_bytes: usize,
    given_back_bytes: u64,
}

struct Reservation {
    address: usize,
    bytes: usize,
    /// Numbers of committed pages, from `address`.
    committed: BTreeSet<usize>,
    /// The real memory of a table.
    table: Option<Table>,
}

/// A word that others point to: no box, which would claim it for itself whenever it moves.
struct SharedWord(NonNull<AtomicU64>);

// SAFETY: it owns a word that all threads may use.
unsafe impl Send for SharedWord {}

impl SharedWord {
    fn new(value: u64) -> Self {
        SharedWord(NonNull::from(Box::leak(Box::new(AtomicU64::new(value)))))
    }
}

impl Deref for SharedWord {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        // SAFETY: it lives until the owner's drop.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for SharedWord {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and the machine, whose users have the pointers, is gone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

struct Table {
    memory: *mut u8,
    layout: Layout,
}

// SAFETY: the pointer is only used to free the memory, by its one owner.
unsafe impl Send for Table {}

impl Table {
    /// Zeroed memory that the kernel lends page by page when it is touched: with a larger alignment
    /// the standard library would write all of it.
    fn new(bytes: usize) -> Option<Table> {
        let layout = Layout::from_size_align(bytes, 16).ok()?;
        // SAFETY: the size is not 0, the callers checked that.
        let memory = unsafe { alloc_zeroed(layout) };
        (!memory.is_null()).then_some(Table { memory, layout })
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.memory, self.layout) };
    }
}

impl ModelledMemory {
    pub fn new(config: &Config) -> Self {
        ModelledMemory {
            page_bytes: config.page_bytes,
            limit: config.memory_bytes,
            refuse: config.refuse_commit,
            requests: 0,
            reservations: Vec::new(),
            mappings: BTreeMap::new(),
            words: BTreeMap::new(),
            shared: BTreeMap::new(),
            filled: BTreeMap::new(),
            locked: BTreeSet::new(),
            huge: config.huge_pages.then(HugePages::default),
            next_arena: ARENAS,
            next_mapping: MAPPINGS,
            committed_bytes: 0,
            mapped_bytes: 0,
            given_back_bytes: 0,
        }
    }

    pub fn committed_bytes(&self) -> usize {
        self.committed_bytes
    }

    pub fn mapped_bytes(&self) -> usize {
        self.mapped_bytes
    }

    pub fn given_back_bytes(&self) -> u64 {
        self.given_back_bytes
    }

    pub fn requests(&self) -> u64 {
        self.requests
    }

    pub fn refuse(&mut self, n: Option<u64>) {
        self.refuse = n.map(|n| self.requests + n);
    }

    /// A table, which must succeed.
    pub fn table(&mut self, bytes: usize, align: usize) -> usize {
        self.reserve(bytes, align, Use::Table).expect("memory for a table")
    }

    pub fn reserve(&mut self, bytes: usize, align: usize, what: Use) -> Option<usize> {
        assert!(align.is_power_of_two(), "alignment {align}");
        assert!(bytes > 0, "a reservation of nothing");
        let align = align.max(self.page_bytes);
        let (address, table) = match what {
            Use::Arena => {
                // No better aligned than was asked for.
                let address = self.next_arena.next_multiple_of(2 * align) + align;
                let end = address.checked_add(bytes)?.checked_add(self.page_bytes)?;
                if end > MAPPINGS {
                    return None;
                }
                self.next_arena = end;
                (address, None)
            }
            Use::Table => {
                let table = Table::new(bytes.checked_add(align)?)?;
                // Others turn the address back into a pointer.
                let address = table.memory.expose_provenance().next_multiple_of(align);
                (address, Some(table))
            }
        };
        self.reservations.push(Reservation { address, bytes, committed: BTreeSet::new(), table });
        Some(address)
    }

    /// Counts a request for `bytes` more; false if it is refused.
    fn charge(&mut self, bytes: usize) -> bool {
        let n = self.requests;
        self.requests += 1;
        let in_use = self.committed_bytes + self.mapped_bytes;
        self.refuse != Some(n) && in_use.checked_add(bytes).is_some_and(|sum| sum <= self.limit)
    }

    /// The reservation around a range, and the range's page numbers in it.
    fn pages(&self, address: usize, bytes: usize) -> (usize, std::ops::Range<usize>) {
        assert!(address.is_multiple_of(self.page_bytes), "{address:#x} is not a page's address");
        let found = self.reservations.iter().position(|r| {
            address >= r.address && bytes <= r.bytes && address - r.address <= r.bytes - bytes
        });
        let Some(i) = found else {
            panic!("{bytes} bytes at {address:#x} lie in no reservation");
        };
        let first = (address - self.reservations[i].address) / self.page_bytes;
        (i, first..first + bytes.div_ceil(self.page_bytes))
    }

    pub fn commit(&mut self, address: usize, bytes: usize) -> bool {
        self.commit_all(std::iter::once(address), bytes)
    }

    /// Commits this many bytes at each address, or nothing: one request.
    pub fn commit_all(
        &mut self,
        addresses: impl Iterator<Item = usize> + Clone,
        bytes: usize,
    ) -> bool {
        let fresh = |address| {
            let (i, pages) = self.pages(address, bytes);
            pages.len() - self.reservations[i].committed.range(pages).count()
        };
        let fresh = addresses.clone().map(fresh).sum::<usize>() * self.page_bytes;
        assert!(fresh == addresses.clone().count() * bytes, "a part is committed already");
        if !self.charge(fresh) {
            return false;
        }
        self.committed_bytes += fresh;
        for address in addresses {
            let (i, pages) = self.pages(address, bytes);
            self.reservations[i].committed.extend(pages);
        }
        true
    }

    /// What is done with the huge pages, if there are any. It can ask of an extent's address whether
    /// all of it is committed.
    pub fn with_huge_pages<R>(
        &mut self,
        f: impl FnOnce(&mut HugePages, &dyn Fn(usize) -> bool) -> R,
    ) -> Option<R> {
        let mut huge = self.huge.take()?;
        let is_whole = |address: usize| {
            let around =
                |r: &&Reservation| address >= r.address && address + EXTENT <= r.address + r.bytes;
            let reservation = self.reservations.iter().find(around);
            reservation.is_some_and(|r| {
                let first = (address - r.address) / self.page_bytes;
                let pages = first..first + EXTENT / self.page_bytes;
                r.committed.range(pages.clone()).count() == pages.len()
            })
        };
        let result = f(&mut huge, &is_whole);
        self.huge = Some(huge);
        Some(result)
    }

    /// Checks that pages are committed.
    pub fn check_committed(&self, address: usize, bytes: usize) {
        self.committed(address, bytes);
    }

    /// The reservation of pages that are committed.
    fn committed(&self, address: usize, bytes: usize) -> usize {
        assert!(bytes.is_multiple_of(self.page_bytes), "{bytes} bytes are not whole pages");
        let (i, pages) = self.pages(address, bytes);
        let committed = self.reservations[i].committed.range(pages.clone()).count();
        assert!(committed == pages.len(), "pages at {address:#x} are not committed");
        i
    }

    pub fn lock_pages(&mut self, address: usize, bytes: usize, locked: bool) {
        for page in (address..address + bytes).step_by(self.page_bytes) {
            if locked {
                self.locked.insert(page);
            } else {
                self.locked.remove(&page);
            }
        }
    }

    /// False if a page of it is locked: the pages before that one are purged, as on Linux.
    pub fn give_back(&mut self, address: usize, bytes: usize) -> bool {
        if let Some(locked) = self.locked.range(address..address + bytes).next().copied() {
            if locked > address {
                self.give_back_unlocked(address, locked - address);
            }
            return false;
        }
        self.give_back_unlocked(address, bytes);
        true
    }

    fn give_back_unlocked(&mut self, address: usize, bytes: usize) {
        let i = self.committed(address, bytes);
        self.given_back_bytes += bytes as u64;
        if let Some(huge) = &mut self.huge {
            huge.give_back(address, bytes);
        }
        if self.reservations[i].table.is_some() {
            // SAFETY: committed pages of a table of ours, whose provenance is
            // exposed; the caller gave up their contents.
            unsafe { (address as *mut u8).write_bytes(0, bytes) };
        }
        self.forget_words(address, bytes);
    }

    pub fn map(&mut self, bytes: usize, align: usize) -> Option<usize> {
        assert!(align.is_power_of_two(), "alignment {align}");
        assert!(bytes > 0, "a mapping of nothing");
        let bytes = self.whole_pages(bytes)?;
        if !self.charge(bytes) {
            return None;
        }
        self.place_mapping(bytes, align)
    }

    pub fn move_out(&mut self, address: usize, bytes: usize, new_bytes: usize) -> Option<usize> {
        assert!(new_bytes >= bytes, "{bytes} bytes move into {new_bytes}");
        let (i, pages) = self.pages(address, bytes);
        let committed = self.reservations[i].committed.range(pages.clone()).count();
        assert!(committed == pages.len(), "moves pages at {address:#x} that are not committed");
        let moved = self.map(new_bytes, self.page_bytes)?;
        self.move_words(address, bytes, moved);
        Some(moved)
    }

    fn place_mapping(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let address = self.next_mapping.next_multiple_of(align.max(self.page_bytes));
        // An unmapped page follows each mapping.
        self.next_mapping = address.checked_add(bytes)?.checked_add(self.page_bytes)?;
        self.mappings.insert(address, bytes);
        self.mapped_bytes += bytes;
        Some(address)
    }

    fn whole_pages(&self, bytes: usize) -> Option<usize> {
        bytes.checked_next_multiple_of(self.page_bytes)
    }

    /// Bytes of the mapping, which must exist and have as many as `bytes`.
    fn known_mapping(&self, address: usize, bytes: usize) -> usize {
        let Some(known) = self.mappings.get(&address) else {
            panic!("no mapping begins at {address:#x}");
        };
        assert!(
            self.whole_pages(bytes) == Some(*known),
            "the mapping at {address:#x} has {known} bytes and not {bytes}"
        );
        *known
    }

    /// Takes a mapping out; its words stay.
    fn take_mapping(&mut self, address: usize, bytes: usize) -> usize {
        let known = self.known_mapping(address, bytes);
        self.mappings.remove(&address);
        self.mapped_bytes -= known;
        known
    }

    pub fn unmap(&mut self, address: usize, bytes: usize) {
        let known = self.take_mapping(address, bytes);
        self.forget_words(address, known);
    }

    pub fn remap(&mut self, address: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
        assert!(new_bytes > 0, "a mapping of nothing");
        let new = self.whole_pages(new_bytes)?;
        let old = self.known_mapping(address, old_bytes);
        if new > old && !self.charge(new - old) {
            return None;
        }
        self.take_mapping(address, old_bytes);
        if new <= old {
            self.mapped_bytes += new;
            self.mappings.insert(address, new);
            self.forget_words(address + new, old - new);
            return Some(address);
        }
        // One that grows always moves: what still uses the old address is found.
        let moved = self.place_mapping(new, self.page_bytes)?;
        self.move_words(address, old, moved);
        Some(moved)
    }

    fn move_words(&mut self, from: usize, bytes: usize, to: usize) {
        let own = self.words.range(from..from + bytes).map(|(a, w)| (*a, *w));
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed) as usize;
        let shared = self.shared.range(from..from + bytes).map(|(a, w)| (*a, load(w)));
        let words: Vec<_> = own.chain(shared).map(|(a, w)| (a - from + to, w)).collect();
        self.forget_words(from, bytes);
        self.words.extend(words);
    }

    /// A word for several threads, which stays where it is as long as the memory.
    pub fn shared_word(&mut self, address: usize) -> *const AtomicU64 {
        self.check_word(address);
        let words = &mut self.words;
        let new = || SharedWord::new(words.remove(&address).unwrap_or(0) as u64);
        self.shared.entry(address).or_insert_with(new).0.as_ptr()
    }

    /// Writes to bytes, which are apart from the words: a page at a time.
    pub fn fill(&mut self, address: usize, bytes: usize, value: u8) {
        let mut at = address;
        while at < address + bytes {
            self.check_memory(at);
            let n = (FILLED - at % FILLED).min(address + bytes - at);
            let page = self.filled.entry(at / FILLED).or_insert_with(|| Box::new([0; FILLED]));
            page[at % FILLED..][..n].fill(value);
            at += n;
        }
    }

    /// The first byte of another value.
    pub fn first_other(&self, address: usize, bytes: usize, value: u8) -> Option<(usize, u8)> {
        static ZEROS: [u8; FILLED] = [0; FILLED];
        let mut at = address;
        while at < address + bytes {
            self.check_memory(at);
            let n = (FILLED - at % FILLED).min(address + bytes - at);
            let page = self.filled.get(&(at / FILLED)).map_or(&ZEROS, |page| page);
            let part = &page[at % FILLED..][..n];
            // All at once, by instructions for many bytes, before one by one.
            let differs = part.iter().fold(0, |bits, byte| bits | (byte ^ value)) != 0;
            if differs && let Some(nth) = part.iter().position(|byte| *byte != value) {
                return Some((at + nth, part[nth]));
            }
            at += n;
        }
        None
    }

    fn check_word(&self, address: usize) {
        assert!(address.is_multiple_of(8), "{address:#x} is not a word's address");
        self.check_memory(address);
    }

    fn check_memory(&self, address: usize) {
        let mapping = self.mappings.range(..=address).next_back();
        let mapped = mapping.is_some_and(|(start, bytes)| address - start < *bytes);
        let committed = self.reservations.iter().any(|r| {
            address.checked_sub(r.address).is_some_and(|at| {
                at < r.bytes && r.table.is_none() && r.committed.contains(&(at / self.page_bytes))
            })
        });
        assert!(mapped || committed, "no object's memory at {address:#x}");
    }

    fn forget_words(&mut self, address: usize, bytes: usize) {
        let range = address..address + bytes;
        let gone: Vec<_> = self.words.range(range.clone()).map(|(a, _)| *a).collect();
        for address in gone {
            self.words.remove(&address);
        }
        self.shared.range(range).for_each(|(_, word)| word.store(0, Ordering::Relaxed));
        // Whole pages.
        let pages = address / FILLED..(address + bytes) / FILLED;
        let gone: Vec<_> = self.filled.range(pages).map(|(nr, _)| *nr).collect();
        gone.iter().for_each(|nr| _ = self.filled.remove(nr));
    }
}
