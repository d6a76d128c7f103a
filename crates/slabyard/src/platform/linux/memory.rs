//! Mappings: the block of rows, what is reserved and committed piece by piece, and
//! mappings of their own.
//!
//! ```text
//! the block of rows, one mapping
//! +------+-------+------+-------------+---------------+- - - - - - - -+
//! | none | front | rows | small tables| first places  | later places  |
//! +------+-------+------+-------------+---------------+- - - - - - - -+
//!        ^ usable from the begin ................... ^ committed later
//! ```
//! A process that does little is to pay for few calls, so what every process needs is
//! made usable by one.
//!
//! Core files are to hold what is committed and not the reserve of terabytes, whoever
//! writes them. The kernel leaves out private mappings in which nothing was written, but
//! debuggers do not; so the reserve is advised against, apart from its first part, and
//! the advice is taken back ahead of what is committed: [`Reservation`].

use super::process;
use crate::platform::stack::{ROW_STRIDE, Rows, SLOTS, ZERO_ROWS, ZERO_ROWS_AT};
use crate::platform::{Stretch, Use, sys};
use crate::sync::{AtomicUsize, Ordering};

/// Address space for the places of stacks: 18 000 sheaves of each size; under a limit of
/// address space a 64th of it, and 300 at least.
const MOST_PLACES: usize = 192 << 20;
const LEAST_PLACES: usize = 4 << 20;
/// Places that are usable from the begin.
const FIRST_PLACES: usize = 128 << 10;
/// Bytes of a reservation that core files may hold from the begin.
const FIRST_OF_ARENA: usize = 2 << 20;
const FIRST_OF_TABLE: usize = 64 << 10;
/// Reservations that are known; there are no more than these in a process.
const RESERVATIONS: usize = 8;
/// Room for small tables, and more for each row: a word for each entry.
const SMALL: usize = 128 << 10;
const SMALL_PER_ROW: usize = SLOTS * size_of::<u64>();

const PROT_NONE: usize = 0;
const PROT_READ: usize = 1;
const PROT_RW: usize = 3;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const MAP_NORESERVE: usize = 0x4000;
/// Bytes of a huge page on x86-64; no machine has smaller ones.
const HUGE_PAGE: usize = 2 << 20;
const MADV_DONTNEED: usize = 4;
const MADV_NOHUGEPAGE: usize = 15;
const MADV_DONTDUMP: usize = 16;
const MADV_DODUMP: usize = 17;
/// Since Linux 5.14; before that each page is faulted in as it is written.
const MADV_POPULATE_WRITE: usize = 23;

/// What was reserved so far.
pub(super) struct Memory {
    /// First address and end of what is usable from the begin.
    usable: [AtomicUsize; 2],
    /// Where the next small table goes, and the end of their room.
    small: [AtomicUsize; 2],
    reservations: [Reservation; RESERVATIONS],
}

/// Address space that is committed piece by piece.
struct Reservation {
    /// First address; 0 where this is free.
    first: AtomicUsize,
    /// The first address that core files leave out.
    left_out: AtomicUsize,
    end: AtomicUsize,
}

impl Reservation {
    /// Lets core files hold what lies from `begin` to `end`. Where it goes on from what they
    /// hold, ahead of it, so that growing needs few calls.
    fn keep(&self, begin: usize, end: usize) {
        let left_out = self.left_out.load(Ordering::Relaxed);
        if end <= left_out {
            return;
        }
        if begin > left_out {
            // The begin of another table in it: what lies between stays left out.
            return advise(begin, end - begin, MADV_DODUMP);
        }
        let first = self.first.load(Ordering::Relaxed);
        let ahead = (end + (end - first)).min(self.end.load(Ordering::Relaxed));
        advise(left_out, ahead - left_out, MADV_DODUMP);
        self.left_out.store(ahead, Ordering::Relaxed);
    }
}

impl Memory {
    pub(super) const fn new() -> Self {
        Memory {
            usable: [const { AtomicUsize::new(0) }; 2],
            small: [const { AtomicUsize::new(0) }; 2],
            reservations: [const {
                Reservation {
                    first: AtomicUsize::new(0),
                    left_out: AtomicUsize::new(0),
                    end: AtomicUsize::new(0),
                }
            }; RESERVATIONS],
        }
    }

    /// Remembers a reservation, of which core files leave out what lies behind
    /// `left_out`; where there is no room for it, all of it and what is not committed.
    fn remember(&self, first: usize, left_out: usize, end: usize) {
        let free = self.reservations.iter().find(|r| {
            r.first.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        let left_out = if let Some(free) = free {
            free.left_out.store(left_out, Ordering::Relaxed);
            free.end.store(end, Ordering::Release);
            left_out
        } else {
            first
        };
        if left_out < end {
            advise(left_out, end - left_out, MADV_DONTDUMP);
        }
    }

    fn reservation(&self, address: usize) -> Option<&Reservation> {
        self.reservations.iter().find(|r| {
            let end = r.end.load(Ordering::Acquire);
            address < end && address >= r.first.load(Ordering::Relaxed)
        })
    }

    /// Makes the block of rows. False if there is no memory for it. Call it once.
    pub(super) fn init(&self, page: usize, nr_rows: usize, rows: &Rows) -> bool {
        let row_bytes = (nr_rows * ROW_STRIDE).next_multiple_of(page);
        let small = (SMALL + nr_rows * SMALL_PER_ROW).next_multiple_of(page);
        let mut places = (process::address_limit() / 64).clamp(LEAST_PLACES, MOST_PLACES);
        places = places.next_multiple_of(page);
        // A page that is never written, so that the mapping that can be written begins
        // with the front, whoever maps memory below.
        let base = loop {
            match reserve_rows(2 * page, row_bytes + small + places) {
                Some(base) => break base,
                None if places > LEAST_PLACES => places = (places / 2).next_multiple_of(page),
                None => return false,
            }
        };
        let (front, small_at) = (base - page, base + row_bytes);
        let places_at = small_at + small;
        let end = places_at + FIRST_PLACES.next_multiple_of(page);
        if !protect(front, end - front) {
            return false;
        }
        if row_bytes >= HUGE_PAGE {
            // Rows use a page each of what lies between them.
            keep_small_pages(base, row_bytes);
        }
        set(&self.usable, front, end);
        set(&self.small, small_at, places_at);
        self.remember(front, end, places_at + places);
        // SAFETY: reserved and made usable above, for ever.
        unsafe { rows.set(front, base, nr_rows, (places_at, places)) };
        true
    }

    pub(super) fn reserve(
        &self,
        page: usize,
        bytes: usize,
        align: usize,
        what: Use,
    ) -> Option<usize> {
        if what == Use::Table
            && align <= page
            && let Some(address) = self.take_small(bytes.next_multiple_of(page))
        {
            return Some(address);
        }
        // None of it is charged: it cannot be touched, or not be written.
        let protection = if what == Use::Map { PROT_READ } else { PROT_NONE };
        let address = match mmap(bytes, protection, MAP_NORESERVE)? {
            address if address.is_multiple_of(align) => address,
            // A kernel before 6.7 does not align what is large to huge pages.
            elsewhere => {
                unmap(elsewhere, bytes);
                mmap_aligned(bytes, align, page, protection, MAP_NORESERVE)?
            }
        };
        let first = if what == Use::Arena { FIRST_OF_ARENA } else { FIRST_OF_TABLE };
        self.remember(address, address + first.next_multiple_of(page).min(bytes), address + bytes);
        Some(address)
    }

    /// A part of the room for small tables, which is usable already.
    fn take_small(&self, bytes: usize) -> Option<usize> {
        let end = self.small[1].load(Ordering::Relaxed);
        self.small[0]
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| {
                at.checked_add(bytes).filter(|next| *next <= end)
            })
            .ok()
    }

    pub(super) fn commit(&self, address: usize, bytes: usize) -> bool {
        let [first, end] = [0, 1].map(|i| self.usable[i].load(Ordering::Relaxed));
        let fresh = if address >= first && address < end { address.max(end) } else { address };
        if fresh >= address + bytes {
            return true;
        }
        if !protect(fresh, address + bytes - fresh) {
            return false;
        }
        match self.reservation(address) {
            Some(reservation) => reservation.keep(address, address + bytes),
            None => advise(address, bytes, MADV_DODUMP),
        }
        true
    }

    pub(super) fn unmap(&self, address: usize, bytes: usize) {
        // Of a reservation, too: while the region looks for its size.
        if let Some(gone) = self.reservation(address) {
            gone.end.store(0, Ordering::Relaxed);
            gone.first.store(0, Ordering::Release);
        }
        unmap(address, bytes);
    }
}

fn set(range: &[AtomicUsize; 2], first: usize, end: usize) {
    range[0].store(first, Ordering::Relaxed);
    range[1].store(end, Ordering::Relaxed);
}

pub(super) fn keep_small_pages(address: usize, bytes: usize) {
    advise(address, bytes, MADV_NOHUGEPAGE);
}

/// Bytes of whole pages that are in memory.
pub(super) fn resident(page: usize, address: usize, bytes: usize) -> usize {
    const PAGES: usize = 512;
    let mut seen = [0u8; PAGES];
    let mut nr = 0;
    for first in (address..address + bytes).step_by(PAGES * page) {
        let part = (address + bytes - first).min(PAGES * page);
        // SAFETY: it writes a byte for each page of the part, at most as many as there are.
        if unsafe { sys::call(sys::MINCORE, [first, part, seen.as_mut_ptr() as usize, 0, 0, 0]) }
            == 0
        {
            nr += seen[..part / page].iter().filter(|page| **page & 1 == 1).count();
        }
    }
    nr * page
}

pub(super) fn touch_ahead(address: usize, bytes: usize) {
    advise(address, bytes, MADV_POPULATE_WRITE);
}

fn advise(address: usize, bytes: usize, advice: usize) {
    // SAFETY: a part of our own reservation; what it holds is kept.
    unsafe { sys::call(sys::MADVISE, [address, bytes, advice, 0, 0, 0]) };
}

fn protect(address: usize, bytes: usize) -> bool {
    // SAFETY: a part of our own reservation.
    unsafe { sys::call(sys::MPROTECT, [address, bytes, PROT_RW, 0, 0, 0]) == 0 }
}

/// By one call for all stretches where the kernel has it, which is since Linux 6.15 for a
/// process's own memory without a descriptor (process_madvise(2)); else one by one.
pub(super) fn give_back(stretches: &[Stretch]) {
    /// The calling process, as a descriptor.
    const PIDFD_SELF: usize = -10_000isize as usize;
    let mut rest = stretches;
    if stretches.len() > 1 {
        let (first, n) = (stretches.as_ptr() as usize, stretches.len());
        // SAFETY: as below; a stretch is an `iovec`.
        let done =
            unsafe { sys::call(sys::PROCESS_MADVISE, [PIDFD_SELF, first, n, MADV_DONTNEED, 0, 0]) };
        let mut done = done.max(0).cast_unsigned();
        while let [stretch, later @ ..] = rest
            && done >= stretch.bytes
        {
            done -= stretch.bytes;
            rest = later;
        }
    }
    for stretch in rest {
        // SAFETY: committed pages of ours that hold no object.
        unsafe {
            sys::call(sys::MADVISE, [stretch.address, stretch.bytes, MADV_DONTNEED, 0, 0, 0])
        };
    }
}

pub(super) fn map(page: usize, bytes: usize, align: usize) -> Option<usize> {
    mmap_aligned(bytes, align, page, PROT_RW, 0)
}

fn unmap(address: usize, bytes: usize) {
    // SAFETY: the caller owns this mapping.
    unsafe { sys::call(sys::MUNMAP, [address, bytes, 0, 0, 0, 0]) };
}

pub(super) fn remap(address: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
    const MREMAP_MAYMOVE: usize = 1;
    // SAFETY: the caller owns this mapping.
    ok_address(unsafe {
        sys::call(sys::MREMAP, [address, old_bytes, new_bytes, MREMAP_MAYMOVE, 0, 0])
    })
}

/// Since Linux 5.7.
pub(super) fn move_out(address: usize, bytes: usize, new_bytes: usize) -> Option<usize> {
    const MREMAP_MAYMOVE: usize = 1;
    const MREMAP_FIXED: usize = 2;
    const MREMAP_DONTUNMAP: usize = 4;
    let flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
    // SAFETY: committed pages of ours; their addresses stay ours.
    let moved =
        ok_address(unsafe { sys::call(sys::MREMAP, [address, bytes, bytes, flags, 0, 0]) })?;
    let grown = remap(moved, bytes, new_bytes);
    if grown.is_none() {
        let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
        // SAFETY: to where it came from, which nobody else uses meanwhile.
        let back = unsafe { sys::call(sys::MREMAP, [moved, bytes, bytes, flags, address, 0]) };
        if ok_address(back).is_none() {
            // SAFETY: both are ours, of so many bytes, and not the same.
            unsafe {
                core::ptr::copy_nonoverlapping(moved as *const u8, address as *mut u8, bytes);
            }
            unmap(moved, bytes);
        }
    }
    grown
}

/// Reserves rows, and bytes before them, at an address from which the rows of zeros can
/// be reached too: the address of row 0.
fn reserve_rows(before: usize, rows: usize) -> Option<usize> {
    const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
    const ZEROS: usize = ZERO_ROWS * ROW_STRIDE;
    let (mut hint, bytes) = (0, before + rows);
    for _ in 0..64 {
        let first = mmap_at(hint, bytes, PROT_NONE, MAP_NORESERVE)?;
        let base = first + before;
        if !cfg!(target_arch = "x86_64") {
            return Some(base);
        }
        let wanted = base + ZERO_ROWS_AT;
        match mmap_at(wanted, ZEROS, PROT_RW, MAP_FIXED_NOREPLACE) {
            Some(zeros) if zeros == wanted => return Some(base),
            // A kernel before 4.17 takes the address as a hint.
            Some(elsewhere) => unmap(elsewhere, ZEROS),
            None => {}
        }
        unmap(first, bytes);
        hint = first.saturating_sub(3 << 30);
    }
    None
}

fn ok_address(result: isize) -> Option<usize> {
    // Errors are -4095 to -1.
    (!(-4095..0).contains(&result)).then_some(result as usize)
}

fn mmap(bytes: usize, protection: usize, extra: usize) -> Option<usize> {
    mmap_at(0, bytes, protection, extra)
}

fn mmap_at(at: usize, bytes: usize, protection: usize, extra: usize) -> Option<usize> {
    let arguments = [at, bytes, protection, MAP_PRIVATE_ANONYMOUS | extra, usize::MAX, 0];
    // SAFETY: a fresh private mapping touches nothing that exists.
    ok_address(unsafe { sys::call(sys::MMAP, arguments) })
}

/// Maps with alignment by cutting the ends off a larger mapping.
fn mmap_aligned(
    bytes: usize,
    align: usize,
    page: usize,
    protection: usize,
    extra: usize,
) -> Option<usize> {
    if align <= page {
        return mmap(bytes, protection, extra);
    }
    let total = bytes.checked_add(align)?;
    let start = mmap(total, protection, extra)?;
    let aligned = start.next_multiple_of(align);
    let (head, tail) = (aligned - start, start + total - (aligned + bytes));
    // Both ends belong to the mapping just made.
    if head > 0 {
        unmap(start, head);
    }
    if tail > 0 {
        unmap(aligned + bytes, tail);
    }
    Some(aligned)
}
