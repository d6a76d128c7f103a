//! Memory from Linux: the block of rows, reservations that are committed piece by piece, and
//! mappings of their own.
//!
//! ```text
//! the block of rows, one mapping
//! +------+-------+------+-------------+---------------+- - - - - - - -+
//! | none | header | rows | small tables| first elements  | later elements  |
//! +------+-------+------+-------------+---------------+- - - - - - - -+
//!        ^ usable from the begin ................... ^ committed later
//! ```
//! A process that does little must make few system calls, so one call makes usable what every
//! process needs.
//!
//! Core files must hold what is committed and not the reserve of terabytes, whether the kernel
//! or a debugger writes them. The kernel leaves out private mappings in which nothing was
//! written, but debuggers do not; so [`Reservation`] advises against dumping the reserve, apart
//! from its first part, and takes the advice back ahead of what is committed.
//!
//! Where address space is limited (`ulimit -v`), a reserve would count against the program's
//! limit. Then nothing is reserved, and memory is *mapped on commit*: its addresses stay free
//! meanwhile because of where they lie ([`AddressRange`]). A reserve is given up in the same
//! way when the program makes a call that counts it later, such as `mlockall`.

use super::address_range::AddressRange;
use super::calls::{
    MAP_FIXED, MAP_NORESERVE, PROT_NONE, PROT_RW, advise, is_mapped_here, mmap, mmap_aligned,
    mmap_at, ok_address, protect, unmap,
};
use super::huge::{HUGE_PAGE, keep_small_pages};
use super::process;
use crate::platform::stack::{FIRST_ROW_BYTES, ROW_STRIDE, Rows, ZERO_ROWS, ZERO_ROWS_AT};
use crate::platform::{Stretch, Use, sys};
use crate::sync::{AtomicUsize, Ordering};

/// Address space for the elements of stacks: 18 000 sheaves of each size; where the system
/// refuses it less, and 300 at least.
const MOST_ELEMENTS: usize = 192 << 20;
const LEAST_ELEMENTS: usize = 4 << 20;
/// Bytes of elements that are usable from the begin.
const FIRST_ELEMENTS: usize = 128 << 10;
/// Bytes of a reservation that core files may hold from the begin.
const FIRST_OF_ARENA: usize = 2 << 20;
const FIRST_OF_TABLE: usize = 64 << 10;
/// Reservations that are known; there are no more than these in a process.
const RESERVATIONS: usize = 8;
/// Room for small tables, and more for each row: a word for some 250 of its entries.
const SMALL: usize = 128 << 10;
const SMALL_PER_ROW: usize = 2 << 10;

const PROT_READ: usize = 1;
const MADV_DONTNEED: usize = 4;
const MADV_DONTDUMP: usize = 16;
const MADV_DODUMP: usize = 17;
/// Since Linux 5.14; before that each page is faulted in as it is written.
const MADV_POPULATE_WRITE: usize = 23;

/// The reservations of the process.
pub(super) struct Memory {
    /// First address and end of what is usable from the begin.
    usable: [AtomicUsize; 2],
    /// The address of the next small table, and the end of the room for them.
    small: [AtomicUsize; 2],
    range: AddressRange,
    /// 1 if the reservations were given up.
    given_up: AtomicUsize,
    reservations: [Reservation; RESERVATIONS],
}

/// Address space that is committed piece by piece.
struct Reservation {
    /// First address; 0 where this is free.
    first: AtomicUsize,
    /// The first address that core files leave out.
    left_out: AtomicUsize,
    end: AtomicUsize,
    /// 1 if the part that is not committed is not mapped: it is mapped on commit.
    mapped_on_commit: AtomicUsize,
    /// Huge pages are advised against below this address.
    small_pages_end: AtomicUsize,
    /// Bytes of a table that were committed; of memory for objects [`NOT_COUNTED`].
    table_bytes: AtomicUsize,
}

/// The count of an arena: its owner gives the advice on huge pages.
const NOT_COUNTED: usize = usize::MAX / 2;

impl Reservation {
    const fn none() -> Self {
        Reservation {
            first: AtomicUsize::new(0),
            left_out: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            mapped_on_commit: AtomicUsize::new(0),
            small_pages_end: AtomicUsize::new(0),
            table_bytes: AtomicUsize::new(0),
        }
    }

    /// Counts what is committed of a table next. A table is written here and there, and parts of
    /// it are purged: as soon as it is large enough for a huge page, huge pages are advised
    /// against. Otherwise they come with a page fault, or a minute later (`khugepaged`).
    fn grows_by(&self, bytes: usize) {
        let old = self.table_bytes.fetch_add(bytes, Ordering::Relaxed);
        if old < HUGE_PAGE && old + bytes >= HUGE_PAGE {
            let end = self.end.load(Ordering::Relaxed);
            let first = self.first.load(Ordering::Relaxed);
            self.small_pages_end.store(end, Ordering::Relaxed);
            keep_small_pages(first, end - first);
        }
    }

    fn maps_on_commit(&self) -> bool {
        self.mapped_on_commit.load(Ordering::Relaxed) == 1
    }

    /// Maps a part that is mapped on commit.
    fn map_committed(&self, begin: usize, bytes: usize) -> bool {
        if !map_here(begin, bytes) {
            return false;
        }
        let small_end = self.small_pages_end.load(Ordering::Relaxed).min(begin + bytes);
        if begin < small_end {
            keep_small_pages(begin, small_end - begin);
        }
        true
    }

    /// Lets core files hold the bytes from `begin` to `end`. If these follow what core files
    /// hold already, it goes further ahead, so that growing needs few calls.
    fn keep(&self, begin: usize, end: usize) {
        let left_out = self.left_out.load(Ordering::Relaxed);
        if end <= left_out {
            return;
        }
        if begin > left_out {
            // The begin of another table in it: the bytes between stay left out.
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
            range: AddressRange::new(),
            given_up: AtomicUsize::new(0),
            reservations: [const { Reservation::none() }; RESERVATIONS],
        }
    }

    /// True if nothing is reserved, and memory is mapped as it is committed.
    pub(super) fn maps_on_commit(&self) -> bool {
        self.range.is_there() || self.given_up.load(Ordering::Acquire) == 1
    }

    /// Remembers address space that is mapped on commit.
    fn remember_range(&self, first: usize, end: usize, what: Use) -> bool {
        let free = self.take_reservation(first, what);
        if let Some(free) = free {
            free.mapped_on_commit.store(1, Ordering::Relaxed);
            free.left_out.store(end, Ordering::Relaxed);
            free.end.store(end, Ordering::Release);
        }
        free.is_some()
    }

    fn take_reservation(&self, first: usize, what: Use) -> Option<&Reservation> {
        let free = self.reservations.iter().find(|r| {
            r.first.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })?;
        let counted = if what == Use::Arena { NOT_COUNTED } else { 0 };
        free.table_bytes.store(counted, Ordering::Relaxed);
        Some(free)
    }

    /// Remembers a reservation, of which core files leave out what lies behind `left_out`. If
    /// there is no room to remember it, they leave out all of it but what is committed later.
    fn remember(&self, first: usize, left_out: usize, end: usize, what: Use) {
        let left_out = if let Some(free) = self.take_reservation(first, what) {
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
        let mut elements = MOST_ELEMENTS.next_multiple_of(page);
        if let Some(limit) = process::address_limit() {
            self.range.find(page, limit);
        }
        if self.range.is_there() {
            return self.init_mapped_on_commit(page, nr_rows, rows, [row_bytes, small, elements]);
        }
        // A page that is never written keeps the kernel from merging the header's mapping with
        // memory below it: the writable mapping begins with the header.
        let base = loop {
            match reserve_rows(2 * page, row_bytes + small + elements) {
                Some(base) => break base,
                None if elements > LEAST_ELEMENTS => {
                    elements = (elements / 2).next_multiple_of(page)
                }
                None => return false,
            }
        };
        let (header, small_at) = (base - page, base + row_bytes);
        let elements_at = small_at + small;
        let end = elements_at + FIRST_ELEMENTS.next_multiple_of(page);
        if !protect(header, end - header) {
            return false;
        }
        if row_bytes >= HUGE_PAGE {
            // Rows use a page each of what lies between them.
            keep_small_pages(base, row_bytes);
        }
        set(&self.usable, header, end);
        set(&self.small, small_at, elements_at);
        self.remember(header, end, elements_at + elements, Use::Table);
        // SAFETY: reserved and made usable above, for ever.
        unsafe { rows.set(header, base, nr_rows, (elements_at, elements)) };
        rows.set_row_bytes(first_row_bytes(page));
        true
    }

    /// The rest of [`Memory::init`] where address space is limited: of the rows, too, it maps
    /// only their pages, and not what lies between.
    fn init_mapped_on_commit(
        &self,
        page: usize,
        nr_rows: usize,
        rows: &Rows,
        bytes: [usize; 3],
    ) -> bool {
        let [row_bytes, small, elements] = bytes;
        let Some(header) = self.range.take(page + ZERO_ROWS_AT + ZERO_ROWS * ROW_STRIDE, page)
        else {
            return false;
        };
        let base = header + page;
        let (small_at, elements_at) = (base + row_bytes, base + row_bytes + small);
        let end = elements_at + FIRST_ELEMENTS.next_multiple_of(page);
        let is_there = map_here(header, page)
            && (!cfg!(target_arch = "x86_64")
                || map_here(base + ZERO_ROWS_AT, ZERO_ROWS * ROW_STRIDE))
            && (0..nr_rows).all(|nr| map_here(base + nr * ROW_STRIDE, first_row_bytes(page)))
            && map_here(small_at, end - small_at)
            && self.remember_range(header, elements_at + elements, Use::Table);
        if !is_there {
            return false;
        }
        set(&self.usable, header, end);
        set(&self.small, small_at, elements_at);
        // SAFETY: mapped above, for ever.
        unsafe { rows.set(header, base, nr_rows, (elements_at, elements)) };
        rows.set_row_bytes(first_row_bytes(page));
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
        if self.range.is_there() {
            let address = self.range.take(bytes, align.max(page))?;
            return self.remember_range(address, address + bytes, what).then_some(address);
        }
        // None of it is charged: it is inaccessible, or read-only.
        let protection = if what == Use::Map { PROT_READ } else { PROT_NONE };
        let address = match mmap(bytes, protection, MAP_NORESERVE)? {
            address if address.is_multiple_of(align) => address,
            // A kernel before 6.7 does not align large mappings to huge pages.
            elsewhere => {
                unmap(elsewhere, bytes);
                mmap_aligned(bytes, align, page, protection, MAP_NORESERVE)?
            }
        };
        let first = if what == Use::Arena { FIRST_OF_ARENA } else { FIRST_OF_TABLE };
        let left_out = address + first.next_multiple_of(page).min(bytes);
        self.remember(address, left_out, address + bytes, what);
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
        let reservation = self.reservation(address);
        if let Some(table) = reservation {
            table.grows_by(address + bytes - fresh);
        }
        if let Some(reservation) = reservation.filter(|r| r.maps_on_commit()) {
            return reservation.map_committed(fresh, address + bytes - fresh);
        }
        if !protect(fresh, address + bytes - fresh) {
            return false;
        }
        match reservation {
            Some(reservation) => reservation.keep(address, address + bytes),
            None => advise(address, bytes, MADV_DODUMP),
        }
        true
    }

    /// Unmaps a part of a reservation that is not committed; from now on it is mapped on commit.
    pub(super) fn unreserve(&self, address: usize, bytes: usize) {
        let [first, usable_end] = [0, 1].map(|i| self.usable[i].load(Ordering::Relaxed));
        let end = address + bytes;
        let address = if address >= first { address.max(usable_end.min(end)) } else { address };
        if address < end
            && let Some(reservation) = self.reservation(address)
        {
            reservation.mapped_on_commit.store(1, Ordering::Relaxed);
            unmap(address, end - address);
        }
    }

    /// Makes the bytes of each row up to `bytes` usable: most often they are there already, and
    /// else it maps them.
    pub(super) fn commit_rows(&self, rows: &Rows, bytes: usize) -> bool {
        let have = rows.row_bytes();
        let more = bytes.min(ROW_STRIDE).saturating_sub(have);
        let at = |row: usize| rows.base() + row * ROW_STRIDE + have;
        if more > 0 && self.maps_on_commit() {
            let mapped = (0..rows.len()).take_while(|row| map_here(at(*row), more)).count();
            if mapped < rows.len() {
                (0..mapped).for_each(|row| unmap(at(row), more));
                return false;
            }
        }
        rows.set_row_bytes(have + more);
        true
    }

    /// Unmaps what of the rows is not in use.
    pub(super) fn unreserve_own(&self, rows: &Rows) {
        let row = rows.row_bytes();
        for nr in 0..if row < ROW_STRIDE { rows.len() } else { 0 } {
            unmap(rows.base() + nr * ROW_STRIDE + row, ROW_STRIDE - row);
        }
        self.given_up.store(1, Ordering::Release);
    }

    pub(super) fn keep_small_pages(&self, address: usize, bytes: usize) {
        if let Some(reservation) = self.reservation(address) {
            reservation.small_pages_end.fetch_max(address + bytes, Ordering::Relaxed);
        }
        keep_small_pages(address, bytes);
    }

    pub(super) fn unmap(&self, address: usize, bytes: usize) {
        // It may be a reservation, too: while the region searches for its size.
        if let Some(gone) = self.reservation(address) {
            gone.end.store(0, Ordering::Relaxed);
            gone.first.store(0, Ordering::Release);
        }
        unmap(address, bytes);
    }
}

/// Bytes of each row that are usable from the begin.
fn first_row_bytes(page: usize) -> usize {
    FIRST_ROW_BYTES.next_multiple_of(page).min(ROW_STRIDE)
}

fn set(range: &[AtomicUsize; 2], first: usize, end: usize) {
    range[0].store(first, Ordering::Relaxed);
    range[1].store(end, Ordering::Relaxed);
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

/// Purges stretches: by one call for all if `together` and the kernel has that call, which is
/// since Linux 6.15 for a process's own memory without a descriptor (process_madvise(2)); else
/// one by one.
pub(super) fn give_back(stretches: &mut [Stretch], together: bool) {
    /// The calling process, as a descriptor.
    const PIDFD_SELF: usize = -10_000isize as usize;
    let mut nr_done = 0;
    if together && stretches.len() > 1 {
        let (first, n) = (stretches.as_ptr() as usize, stretches.len());
        // SAFETY: as below; a stretch is an `iovec`.
        let done =
            unsafe { sys::call(sys::PROCESS_MADVISE, [PIDFD_SELF, first, n, MADV_DONTNEED, 0, 0]) };
        let mut done = done.max(0).cast_unsigned();
        while let Some(stretch) = stretches.get(nr_done)
            && done >= stretch.bytes
        {
            done -= stretch.bytes;
            nr_done += 1;
        }
    }
    for stretch in &mut stretches[nr_done..] {
        let arguments = [stretch.address, stretch.bytes, MADV_DONTNEED, 0, 0, 0];
        // SAFETY: committed pages of ours that hold no object.
        if unsafe { sys::call(sys::MADVISE, arguments) } != 0 {
            *stretch = Stretch::NONE;
        }
    }
}

pub(super) fn map(page: usize, bytes: usize, align: usize) -> Option<usize> {
    mmap_aligned(bytes, align, page, PROT_RW, 0)
}

/// New pages in place of these, without access: what was there goes back to the system.
pub(super) fn make_fault(address: usize, bytes: usize) {
    // Where it is refused, the pages stay as they are.
    let _ = mmap_at(address, bytes, PROT_NONE, MAP_NORESERVE | MAP_FIXED);
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
        // SAFETY: to where it came from, which no other thread uses meanwhile.
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
    const ZEROS: usize = ZERO_ROWS * ROW_STRIDE;
    let (mut hint, mut step, bytes) = (usize::MAX, 3 << 30, before + rows);
    for nth in 0..64 {
        let at = if nth == 0 { 0 } else { hint };
        let first = mmap_at(at, bytes, PROT_NONE, MAP_NORESERVE)?;
        let base = first + before;
        if !cfg!(target_arch = "x86_64") {
            return Some(base);
        }
        let zeros_at = base + ZERO_ROWS_AT;
        if map_here(zeros_at, ZEROS) {
            return Some(base);
        }
        unmap(first, bytes);
        // Below all that was tried: where a hint is taken, the kernel chooses as if there were none.
        // Other yards' terabytes are passed in a few steps.
        hint = hint.min(first).saturating_sub(step);
        step = step.saturating_mul(2);
    }
    None
}

/// Maps usable memory at an address, if nothing is there.
fn map_here(address: usize, bytes: usize) -> bool {
    is_mapped_here(address, bytes, PROT_RW)
}
