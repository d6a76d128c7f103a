//! Whether the library's yard is ready, and the words that the fast path reads.
//!
//! Neighbours: [`crate::start`] makes the yard ready; the fast paths of each library, written in
//! assembly, read [`FAST`] at the offsets of [`at`]. Invariant: a process has one yard per library,
//! so these words are statics.

use crate::control::{choose_counted, is_on};
use crate::library::Library;
use slabyard::cache::classes::{ENTRIES, LARGEST, OFFSETS};
use slabyard::platform::PerCpu;
use slabyard::platform::linux::Mode;
use slabyard::sync::{AtomicU32, AtomicUsize, Ordering, fence};

pub(crate) const COLD: u32 = 0;
pub(crate) const STARTING: u32 = 1;
const READY: u32 = 2;
const FAILED: u32 = 3;

/// How far the yard's start is; [`crate::start`] changes it.
pub(crate) static STATE: AtomicU32 = AtomicU32::new(COLD);

/// The start is over: the yard can be used, or never can.
pub(crate) fn end_start<L: Library>(done: bool) {
    if done {
        // Before the state: whoever finds the yard ready may be the first to choose the limit, which
        // lets all threads read these words.
        FAST.fill::<L>();
    }
    STATE.store(if done { READY } else { FAILED }, Ordering::Release);
    if done {
        choose::<L>();
    }
}

/// True once the yard can be used.
#[inline]
pub fn ready() -> bool {
    // Acquire pairs with the Release in `end_start`.
    STATE.load(Ordering::Acquire) == READY
}

/// The mode as users count it.
pub fn mode_number(mode: Mode) -> u64 {
    match mode {
        Mode::Library => 1,
        Mode::Own => 2,
        Mode::Slots => 3,
    }
}

/// What `malloc` and `free` read: one cache line. The first values send every call to the slow
/// path: no size is below the limit 0, and every address differs from the base 1 in a bit of the
/// mask. The size table is behind the words, so that one instruction finds both and the others name
/// a distance of one byte: with the table elsewhere `mixed` took 0.99 of mimalloc's time in place
/// of 0.95 (9c63f82).
#[repr(C, align(64))]
pub struct Fast {
    /// Requests for as much as this or more take the slow path.
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
pub mod at {
    /// Of [`Fast::limit`](super::Fast::limit).
    pub const LIMIT: usize = 0;
    /// Of [`Fast::cs_offset`](super::Fast::cs_offset).
    pub const CS_OFFSET: usize = 8;
    /// Of [`Fast::rows`](super::Fast::rows).
    pub const ROWS: usize = 16;
    /// Of [`Fast::base`](super::Fast::base).
    pub const BASE: usize = 24;
    /// Of [`Fast::mask`](super::Fast::mask).
    pub const MASK: usize = 32;
    /// Of [`Fast::map`](super::Fast::map).
    pub const MAP: usize = 40;
    /// Of [`Fast::table`](super::Fast::table).
    pub const TABLE: usize = 48;
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

/// Those of the process.
pub static FAST: Fast = Fast {
    limit: AtomicUsize::new(0),
    cs_offset: AtomicUsize::new(0),
    rows: AtomicUsize::new(0),
    base: AtomicUsize::new(1),
    mask: AtomicUsize::new(usize::MAX),
    map: AtomicUsize::new(0),
    table: OFFSETS,
};

impl Fast {
    /// What the fast path finds behind the limit and the mask.
    fn fill<L: Library>(&self) {
        let region = &L::yard().heap.region;
        self.cs_offset.store(L::yard().platform().cs_offset(), Ordering::Relaxed);
        self.rows.store(L::yard().platform().rows().base(), Ordering::Relaxed);
        self.map.store(region.map_base(), Ordering::Relaxed);
        self.base.store(region.base(), Ordering::Relaxed);
    }

    /// False while the yard begins: the fast path stays closed, whatever is chosen.
    fn is_filled(&self) -> bool {
        // Relaxed: the thread that begins the yard stored the base itself, and others find it, because
        // `ready` comes after it.
        self.base.load(Ordering::Relaxed) != 1
    }
}

/// Children that may run in this process's memory (`vfork`): while there are any,
/// no call takes the fast path.
static CHILDREN: AtomicUsize = AtomicUsize::new(0);

/// Counts a child for which the fast path is closed, or takes it off. [`choose`] applies it.
pub fn hold_open(open: bool) {
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
pub fn is_closed() -> bool {
    CHILDREN.load(Ordering::Relaxed) != 0
}

/// Sets mask and limit. A thread that passes them, by loads that are Acquire, finds the other words in
/// place; on x86-64 loads are not reordered with each other.
pub(crate) fn choose<L: Library>() {
    choose_mask::<L>();
    choose_limit::<L>();
}

/// Sets the mask for the addresses that the page map reaches.
pub(crate) fn choose_mask<L: Library>() {
    use slabyard::platform::GRANULE;
    loop {
        // What this is called for changed before the mask does, for a thread that stores another mask.
        fence(Ordering::SeqCst);
        if !FAST.is_filled() {
            return;
        }
        let (reach, closed) = (L::yard().heap.region.reach(), is_closed());
        // Every address has a bit of this mask, but the base, where no object begins.
        let mask = if closed { usize::MAX } else { !(reach * GRANULE - 1) | L::UNALIGNED };
        // Release: whoever finds the mask finds the page map as far as it reaches.
        FAST.mask.store(mask, Ordering::Release);
        // As in `choose_limit`.
        fence(Ordering::SeqCst);
        if L::yard().heap.region.reach() == reach && is_closed() == closed {
            return;
        }
    }
}

/// Sets the limit that holds now: 0 while each allocation must take the slow path, so that no size
/// is below it, and while a profile ([`crate::control`]) counts each request.
pub fn choose_limit<L: Library>() {
    while FAST.is_filled() {
        let none = L::yard().wants_every_call() || is_closed();
        let counts = is_on();
        // Release: whoever finds the limit finds the words that were there when the yard was ready.
        FAST.limit.store(if none || counts { 0 } else { LARGEST + 1 }, Ordering::Release);
        choose_counted(none);
        L::limit_chosen(none);
        // Of two threads that store different limits, one sees here that the other
        // changed the condition, and stores again. The fence keeps the store before
        // the load; its partner is the exchange that changes the interval or the children, or the
        // store that begins or ends a profile.
        fence(Ordering::SeqCst);
        let is_none = L::yard().wants_every_call() || is_closed();
        if (is_none, is_on()) == (none, counts) {
            return;
        }
    }
}

/// In a slow path without a profile: opens the fast path that another process closed to begin one,
/// if nothing came of it.
#[inline(always)]
pub(crate) fn reopen<L: Library>() {
    if FAST.limit.load(Ordering::Relaxed) == 0 && !L::yard().wants_every_call() {
        choose_limit::<L>();
    }
}
