//! A made-up yard in the tests' own memory: its contents are known, and any word of it can be made
//! wrong, or changed while it is read.
//!
//! ```text
//! granule 0      unused
//!         1-8    a full slab of the cache "known": 512 objects of 64 bytes
//!         9-16   a partial slab: 100 free
//!         17-19  a live run
//!         20-23  a free block, 24-25 two parked runs
//! out = 1024 - 100 = 924; parked: row 0 30 + 20, row 1 5, barn 512; live = 357
//! ```

use super::memory::{Fault, Memory, MemoryPart, Writable};
use super::outside::{Offer, StopOutcome};
use super::threads::Threads;
use slabyard_abi::region::descriptor::word;
use slabyard_abi::region::{
    CacheWord, MAGIC, METADATA, VERSION, Word, descriptor, front, row, sheaf,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

pub(crate) const FRONT: u64 = 0x7000_0000_0000;
pub(crate) const ROWS: u64 = FRONT + 0x1000;
/// Sheaves of each size.
pub(crate) const SHEAVES: u64 = 64;
pub(crate) const PLACES: u64 = ROWS + 2 * row::STRIDE as u64;
pub(crate) const REGION: u64 = 0x6000_0000_0000;
pub(crate) const DESCRIPTORS: u64 = 0x5000_0000_0000;
pub(crate) const CACHES: u64 = 0x4000_0000_0000;
pub(crate) const STRIDE: u64 = 256;
pub(crate) const COUNTERS: u64 = 0x4000_0001_0000;
pub(crate) const GATE: u64 = 0x4000_0002_0000;
pub(crate) const TOP: u64 = 26;
/// Slot of the cache "known", whose number is 1: cache 0 is not in use.
pub(crate) const SLOT: usize = row::FIRST_CACHE + 7 * row::PAIR;

/// Objects that its program holds.
pub(crate) const LIVE: u64 = 357;

/// What happens before the part of this number is read.
type Moves = Box<dyn FnMut(&mut Segments, usize) + Send>;

/// The memory of a planted target: bytes by the address where they begin.
#[derive(Default)]
pub(crate) struct Segments(BTreeMap<u64, Vec<u8>>);

/// A target of the tests.
#[derive(Default)]
pub(crate) struct PlantedTarget {
    segments: Mutex<Segments>,
    moves: Mutex<Option<(Moves, usize)>>,
}

impl Segments {
    fn at(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let (begin, piece) = self.0.range_mut(..=address).next_back()?;
        let offset = usize::try_from(address - begin).ok()?;
        piece.get_mut(offset..offset.checked_add(bytes)?)
    }

    pub(crate) fn word(&mut self, address: u64) -> u64 {
        let bytes = self.at(address, 8).expect("planted memory");
        u64::from_le_bytes(*bytes.first_chunk().expect("8 bytes"))
    }

    pub(crate) fn put(&mut self, address: u64, bytes: &[u8]) {
        self.at(address, bytes.len()).expect("planted memory").copy_from_slice(bytes);
    }
}

impl PlantedTarget {
    /// Adds zeros at an address.
    pub(crate) fn room(&self, at: u64, bytes: usize) {
        self.segments.lock().unwrap().0.insert(at, vec![0; bytes]);
    }

    pub(crate) fn put(&self, address: u64, word: u64) {
        self.segments.lock().unwrap().put(address, &word.to_le_bytes());
    }

    pub(crate) fn put_half(&self, address: u64, half: u32) {
        self.segments.lock().unwrap().put(address, &half.to_le_bytes());
    }

    pub(crate) fn get(&self, address: u64) -> u64 {
        self.segments.lock().unwrap().word(address)
    }

    /// Lets memory change while it is read.
    pub(crate) fn moving(&self, moves: impl FnMut(&mut Segments, usize) + Send + 'static) {
        *self.moves.lock().unwrap() = Some((Box::new(moves), 0));
    }

    pub(crate) fn segments(&self) -> Vec<(u64, Vec<u8>)> {
        self.segments.lock().unwrap().0.iter().map(|(at, bytes)| (*at, bytes.clone())).collect()
    }

    /// The yard of the module's head.
    pub(crate) fn yard() -> PlantedTarget {
        let planted = PlantedTarget::default();
        planted.front(FRONT);
        planted.room(CACHES, 2 * STRIDE as usize);
        planted.room(COUNTERS, 4096);
        planted.room(GATE, 128);
        planted.room(DESCRIPTORS, TOP as usize * descriptor::BYTES);

        let counters = [TOP, 4, 1, 1, 3, 1, 1 << 20, 250, 16 << 20, 0, 4096];
        for (i, number) in counters.into_iter().chain([16384; METADATA.len()]).enumerate() {
            planted.put(COUNTERS + i as u64 * 8, number);
        }

        planted.cache(CacheWord::Version, 9 << 32 | 9);
        planted.cache(CacheWord::Out, 924);
        planted.cache(CacheWord::NrSlabs, 2);
        planted.cache(CacheWord::NrPartial, 1);
        planted.cache(CacheWord::PartialHead, 9);
        planted.cache(CacheWord::BarnObjects, 512);
        planted.cache(CacheWord::BarnFull, 1);
        planted.cache(CacheWord::BarnEmpty, 2);
        planted.cache(CacheWord::Slot, SLOT as u64);
        planted.cache(CacheWord::ObjectSize, 60);
        planted.cache(CacheWord::SlabSize, 64);
        planted.cache(CacheWord::Order, 3);
        planted.cache(CacheWord::Objects, 512);
        planted.cache(CacheWord::SheafCapacity, 512);
        planted.cache(CacheWord::MinPartial, 5);
        planted.cache(CacheWord::BarnFullLimit, 2);
        planted.cache(CacheWord::BarnEmptyLimit, 3);
        planted.cache(CacheWord::Name0, u64::from_le_bytes(*b"known\0\0\0"));

        planted.stack(0, SLOT, 3, 30);
        planted.stack(0, SLOT + row::SPARE, 0, 20);
        planted.stack(1, SLOT, 5, 5);
        planted.put_half(PlantedTarget::entry(1, row::FIRST_RUNS), PlantedTarget::top_of(0, 6, 2));

        planted.slab(1, 0, false);
        planted.slab(9, 100, true);
        planted.descriptor(17, descriptor::RUN, 0);
        planted.put_half(DESCRIPTORS + 17 * 64 + descriptor::GRANULES as u64, 3);
        planted.descriptor(20, descriptor::FREE, 1);
        planted.descriptor(22, descriptor::FREED, 0);
        planted.put_half(DESCRIPTORS + 22 * 64 + descriptor::GRANULES as u64, 2);
        // What the run's second granule was before means nothing.
        planted.slab(23, 1, true);
        planted.descriptor(24, descriptor::PARKED, 0);
        planted.descriptor(25, descriptor::PARKED, 0);
        planted
    }

    /// The same yard with CPU slabs of a kind: slabs of a granule, each of 64 objects.
    ///
    /// ```text
    /// granule 1  on the node's list, 10 free     4  its head: 3 free, 1 counted
    ///         2  CPU 0's slab: 5 free, 7 own     5  CPU 1's slab: none free or own
    ///         3  tail of CPU 0's list: empty     6  full
    ///            1 counted                       7-16  free blocks
    /// out = 384 - 82 = 302; parked: 7 own, 72 free in CPUs' slabs; live = 295
    /// ```
    pub(crate) fn cpu_slabs(kind: u64) -> PlantedTarget {
        let planted = PlantedTarget::yard();
        let large = sheaf::BYTES[2] as u64;
        let others = SHEAVES * (PlantedTarget::sheaf_bytes() - large);
        // Of the large ones the second half is not there.
        planted.room(PLACES, (others + SHEAVES / 2 * large) as usize);
        for (word, value) in [
            (CacheWord::Front, front::CPU_SLABS | front::LISTS | kind),
            (CacheWord::Out, 302),
            (CacheWord::NrSlabs, 6),
            (CacheWord::PartialHead, 1),
            (CacheWord::Order, 0),
            (CacheWord::Objects, 64),
            (CacheWord::CpuPartial, 30),
            (CacheWord::CpuPartialSlabs, 4),
        ] {
            planted.cache(word, value);
        }
        use CacheWord::{BarnEmpty, BarnFull, BarnObjects, SheafCapacity};
        for word in [SheafCapacity, BarnObjects, BarnFull, BarnEmpty] {
            planted.cache(word, 0);
        }
        // Free granules, and dirty ones of them.
        planted.put(COUNTERS + 8, 14);

        let parked = match kind {
            _ if kind & front::FREEZES_PARKED != 0 => word::FROZEN,
            _ if kind & front::EXACT != 0 => word::PARKED,
            _ => 0,
        };
        let slabs =
            [(10, 0), (5, word::FROZEN), (64, parked), (3, parked), (0, word::FROZEN), (0, 0)];
        for (granule, (free, flags)) in (1..).zip(slabs) {
            planted.slab(granule, free, granule == 1);
            let head = u32::from(descriptor::SLAB) | (SLOT as u32) << 16;
            planted.put_half(DESCRIPTORS + granule * 64, head);
            let at = DESCRIPTORS + granule * 64 + descriptor::WORD as u64;
            planted.put(at, (70 + granule) << 32 | flags | u64::from(free));
        }
        planted.descriptor(7, descriptor::FREE, 1);
        planted.descriptor(9, descriptor::FREE, 3);

        planted.stack(0, SLOT, 3, 7);
        planted.put(PlantedTarget::sheaf(3), 2);
        planted.stack(0, SLOT + row::SPARE, 0, 2);
        let counted = |slab: u64| if kind & front::EXACT != 0 { 70 + slab } else { 1 };
        planted.element(0, 3, counted(3));
        planted.element(1, 4, counted(4));
        planted.stack(1, SLOT, 5, 0);
        planted.put(PlantedTarget::sheaf(5), 5);
        planted
    }

    /// Bytes of one sheaf of each size, for all sizes.
    fn sheaf_bytes() -> u64 {
        sheaf::BYTES.map(|bytes| bytes as u64).iter().sum()
    }

    /// Address of a large sheaf.
    pub(crate) fn sheaf(number: u64) -> u64 {
        ROWS + u64::from(PlantedTarget::top(number, 0)) * 8 - sheaf::GUARD as u64
    }

    /// Writes an element of CPU 0's list.
    pub(crate) fn element(&self, nth: u64, slab: u64, other: u64) {
        self.put(PlantedTarget::sheaf(0) + sheaf::OBJECTS as u64 + nth * 8, other << 32 | slab);
    }

    /// A front, rows and elements at an address.
    pub(crate) fn front(&self, at: u64) {
        self.room(at, (PLACES - FRONT) as usize);
        let words = [
            (Word::Version, VERSION),
            (Word::HeaderBytes, 4096),
            (Word::Mode, 1),
            (Word::PageBytes, 4096),
            (Word::Rows, at + 0x1000),
            (Word::NrRows, 2),
            (Word::Elements, at + PLACES - FRONT),
            (Word::Sheaves, SHEAVES),
            (Word::Region, REGION),
            (Word::Granules, 1 << 20),
            (Word::Descriptors, DESCRIPTORS),
            (Word::Caches, CACHES),
            (Word::NrCaches, 2),
            (Word::CacheStride, STRIDE),
            (Word::Gate, GATE),
            (Word::NrStripes, 2),
            (Word::StripeBytes, 64),
            (Word::FixedMetadata, 4096),
        ];
        for (word, value) in words {
            self.put(at + word.index() as u64 * 8, value);
        }
        for (i, word) in super::collect::counters().enumerate() {
            self.put(at + word.index() as u64 * 8, COUNTERS + i as u64 * 8);
        }
        for (i, word) in MAGIC.as_chunks::<8>().0.iter().enumerate() {
            self.put(at + i as u64 * 8, u64::from_le_bytes(*word));
        }
    }

    /// Writes a word of the front.
    pub(crate) fn word(&self, word: Word, value: u64) {
        self.put(FRONT + word.index() as u64 * 8, value);
    }

    /// Address of a word of the cache "known".
    pub(crate) fn cache_word(word: CacheWord) -> u64 {
        CACHES + STRIDE + word.index() as u64 * 8
    }

    pub(crate) fn cache(&self, word: CacheWord, value: u64) {
        self.put(PlantedTarget::cache_word(word), value);
    }

    /// Address of an entry.
    pub(crate) fn entry(row_number: u64, slot: usize) -> u64 {
        ROWS + row_number * row::STRIDE as u64 + (slot * row::ENTRY_BYTES) as u64
    }

    /// An entry's top, for a large sheaf of a number with so many objects.
    pub(crate) fn top(sheaf_number: u64, objects: u64) -> u32 {
        PlantedTarget::top_of(2, sheaf_number, objects)
    }

    /// As [`PlantedTarget::top`], for one of another size.
    pub(crate) fn top_of(size: usize, sheaf_number: u64, objects: u64) -> u32 {
        let bytes = sheaf::BYTES.map(|bytes| bytes as u64);
        let before = SHEAVES * bytes[..size].iter().sum::<u64>();
        let guard = PLACES + before + sheaf_number * bytes[size] + sheaf::GUARD as u64;
        ((guard - ROWS) / 8 + objects) as u32
    }

    pub(crate) fn stack(&self, row_number: u64, slot: usize, sheaf_number: u64, objects: u64) {
        let top = PlantedTarget::top(sheaf_number, objects);
        self.put_half(PlantedTarget::entry(row_number, slot), top);
        let end = PlantedTarget::top(sheaf_number, 512);
        self.put_half(PlantedTarget::entry(row_number, slot) + row::END as u64, end);
    }

    pub(crate) fn descriptor(&self, granule: u64, kind: u8, order: u32) {
        self.put_half(DESCRIPTORS + granule * 64, u32::from(kind) | order << 8);
    }

    pub(crate) fn slab(&self, granule: u64, free: u32, listed: bool) {
        let at = DESCRIPTORS + granule * 64;
        self.put_half(at, u32::from(descriptor::SLAB) | 3 << 8 | (SLOT as u32) << 16);
        self.put(at + descriptor::WORD as u64, 77 << 32 | u64::from(free));
        self.put_half(at + descriptor::LISTED as u64, u32::from(listed));
    }
}

impl Memory for PlantedTarget {
    fn read(&self, parts: &[MemoryPart], into: &mut [u8]) -> Result<(), Fault> {
        let mut segments = self.segments.lock().unwrap();
        let mut rest = into;
        for part in parts {
            if let Some((moves, n)) = &mut *self.moves.lock().unwrap() {
                moves(&mut segments, *n);
                *n += 1;
            }
            let (now, later) = rest.split_at_mut(part.bytes);
            rest = later;
            let piece = segments.at(part.address, part.bytes);
            now.copy_from_slice(piece.ok_or(Fault::Absent(part.address))?);
        }
        Ok(())
    }

    fn mappings(&self) -> Result<Vec<Range<u64>>, Fault> {
        let segments = self.segments.lock().unwrap();
        Ok(segments.0.iter().map(|(at, bytes)| *at..at + bytes.len() as u64).collect())
    }
}

impl Writable for PlantedTarget {
    fn write(&self, addresses: &[u64], bytes: &[u8]) -> Result<(), Fault> {
        let mut segments = self.segments.lock().unwrap();
        for address in addresses {
            let piece = segments.at(*address, bytes.len()).ok_or(Fault::Absent(*address))?;
            piece.copy_from_slice(bytes);
        }
        Ok(())
    }
}

impl Threads for PlantedTarget {
    fn rouse(&self, _thread: u32) {}

    fn serve_by_stopped(&self, _offer: Offer) -> Result<StopOutcome, Fault> {
        Ok(StopOutcome::NoThread)
    }
}
