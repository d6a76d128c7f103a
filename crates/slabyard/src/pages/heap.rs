//! The page heap as a value: the platform and all parts that lie on its pages.
//!
//! Neighbours: each file beside this one has one concept's part of its functions.

use super::held_list::HeldSlabs;
use super::region::Region;
use super::sheaf_pool::SheafPool;
use super::{advice, buddy, finding, lists, mappings};
use crate::pages::{listed, nodes};
use crate::platform::stack::ENTRY_BYTES;
use crate::platform::{GRANULE, Platform, Slot};
use crate::rcu::Rcu;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Once, Ordering};
use slabyard_abi::region::Word;

/// Why an address is not a live object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Freed twice.
    DoubleFree,
    /// Not at the begin of an object.
    Interior,
    /// The size that the caller named is not the object's.
    WrongSize,
    /// Memory of the allocator's was written to: a free block, or what lies in front of an object.
    Overwritten,
}

/// Misuse: a free of what is no live object, found when the object returns to its slab.
#[derive(Clone, Copy, Debug)]
pub struct Misuse {
    /// What is wrong with the free.
    pub cause: Cause,
    /// The address that was freed.
    pub address: usize,
    /// Slot of the cache that the address belongs to.
    pub slot: u16,
}

/// The platform and its pages: what engines build on.
pub struct PageHeap<P> {
    /// The machine.
    pub platform: P,
    /// Reserved address space and its descriptors.
    pub region: Region,
    /// Free runs.
    pub buddy: buddy::Buddy,
    /// The advice on huge pages that the system has.
    pub(crate) advice: advice::Advice,
    /// The page lists that were chosen, if they were.
    pub(crate) lists: Once<lists::table::Rules>,
    /// Readers.
    pub rcu: Rcu,
    /// Ended slabs that wait for them.
    pub held: HeldSlabs,
    /// Takes over ended slabs that must wait for readers: set with the first cache of such slabs,
    /// so that a yard without one has no code for it.
    pub(crate) on_ended: Once<Hold<P>>,
    /// Memory of sheaves.
    pub sheaves: SheafPool,
    /// Blocks that are mappings of their own.
    pub mappings: mappings::Mappings,
    /// Bytes in full sheaves of barns: bounded by [`PageHeap::node_limit`].
    pub parked_node_bytes: AtomicUsize,
    pub(crate) node_limit: AtomicUsize,
    /// Frees that were reported as misuse; their objects are set aside.
    pub set_aside: AtomicU64,
    /// The last version of a slab (`slab::freeset`).
    pub versions: AtomicU32,
    pub(crate) on_misuse: Once<fn(&Misuse)>,
    /// What caches with debugging call.
    pub hooks: Once<finding::Hooks>,
    /// What caches with debugging found.
    pub findings: AtomicU64,
    /// Granules whose pages went back when they were freed ([`PageHeap::free_clean`]).
    pub cleaned: AtomicUsize,
}

/// Most bytes that the barns of a yard hold together, until another number is set.
pub const NODE_LIMIT: usize = 16 << 20;

impl<P: Platform> PageHeap<P> {
    /// The page heap of a platform that is not ready yet.
    pub const fn new(platform: P) -> Self {
        PageHeap {
            platform,
            region: Region::new(),
            buddy: buddy::Buddy::new(),
            advice: advice::Advice::new(),
            lists: Once::new(),
            rcu: Rcu::new(),
            held: HeldSlabs::new(),
            on_ended: Once::new(),
            sheaves: SheafPool::new(),
            mappings: mappings::Mappings::new(),
            parked_node_bytes: AtomicUsize::new(0),
            node_limit: AtomicUsize::new(NODE_LIMIT),
            set_aside: AtomicU64::new(0),
            versions: AtomicU32::new(0),
            on_misuse: Once::new(),
            hooks: Once::new(),
            findings: AtomicU64::new(0),
            cleaned: AtomicUsize::new(0),
        }
    }

    /// Reserves the region. The platform is ready. False without memory.
    pub fn init(&self, reserve_bytes: usize) -> bool {
        let p = &self.platform;
        self.sheaves.init(p);
        if !(self.region.init(p, reserve_bytes) && self.mappings.init(p)) {
            return false;
        }
        nodes::begin(self);
        true
    }

    /// Sets the function that gets the reports of misuse; without one, misuse is only counted.
    pub fn on_misuse(&self, call: fn(&Misuse)) {
        self.on_misuse.set(call);
    }

    /// Reports misuse and sets the object aside: from then on no container owns it.
    #[cold]
    pub fn misuse(&self, cause: Cause, address: usize, slot: u16) {
        self.set_aside.fetch_add(1, Ordering::Relaxed);
        if let Some(call) = self.on_misuse.try_get() {
            call(&Misuse { cause, address, slot });
        }
    }

    /// Most bytes that the barns of a yard hold together.
    pub fn node_limit(&self) -> usize {
        self.node_limit.load(Ordering::Relaxed)
    }

    /// Changes that limit; the next reclaim passes flush what is above it.
    pub fn set_node_limit(&self, bytes: usize) {
        self.node_limit.store(bytes, Ordering::Relaxed);
    }

    /// Makes a slot's entries usable in all rows. False if the system refuses.
    pub fn commit_slot(&self, slot: Slot) -> bool {
        let p = &self.platform;
        let bytes = (slot.offset() + ENTRY_BYTES).next_multiple_of(p.page_bytes());
        // Rows are committed by one thread.
        let _growing = self.region.growing(p);
        bytes <= p.rows().row_bytes() || p.commit_rows(bytes)
    }

    /// Bytes of tables, of rows and of the header.
    pub fn metadata_bytes(&self) -> usize {
        self.region.metadata_bytes()
            + self.sheaves.metadata_bytes()
            + self.mappings.metadata_bytes()
            + self.rcu.metadata_bytes()
            + self.platform.rows().committed_bytes()
            + self.platform.page_bytes()
    }

    /// Publishes the addresses of all tables and counters in the header, for readers outside
    /// of the process.
    pub fn publish_header(&self) {
        let header = self.platform.rows().header();
        let tell = |word: Word, value: usize| {
            header[word.index()].store(value as u64, Ordering::Relaxed);
        };
        let rows = self.platform.rows();
        tell(Word::PageBytes, self.platform.page_bytes());
        tell(Word::Rows, rows.base());
        tell(Word::NrRows, rows.len());
        tell(Word::Region, self.region.base());
        tell(Word::Granules, self.region.granules());
        tell(Word::TopAt, self.region.top_at());
        tell(Word::Descriptors, self.region.descriptors_base());
        tell(Word::Map, self.region.map_base());
        tell(Word::FixedMetadata, self.platform.page_bytes());
        tell(Word::RowBytesAt, rows.row_bytes_at());
        tell(Word::NodeLimitAt, self.node_limit.as_ptr() as usize);
        tell(Word::SetAsideAt, self.set_aside.as_ptr() as usize);
        let [descriptors, map, dirty] = self.region.metadata_at();
        tell(Word::MetadataAt0, descriptors);
        tell(Word::MetadataAt1, map);
        tell(Word::MetadataAt2, dirty);
        let (elements, sheaves) = self.sheaves.begin();
        tell(Word::Elements, elements);
        tell(Word::Sheaves, sheaves);
        let [small, middle, large] = self.sheaves.words_at();
        tell(Word::MetadataAt3, small);
        tell(Word::MetadataAt7, middle);
        tell(Word::MetadataAt8, large);
        tell(Word::MetadataAt11, self.rcu.metadata_at());
        let [nr_mapped, mapped, keys, sizes] = self.mappings.words_at();
        tell(Word::NrMappedAt, nr_mapped);
        tell(Word::MappedAt, mapped);
        tell(Word::MetadataAt4, keys);
        tell(Word::MetadataAt5, sizes);
        if let Some(slot) = listed::cold_slot(self) {
            tell(Word::ColdRuns, slot.into());
        }
        let [free, dirty, nr_runs, run_granules] = self.buddy.words_at();
        tell(Word::FreeGranulesAt, free);
        tell(Word::DirtyGranulesAt, dirty);
        tell(Word::NrRunsAt, nr_runs);
        tell(Word::RunGranulesAt, run_granules);
    }

    /// Granules for `bytes`, a multiple of the machine's page.
    #[inline]
    pub fn granules_for(&self, bytes: usize) -> usize {
        let page = self.platform.page_bytes();
        ((bytes + page - 1) & !(page - 1)) / GRANULE
    }
}

/// Takes over a slab that ended: its number, order and slot.
pub(crate) type Hold<P> = fn(&PageHeap<P>, u32, u32, u16);
