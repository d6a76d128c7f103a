//! The yard of the process, and the words that the fast path reads.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use slabyard::cache::classes::{self, LARGEST};
use slabyard::platform::linux::Linux;
use slabyard::yard::Yard;

/// The one yard.
pub(crate) static YARD: Yard<Linux> = Yard::new(Linux::new());

/// What `malloc` and `free` read: one cache line. The first values send every
/// call to the slow path: no size is below the limit 0, and every address
/// differs from the base 1 in a bit of the mask.
#[repr(C, align(64))]
pub(crate) struct Fast {
    /// Sizes from here on take the slow path.
    pub limit: AtomicUsize,
    /// From size to slot offset: [`classes::MAIN`] or [`classes::SPARES`].
    pub table: AtomicPtr<u16>,
    /// Offset of `rseq_cs` from the thread pointer.
    pub cs_offset: AtomicUsize,
    /// Row 0.
    pub rows: AtomicUsize,
    /// The region's first address.
    pub base: AtomicUsize,
    /// Bits that an object's distance from the base does not have: those above
    /// the region's size, and those below 16.
    pub mask: AtomicUsize,
    /// The page map, as if it began at address 0: an address is looked up
    /// without waiting for its distance from the base.
    pub map: AtomicUsize,
}

/// Offsets of [`Fast`]'s words, for the assembly.
pub(crate) mod at {
    pub(crate) const LIMIT: usize = 0;
    pub(crate) const TABLE: usize = 8;
    pub(crate) const CS_OFFSET: usize = 16;
    pub(crate) const ROWS: usize = 24;
    pub(crate) const BASE: usize = 32;
    pub(crate) const MASK: usize = 40;
    pub(crate) const MAP: usize = 48;
}

const _: () = {
    assert!(core::mem::offset_of!(Fast, limit) == at::LIMIT);
    assert!(core::mem::offset_of!(Fast, table) == at::TABLE);
    assert!(core::mem::offset_of!(Fast, cs_offset) == at::CS_OFFSET);
    assert!(core::mem::offset_of!(Fast, rows) == at::ROWS);
    assert!(core::mem::offset_of!(Fast, base) == at::BASE);
    assert!(core::mem::offset_of!(Fast, mask) == at::MASK);
    assert!(core::mem::offset_of!(Fast, map) == at::MAP);
};

pub(crate) static FAST: Fast = Fast {
    limit: AtomicUsize::new(0),
    table: AtomicPtr::new(core::ptr::null_mut()),
    cs_offset: AtomicUsize::new(0),
    rows: AtomicUsize::new(0),
    base: AtomicUsize::new(1),
    mask: AtomicUsize::new(usize::MAX),
    map: AtomicUsize::new(0),
};

impl Fast {
    /// Opens the fast path: the yard is ready.
    pub(crate) fn open(&self) {
        use slabyard::platform::{GRANULE, Platform};
        let region = &YARD.ground.region;
        let bytes = (region.granules() * GRANULE).next_power_of_two();
        self.choose_table(false);
        self.cs_offset.store(YARD.platform().cs_offset(), Ordering::Relaxed);
        self.rows.store(YARD.platform().rows().base(), Ordering::Relaxed);
        let bias = region.base() / GRANULE * size_of::<u16>();
        self.map.store(region.map_base().wrapping_sub(bias), Ordering::Relaxed);
        self.base.store(region.base(), Ordering::Release);
        // Last: a thread that passes these checks finds the rest in place. On
        // x86-64 loads are not reordered with each other.
        self.mask.store(!(bytes - 1) | 15, Ordering::Release);
        self.limit.store(LARGEST + 1, Ordering::Release);
    }

    /// Allocations pop from the spare sheaves during the heartbeat.
    pub(crate) fn choose_table(&self, beat: bool) {
        let table = if beat { &classes::SPARES } else { &classes::MAIN };
        self.table.store(table.as_ptr().cast_mut(), Ordering::Relaxed);
    }
}
