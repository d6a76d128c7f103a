//! The yard of the process, whether it is ready, and the words that the fast path reads.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use slabyard::cache::classes::{ENTRIES, LARGEST, OFFSETS};
use slabyard::platform::linux::Mode;
use slabyard::yard::Yard;

#[cfg(any(any_engine, object_caches))]
pub(crate) use slabyard::engine::Any as Engine;
/// The engine: the one that people use, or, in the package `slabyard-engines`, any of them. Of
/// object caches (`slabyard-kmem`) each may have its own.
#[cfg(not(any(any_engine, object_caches)))]
pub(crate) use slabyard::engine::Sheaves as Engine;
#[cfg(any_engine)]
pub(crate) use slabyard::platform::linux::CountingLinux as Linux;
#[cfg(not(any_engine))]
pub(crate) use slabyard::platform::linux::Linux;

/// The process's yard.
pub(crate) static YARD: Yard<Linux, Engine> = Yard::new(Linux::new());

pub(crate) const COLD: u32 = 0;
pub(crate) const STARTING: u32 = 1;
pub(crate) const READY: u32 = 2;
pub(crate) const FAILED: u32 = 3;

/// How far the yard's start is; [`crate::start`] changes it.
pub(crate) static STATE: AtomicU32 = AtomicU32::new(COLD);

/// True once the yard can be used.
#[inline]
pub(crate) fn ready() -> bool {
    // Acquire pairs with the Release in `start`.
    STATE.load(Ordering::Acquire) == READY
}

/// The mode as users count it.
pub(crate) fn mode_number(mode: Mode) -> u64 {
    match mode {
        Mode::Library => 1,
        Mode::Own => 2,
        Mode::Slots => 3,
    }
}

/// What `malloc` and `free` read: one cache line. The first values send every
/// call to the slow path: no size is below the limit 0, and every address
/// differs from the base 1 in a bit of the mask.
/// The size table lies behind the words, so that one instruction finds both and the others name a
/// distance of one byte: with the table elsewhere `mixed` took 0.99 of mimalloc's time in place of
/// 0.95 (9c63f82).
#[repr(C, align(64))]
pub(crate) struct Fast {
    /// Sizes from here on take the slow path.
    pub limit: AtomicUsize,
    /// Offset of `rseq_cs` from the thread pointer.
    pub cs_offset: AtomicUsize,
    /// Row 0.
    pub rows: AtomicUsize,
    /// The region's first address.
    pub base: AtomicUsize,
    /// Bits that an object's distance from the base does not have: those above
    /// the region's size, and those below its least alignment.
    pub mask: AtomicUsize,
    /// The page map.
    pub map: AtomicUsize,
    /// From size to slot offset, at a fixed distance from the other words.
    pub table: [u16; ENTRIES],
}

/// Offsets of [`Fast`]'s words, for the assembly.
pub(crate) mod at {
    pub(crate) const LIMIT: usize = 0;
    pub(crate) const CS_OFFSET: usize = 8;
    pub(crate) const ROWS: usize = 16;
    pub(crate) const BASE: usize = 24;
    pub(crate) const MASK: usize = 32;
    pub(crate) const MAP: usize = 40;
    pub(crate) const TABLE: usize = 48;
}

const _: () = {
    assert!(core::mem::offset_of!(Fast, limit) == at::LIMIT);
    assert!(core::mem::offset_of!(Fast, cs_offset) == at::CS_OFFSET);
    assert!(core::mem::offset_of!(Fast, rows) == at::ROWS);
    assert!(core::mem::offset_of!(Fast, base) == at::BASE);
    assert!(core::mem::offset_of!(Fast, mask) == at::MASK);
    assert!(core::mem::offset_of!(Fast, map) == at::MAP);
    assert!(core::mem::offset_of!(Fast, table) == at::TABLE);
};

pub(crate) static FAST: Fast = Fast {
    limit: AtomicUsize::new(0),
    cs_offset: AtomicUsize::new(0),
    rows: AtomicUsize::new(0),
    base: AtomicUsize::new(1),
    mask: AtomicUsize::new(usize::MAX),
    map: AtomicUsize::new(0),
    table: OFFSETS,
};

impl Fast {
    /// Opens the fast path: the yard is ready.
    pub(crate) fn open(&self) {
        use slabyard::platform::Platform;
        let region = &YARD.heap.region;
        self.cs_offset.store(YARD.platform().cs_offset(), Ordering::Relaxed);
        self.rows.store(YARD.platform().rows().base(), Ordering::Relaxed);
        self.map.store(region.map_base(), Ordering::Relaxed);
        self.base.store(region.base(), Ordering::Release);
        // Last: a thread that passes these checks finds the rest in place. On
        // x86-64 loads are not reordered with each other.
        choose_mask();
        choose_limit();
    }
}

/// Bits below the least alignment of an object.
#[cfg(not(object_caches))]
const UNALIGNED: usize = 15;
#[cfg(object_caches)]
const UNALIGNED: usize = 7;

/// Children that may run in this process's memory (`vfork`): while there are any,
/// no call takes the fast path.
static CHILDREN: AtomicUsize = AtomicUsize::new(0);

/// Counts a child for which the fast path is closed, or takes it off. [`choose`] applies it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn hold_open(open: bool) {
    // SeqCst: as in `choose_limit`.
    if open {
        CHILDREN.fetch_sub(1, Ordering::SeqCst);
    } else {
        CHILDREN.fetch_add(1, Ordering::SeqCst);
    }
}

/// True while slow paths must try the fast path first: it is closed for all threads because one
/// may not take it.
#[inline]
pub(crate) fn is_closed() -> bool {
    CHILDREN.load(Ordering::Relaxed) != 0
}

/// Sets limit and mask.
#[cfg(target_arch = "x86_64")]
pub(crate) fn choose() {
    choose_mask();
    choose_limit();
}

/// Sets the mask for the addresses that the page map reaches.
pub(crate) fn choose_mask() {
    use slabyard::platform::GRANULE;
    loop {
        // Either this sees the base of `open`, or `open` sees the reach that changed.
        fence(Ordering::SeqCst);
        if FAST.base.load(Ordering::Acquire) == 1 {
            return;
        }
        let (reach, closed) = (YARD.heap.region.reach(), is_closed());
        // Every address has a bit of this mask, but the base, where no object begins.
        let mask = if closed { usize::MAX } else { !(reach * GRANULE - 1) | UNALIGNED };
        FAST.mask.store(mask, Ordering::Release);
        // As in `choose_limit`.
        fence(Ordering::SeqCst);
        if YARD.heap.region.reach() == reach && is_closed() == closed {
            return;
        }
    }
}

/// What object caches do as the limit is set: true if each call must take the slow path.
#[cfg(object_caches)]
pub(crate) static ON_LIMIT: slabyard::sync::Once<fn(bool)> = slabyard::sync::Once::new();

/// Sets the limit that holds now: 0 while each call must take the slow path, so that no size is
/// below it.
pub(crate) fn choose_limit() {
    loop {
        let none = YARD.wants_every_call() || is_closed();
        FAST.limit.store(if none { 0 } else { LARGEST + 1 }, Ordering::Release);
        #[cfg(object_caches)]
        if let Some(call) = ON_LIMIT.try_get() {
            call(none);
        }
        // Of two threads that store different limits, one sees here that the other
        // changed the condition, and stores again. The fence keeps the store before
        // the load; its partner is the exchange that changes the interval, or the children.
        fence(Ordering::SeqCst);
        if (YARD.wants_every_call() || is_closed()) == none {
            return;
        }
    }
}
