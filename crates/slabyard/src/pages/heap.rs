//! The page heap as one struct: the platform and all parts that manage its pages.
//!
//! Each field is a part that has its own file, whose head names its state, its lock and its
//! invariants. Functions that work on one part take that part; those that move memory between parts
//! take the whole heap.

use super::barn_bytes::BarnBytes;
use super::descriptor::NIL;
use super::region::Region;
use super::reports::{Cause, Reports};
use super::sheaf_pool::SheafPool;
use super::{advice, buddy, mappings};
use crate::platform::stack::ENTRY_BYTES;
use crate::platform::{GRANULE, Platform, Slot};
use crate::rcu::Rcu;
use crate::sync::{AtomicU32, AtomicUsize, Lock, Once, Rank};
use slabyard_abi::stats::Counter;
use slabyard_kernels::page_lists::{Rules, Warmth};

/// The platform and its pages: what engines build on.
pub struct PageHeap<P> {
    /// The machine.
    pub platform: P,
    /// Reserved address space and its descriptors.
    pub region: Region,
    /// Free runs.
    pub buddy: buddy::Buddy,
    /// The advice on huge pages that the kernel has.
    pub(crate) advice: advice::Advice,
    /// The page lists that were chosen, if they were.
    lists: Once<ChosenLists<P>>,
    /// Readers.
    pub rcu: Rcu,
    /// Ended slabs that wait for them.
    pub(super) held: Lock<HeldList>,
    pub(super) nr_held: AtomicUsize,
    /// Takes over ended slabs that must wait for readers: set with the first cache of such slabs, so
    /// that a yard without one has no code for it.
    pub(crate) on_held: Once<Hold<P>>,
    /// Memory of sheaves.
    pub sheaves: SheafPool,
    /// Blocks that are mappings of their own.
    pub mappings: mappings::Mappings,
    /// What the barns hold together.
    pub barn_bytes: BarnBytes,
    /// What is wrong in the program.
    pub reports: Reports,
    /// The last version of a slab (`slab::freeset`).
    pub versions: AtomicU32,
    /// Granules whose pages went back when they were freed ([`PageHeap::free_clean`]).
    pub cleaned: AtomicUsize,
}

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
            held: Lock::new(Rank::Waiting, HeldList { head: NIL, tail: NIL }),
            nr_held: AtomicUsize::new(0),
            on_held: Once::new(),
            sheaves: SheafPool::new(),
            mappings: mappings::Mappings::new(),
            barn_bytes: BarnBytes::new(),
            reports: Reports::new(),
            versions: AtomicU32::new(0),
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
        // Before the first block.
        if let Some(order) = self.region.most_order::<P>() {
            self.buddy.lock(p).set_most_order(order);
        }
        true
    }

    /// Reports misuse and sets the object aside: from then on no container owns it.
    #[cold]
    pub fn misuse(&self, cause: Cause, address: usize, slot: u16) {
        self.reports.misuse(cause, address, slot);
    }

    /// Makes a slot's entries usable in all rows. False if the kernel refuses.
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

    /// Sets the lists that take and free the pages of slabs. False if they are chosen already, or
    /// the platform has no choice.
    pub fn choose_lists(&self, lists: ChosenLists<P>) -> bool {
        P::HAS_PAGE_LISTS && self.lists.set(lists)
    }

    /// The lists of a kernel's kind, if they are in front of the buddy.
    #[inline(always)]
    pub fn page_lists(&self) -> Option<&ChosenLists<P>> {
        if P::HAS_PAGE_LISTS { self.lists.try_get() } else { None }
    }

    /// Granules for `bytes`, a multiple of the machine's page.
    #[inline]
    pub fn granules_for(&self, bytes: usize) -> usize {
        let page = self.platform.page_bytes();
        ((bytes + page - 1) & !(page - 1)) / GRANULE
    }
}

/// Gets what page lists count: a counter, and by how much it grew.
pub type CountFn<'a> = &'a dyn Fn(Counter, u32);

/// Per-CPU lists of a kernel's kind, which were chosen to take and free the pages of slabs in place
/// of the yard's own: the numbers of the kind, and the functions of the crate `slabyard-page-lists`.
pub struct ChosenLists<P> {
    /// The numbers.
    pub rules: Rules,
    /// As [`PageHeap::take_block`].
    pub take: fn(&PageHeap<P>, u32, Warmth, CountFn<'_>) -> Option<u32>,
    /// As [`PageHeap::free_block`].
    pub free: fn(&PageHeap<P>, u32, u32, Warmth, CountFn<'_>),
}

/// The list of discarded slabs that wait for readers, linked through their descriptors in the order
/// in which they were discarded, which is that of their epochs ([`super::held`]).
pub(super) struct HeldList {
    pub(super) head: u32,
    pub(super) tail: u32,
}

/// Takes over a discarded slab: its number, order and slot.
pub(crate) type Hold<P> = fn(&PageHeap<P>, u32, u32, u16);
