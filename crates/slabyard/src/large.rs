//! Large allocations: what is larger than every class is a run of pages, or a mapping of its
//! own.
//!
//! Neighbours: runs come from the buddy ([`crate::pages::buddy`]), mappings from
//! [`crate::pages::mappings`].
//!
//! The pages of a freed run stay for the decay time, and the next run reuses them; those of a
//! mapping go back to the system at once, and a mapping grows without copying. So a block above
//! [`LARGEST_RUN`] is a mapping, unless such blocks come and go: one that is allocated within
//! the decay time after the last free of one is a run. Thus a program that frees a large block
//! and rests gives it back; one that replaces it reuses warm pages.
//! A large block that grows is a mapping, or where such blocks come and go a run: it reserves
//! as much room as the last freed large block had. A run that outgrows its room moves its pages
//! out to a mapping ([`crate::pages`]'s `grown`). (glibc adapts its threshold for `mmap` to what
//! is freed to the same end: mallopt(3).)
//! Where frees are checked closely at first ([`crate::verify::close`]), blocks from
//! [`SMALLEST_FAULTING`] to [`LARGEST_RUN`] are mappings too, as many as [`Large::may_fault`] allows: the kernel stops
//! a program that uses such a block after its free. What that costs, system calls and page faults,
//! is bounded in time, so that the check never ends, and a program that replaces large blocks all
//! the time gets runs.

use crate::cache::classes;
use crate::engine::Engine;
use crate::growth::forget_grown;
use crate::guarded::{Guarded, alloc_guarded, free_guarded};
use crate::pages::bank::Banked;
use crate::platform::{GRANULE, Platform};
use crate::surplus::{give_surplus_of, look_at_surplus};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::yard::reclaim::countdown::is_over;
use crate::yard::reclaim::ticker::{live_granules, start_ticker_for_bank};
use crate::yard::slow_path::{RUN_CALLS, enter_slow_path, is_inside};
use crate::yard::{Place, Yard};

/// The largest block that is always a run. A larger one is a mapping, unless large blocks come
/// and go.
pub const LARGEST_RUN: usize = 1 << 20;

/// The largest run where large blocks come and go.
/// Blocks of 1 to 64 MiB that replace each other had 492,000 page faults as mappings and have
/// 56,000 as runs (3e13e7d). If the first such blocks are runs too, a tenth of these goes, but a
/// large block that is never freed would lie among small objects. The extent that fits best, in
/// place of the one with most dirty pages, has a third more page faults.
pub const LARGEST_WARM_RUN: usize = 256 << 20;

/// The largest run where there are [many](crate::pages::mappings::Mappings::are_many) mappings:
/// larger blocks may be sparse, and would leave small objects no room.
const LARGEST_OF_MANY: usize = 16 << 20;
/// The smallest block that may be a mapping where it could be a run: glibc's threshold.
const SMALLEST_FAULTING: usize = 128 << 10;

/// No such mapping is made where there are so many mappings: the system has a limit.
const MOST_FAULTING: usize = 1024;

/// Bytes of such mappings in a millisecond, in the mean. A page that is faulted in anew costs 0.5
/// to 6 us, the most in a virtual machine: 0.6 % of the time at most.
const FAULTING_PER_MS: usize = 4 << 10;
/// And at once: so many milliseconds' worth, 2 MiB.
const FAULTING_MS: u64 = 512;

/// Dirty free pages beyond this part of what is live are too many.
pub(crate) const WARM_PART: usize = 4;

/// Where large blocks come and go, dirty free pages may raise the peak by this part of it, and by
/// so many granules. A block that is copied to another of twice its size each time it is full has
/// had blocks of twice the last one's size together, of which the last two, three quarters, are
/// live at once: where the others' pages go back, the next such block takes new ones.
/// With a quarter, a vector of 4 MiB lay 2 MiB further each time: 200 had 20,200 to
/// 22,200 page faults and have 5600 to 6900, at the same peak (`vector_2_4m` of
/// `ci/growth-by-hand`).
const PEAK_PART: usize = 3;
const PEAK_MORE: usize = (512 << 10) / GRANULE;

/// The alignment of blocks that `realloc` makes.
const ALIGN: usize = 16;

/// A zeroed block of up to so many bytes may be faulted in whole, and at most so many in a row.
/// `calloc` wrote to each page of such blocks, because programs look into a table before they enter
/// something, and each page faulted twice; but 2000 sparse blocks of 200 KB were 402 MB resident,
/// and are 18. So it writes to as many bytes only as were freed in runs before: a program whose
/// tables replace others takes 1.03 of the time.
const LARGEST_TOUCHED: usize = 256 << 10;
const MOST_TOUCHED: usize = 1 << 20;

/// The free of a block may give back so many times as much.
pub(crate) const SHED: usize = 4;

/// A run larger than this makes room for the new pages that it takes, and gives back as it is freed.
pub(crate) const SMALLEST_LARGE: usize = 64 << 10;

/// The largest block that a bank may have.
const LARGEST_BANKED: usize = 512 << 10;

/// What a mapping of so many bytes that faults after its free costs: the milliseconds that pay it.
fn cost_ms(bytes: usize) -> u64 {
    bytes.div_ceil(FAULTING_PER_MS) as u64
}

/// What a yard remembers of its large blocks.
pub(crate) struct Large {
    /// When one was last freed, in milliseconds plus one; 0: never.
    freed: AtomicU64,
    /// The size of that block.
    freed_bytes: AtomicUsize,
    /// The most live granules at the allocation of one.
    peak: AtomicUsize,
    /// Bytes of zeroed blocks that may be faulted in whole; a hint.
    touched: AtomicUsize,
    /// Until when the blocks that were made mappings are paid for, in milliseconds.
    paid_until: AtomicU64,
    /// Their debugging.
    pub(crate) guarded: Guarded,
}

impl Large {
    pub(crate) const fn new() -> Self {
        Large {
            freed: AtomicU64::new(0),
            freed_bytes: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            touched: AtomicUsize::new(0),
            paid_until: AtomicU64::new(0),
            guarded: Guarded::new(),
        }
    }

    /// True if another block may be a mapping only so that it faults after its free: what such
    /// blocks cost is spread over time. (Turner's leaky bucket as a virtual clock: ITU-T I.371.)
    /// Relaxed: two threads that count at the same time count one block.
    fn may_fault(&self, now_ms: u64, bytes: usize) -> bool {
        let may = self.has_paid(now_ms, bytes);
        if may {
            let paid = self.paid_until.load(Ordering::Relaxed).max(now_ms);
            self.paid_until.store(paid + cost_ms(bytes), Ordering::Relaxed);
        }
        may
    }

    fn has_paid(&self, now_ms: u64, bytes: usize) -> bool {
        let paid = self.paid_until.load(Ordering::Relaxed).max(now_ms);
        paid + cost_ms(bytes) <= now_ms + FAULTING_MS
    }
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// As [`Yard::alloc_fast`], for a block that has grown and may grow again: a large one is a
    /// mapping, which grows without copying, or where such blocks come and go a run with as much
    /// room as the last freed large block had.
    pub fn alloc_growing(&self, bytes: usize) -> Option<usize> {
        if bytes > LARGEST_RUN
            && bytes <= isize::MAX as usize
            && !self.is_guarded()
            && let Some(_slow_path) = enter_slow_path(self, RUN_CALLS)
            && let Some(address) = alloc_large_growing(self, bytes)
        {
            return Some(address);
        }
        self.alloc_fast(bytes, ALIGN)
    }

    /// Resizes a block without copying its bytes: returns the same address, or that to which the
    /// system moved its pages. `None` if that is not possible.
    pub fn resize(&self, address: usize, bytes: usize) -> Option<usize> {
        match self.place_of(address) {
            // A debugged object moves, so that stale pointers are found.
            Place::Object { .. } if self.is_debugged(address) => None,
            Place::Large(_) if self.is_guarded() => None,
            Place::Object { bytes: have, begin: true, .. } => {
                (bytes <= have && bytes >= have / 2).then_some(address)
            }
            Place::Large(have) if self.heap.run_bytes(address).is_some() => {
                // A run of an object's size has an alignment that no object has; what `realloc`
                // makes of it is an object, whose size its free may name.
                if bytes <= classes::LARGEST {
                    return None;
                }
                if bytes > have {
                    return grow_live_run(self, address, have, bytes);
                }
                let _slow_path = enter_slow_path(self, RUN_CALLS)?;
                self.heap.shrink_run(address, bytes);
                Some(address)
            }
            Place::Large(have) if bytes > LARGEST_RUN => {
                let _slow_path = enter_slow_path(self, RUN_CALLS)?;
                let moved = self.heap.remap_own(address, bytes)?;
                if bytes > have {
                    make_room(self, (bytes - have) / GRANULE, bytes);
                }
                Some(moved)
            }
            _ => None,
        }
    }

    /// Zeroes a fresh allocation, and writes nothing that is known to be zero: a table may be
    /// sparse. But where as many bytes of blocks that could be runs were freed before, a small
    /// block is written to in each page: programs look into a table before they enter something,
    /// and a page that is read first is faulted in twice, once as the page of zeros.
    ///
    /// # Safety
    /// `pointer` is an allocation of this yard of at least so many bytes, the caller's alone, in
    /// which nothing was written yet.
    pub unsafe fn zero_fresh(&self, pointer: *mut u8, bytes: usize) {
        let touched = self.large.touched.load(Ordering::Relaxed);
        if bytes > classes::LARGEST && bytes <= touched.min(LARGEST_TOUCHED) {
            self.large.touched.store(touched - bytes, Ordering::Relaxed);
            for offset in (0..bytes).step_by(GRANULE) {
                // SAFETY: inside of the allocation.
                unsafe { pointer.add(offset).write_volatile(0) };
            }
        }
        self.each_dirty_part(pointer.expose_provenance(), bytes, |offset, n| {
            // SAFETY: as above.
            unsafe { pointer.add(offset).write_bytes(0, n) };
        });
    }

    /// Calls `f` with offset and bytes of each part of a fresh allocation that may hold anything
    /// but zeros.
    pub fn each_dirty_part(&self, address: usize, bytes: usize, mut f: impl FnMut(usize, usize)) {
        let region = &self.heap.region;
        let Some(first) = region.granule_of(address) else {
            return;
        };
        if self.class_at(address).is_some() {
            return f(0, bytes);
        }
        let (mut at, end) = (0, bytes.div_ceil(GRANULE));
        while at < end {
            let (n, dirty) = region.stretch(first as usize + at, end - at);
            if dirty {
                f(at * GRANULE, (n * GRANULE).min(bytes - at * GRANULE));
            }
            at += n;
        }
    }
}

pub(crate) fn alloc_large<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    if yard.is_guarded() {
        return alloc_guarded(yard, bytes, align);
    }
    let bytes = bytes.max(1);
    let need = bytes.max(align);
    if need <= LARGEST_RUN {
        let faulting = need >= SMALLEST_FAULTING && is_to_fault(yard, need);
        let mapped = if faulting { map_large(yard, bytes, align) } else { None };
        return mapped.or_else(|| alloc_warm(yard, bytes, align));
    }
    yard.surplus.allocates();
    if need <= LARGEST_WARM_RUN
        && is_large_warm(yard)
        && let Some(address) = alloc_warm(yard, bytes, align)
    {
        return Some(address);
    }
    if yard.heap.mappings.are_many()
        && need <= LARGEST_OF_MANY
        && let Some(address) = yard.heap.alloc_run(bytes, align)
    {
        return Some(address);
    }
    // Where address space is limited, the region may hold all that there is.
    map_large(yard, bytes, align).or_else(|| yard.heap.alloc_run(bytes, align))
}

/// Takes a run out of this CPU's bank, outside of a slow path. Not in a handler that interrupted
/// one.
#[inline(never)]
pub(crate) fn take_banked<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    let need = bytes.max(align);
    if need > LARGEST_BANKED || must_pass_banks(yard) || may_be_to_fault(yard, need) {
        return None;
    }
    match yard.heap.take_banked(bytes.max(1), align) {
        Banked::Run(address) => Some(address),
        Banked::Nothing => None,
        Banked::Other(address) => {
            let _ = yard.free(address);
            None
        }
    }
}

/// Puts a run into the bank of this CPU, outside of a slow path: false if the slow path must free
/// it, as one that found its row's countdown over must. While frees are checked closely each
/// finds it over; that of a run is checked by its descriptor anyway.
#[inline(never)]
pub(crate) fn bank<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    let Some(row) = yard.platform().row_hint() else { return false };
    if is_over(yard, row, yard.checks.are_close()) || must_pass_banks(yard) {
        return false;
    }
    let Some(bytes) = yard.heap.bank_run(address, row) else { return false };
    forget_grown(yard, address);
    note_freed(yard, bytes);
    true
}

/// As many bytes of zeroed blocks may be faulted in whole.
#[inline(always)]
fn note_freed<P: Platform, E: Engine>(yard: &Yard<P, E>, bytes: usize) {
    let touched = yard.large.touched.load(Ordering::Relaxed);
    if bytes <= LARGEST_RUN && touched < MOST_TOUCHED {
        yard.large.touched.store((touched + bytes).min(MOST_TOUCHED), Ordering::Relaxed);
    }
}

/// True where each call about a run is a slow path: with debugging, where slices must be made, or
/// deferred frees; and inside of one, where a handler that interrupted it changes nothing that
/// it may be about.
#[inline(always)]
fn must_pass_banks<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.is_guarded()
        || yard.wants_every_call()
        || yard.deferred.load(Ordering::Relaxed) != 0
        || is_inside(yard)
}

/// True if [`is_to_fault`] may say so: by the last tick instead of the clock, which is no
/// later.
#[inline(always)]
fn may_be_to_fault<P: Platform, E: Engine>(yard: &Yard<P, E>, need: usize) -> bool {
    need >= SMALLEST_FAULTING
        && yard.checks.began()
        && yard.large.has_paid(yard.last_tick.load(Ordering::Relaxed), need)
}

fn alloc_warm<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    alloc_warm_in(yard, bytes, bytes, align)
}

fn alloc_warm_in<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    room: usize,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    let address = yard.heap.alloc_run_in(room, bytes, align)?;
    let region = &yard.heap.region;
    if bytes > SMALLEST_LARGE
        && let Some(first) = region.granule_of(address)
    {
        let granules = yard.heap.granules_for(bytes);
        let new = granules - region.dirty_in(first as usize, granules);
        if new > 0 {
            make_room(yard, new, bytes);
        }
    }
    Some(address)
}

fn map_large<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    let address = yard.heap.map_own(bytes, align)?;
    make_room(yard, bytes / GRANULE, bytes);
    Some(address)
}

/// Makes room for so many granules that will be touched anew. Dirty free pages may raise the
/// peak by a [`PEAK_PART`]th and a little at most: the surplus is purged, up to `new` granules.
fn make_room<P: Platform, E: Engine>(yard: &Yard<P, E>, new: usize, request: usize) {
    let heap = &yard.heap;
    let free = heap.free_count();
    let live = live_granules(yard, free.free);
    let peak = yard.large.peak.fetch_max(live, Ordering::Relaxed).max(live);
    let surplus = (live + free.dirty).saturating_sub(peak + peak / PEAK_PART + PEAK_MORE);
    if surplus == 0 || free.dirty == 0 {
        return;
    }
    if request > LARGEST_RUN {
        // In proportion to the request, as its mapping and unmapping are.
        heap.purge(0, surplus.min(new));
    } else {
        // The next slow paths purge it: this call stays within its bound.
        yard.backlog.fetch_max(surplus.min(new), Ordering::Relaxed);
    }
}

/// Frees the run or mapping that begins at an address; false if none does.
pub(crate) fn free_large<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    if yard.is_guarded() {
        return free_guarded(yard, address);
    }
    forget_grown(yard, address);
    if let Some(bytes) = yard.heap.bank_in_slow_path(address, !yard.surplus.has_collapsed()) {
        note_freed(yard, bytes);
        // Its runs go back when it is idle, and count for the surplus until then.
        start_ticker_for_bank(yard);
        look_at_surplus(yard);
        return true;
    }
    let run = yard.heap.free_live_run(address);
    let Some(bytes) = run.or_else(|| yard.heap.unmap_own(address)) else {
        return false;
    };
    note_freed(yard, bytes);
    if bytes > LARGEST_RUN {
        yard.large.freed.store(yard.platform().now_ms() + 1, Ordering::Relaxed);
        yard.large.freed_bytes.store(bytes, Ordering::Relaxed);
    }
    if run.is_some() && bytes > SMALLEST_LARGE {
        give_surplus_of(yard, SHED * bytes / GRANULE);
    }
    true
}

/// True if a block that could be a run is to be a mapping, which faults after its free.
fn is_to_fault<P: Platform, E: Engine>(yard: &Yard<P, E>, bytes: usize) -> bool {
    yard.checks.began()
        && yard.heap.mappings.live().0 < MOST_FAULTING
        && yard.large.may_fault(yard.platform().now_ms(), bytes)
}

/// True if a large block was freed within the decay time.
pub(crate) fn is_large_warm<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    // 0: never.
    let freed = yard.large.freed.load(Ordering::Relaxed);
    freed != 0 && yard.platform().now_ms() + 1 - freed < u64::from(yard.decay_ms())
}

fn alloc_large_growing<P: Platform, E: Engine>(yard: &Yard<P, E>, bytes: usize) -> Option<usize> {
    let room = yard.large.freed_bytes.load(Ordering::Relaxed).min(LARGEST_WARM_RUN);
    if bytes <= LARGEST_WARM_RUN
        && is_large_warm(yard)
        && let Some(address) = alloc_warm_in(yard, room, bytes, ALIGN)
    {
        return Some(address);
    }
    map_large(yard, bytes, ALIGN)
}

/// Grows a run: in place, or a large one by moving its pages out to a mapping. `None` for a
/// smaller run that has no room, which the caller copies to dirty pages.
fn grow_live_run<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
    have: usize,
    bytes: usize,
) -> Option<usize> {
    let is_large = have > LARGEST_RUN;
    if !is_large && bytes > LARGEST_RUN {
        return None;
    }
    let _slow_path = enter_slow_path(yard, RUN_CALLS)?;
    if bytes <= LARGEST_WARM_RUN
        && let Some(new) = yard.heap.grow_run(address, bytes)
    {
        if bytes > SMALLEST_LARGE && new > 0 {
            make_room(yard, new, bytes);
        }
        return Some(address);
    }
    if !is_large {
        return None;
    }
    let moved = yard.heap.move_run_out(address, bytes)?;
    make_room(yard, (bytes - have) / GRANULE, bytes);
    Some(moved)
}
