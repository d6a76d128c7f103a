//! A yard's reservations: the block of rows, and addresses that are mapped piece by piece as they
//! are committed.
//!
//! ```text
//! the block of rows
//! +--------+------+- - - - +-------------+---------------+- - - - - - - -+
//! | header | rows | no CPU | small tables| first elements  | later elements  |
//! +--------+------+- - - - +-------------+---------------+- - - - - - - -+
//!  ^ mapped        ^ never  ^ mapped                     ^ mapped when committed
//! ```
//! A small process must make few system calls, so a few calls map the memory that every process
//! needs.
//!
//! Nothing is really reserved: the kernel counts a reserved mapping against the limits of a process
//! (`ulimit -v`, `mlockall`), and a limit may be set at any time, by another process too. A
//! reservation is a range of addresses that stay free because of their position
//! ([`address_range`]). So core files contain only committed memory.
//!
//! The addresses where rows for higher CPU numbers would be are never mapped: if the kernel reports
//! a CPU number that it excluded at the start, the thread faults instead of overwriting a table.
//!
//! Neighbour: the engines reserve and commit through [`super::memory`].

use super::address_range;
use super::calls::{PROT_RW, find_resident, is_mapped_here, unmap};
use super::huge::{HUGE_PAGE, keep_small_pages};
use crate::memory::{Use, round_up};
use crate::rseq;
use crate::stack::{FIRST_ROW_BYTES, ROW_STRIDE, Rows, ZERO_ROWS, ZERO_ROWS_AT};
use crate::sync::{AtomicUsize, Ordering};

/// Address space for the elements of stacks: 18 000 sheaves of each size, and 95 for each row, on
/// which malloc's classes and the lists of runs have at most 96 stacks of one size; where addresses
/// are few less, and 300 at least. All lie in front of the rows of zeros.
const ELEMENTS: usize = 192 << 20;
const ELEMENTS_PER_ROW: usize = 1 << 20;
const MOST_ELEMENTS: usize = 3 << 30;
const LEAST_ELEMENTS: usize = 4 << 20;
/// Bytes of elements, and of another table, that are usable from the start.
const FIRST_ELEMENTS: usize = 128 << 10;
const FIRST_OF_TABLE: usize = 64 << 10;
/// Rows of this many bytes are mapped whole, with what is between those of which a page is used;
/// of more rows each page is a mapping.
const WHOLE_ROWS: usize = 4 << 20;
/// Reservations that are known; there are no more than these in a yard.
const RESERVATIONS: usize = 8;
/// Room for small tables, and more for each row: a word for some 250 of its entries.
const SMALL: usize = 128 << 10;
const SMALL_PER_ROW: usize = 2 << 10;

/// The reservations of a yard.
pub(super) struct Reservations {
    /// The address of the next small table, and the end of the room for them.
    small: [AtomicUsize; 2],
    /// Bytes of each row that are mapped.
    mapped_of_row: AtomicUsize,
    known: [Reservation; RESERVATIONS],
}

/// Addresses that are mapped piece by piece, as they are committed.
struct Reservation {
    /// First address; 0 where this is free.
    first: AtomicUsize,
    end: AtomicUsize,
    /// What lies below this address was mapped as it was reserved.
    mapped_end: AtomicUsize,
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
            end: AtomicUsize::new(0),
            mapped_end: AtomicUsize::new(0),
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
            // What is mapped of it has the advice, though the system says that not all is.
            keep_small_pages(first, end - first);
        }
    }

    /// Maps a part.
    fn map(&self, begin: usize, bytes: usize) -> bool {
        if !map_here(begin, bytes) {
            return false;
        }
        let small_end = self.small_pages_end.load(Ordering::Relaxed).min(begin + bytes);
        if begin < small_end {
            keep_small_pages(begin, small_end - begin);
        }
        true
    }
}

impl Reservations {
    pub(super) const fn new() -> Self {
        Reservations {
            small: [const { AtomicUsize::new(0) }; 2],
            mapped_of_row: AtomicUsize::new(0),
            known: [const { Reservation::none() }; RESERVATIONS],
        }
    }

    /// Remembers a range, of whose begin so many bytes are mapped; false without room.
    fn remember(&self, first: usize, end: usize, mapped: usize, what: Use) -> bool {
        let free = self.known.iter().find(|r| {
            r.first.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        if let Some(free) = free {
            let counted = if what == Use::Arena { NOT_COUNTED } else { mapped.min(FIRST_OF_TABLE) };
            free.mapped_end.store(first + mapped, Ordering::Relaxed);
            free.table_bytes.store(counted, Ordering::Relaxed);
            free.end.store(end, Ordering::Release);
        }
        free.is_some()
    }

    fn reservation(&self, address: usize) -> Option<&Reservation> {
        self.known.iter().find(|r| {
            address < r.end.load(Ordering::Acquire) && address >= r.first.load(Ordering::Relaxed)
        })
    }

    /// Makes the block of rows, with this many rows of the addresses that `most_rows` would take.
    /// False if there is no memory for it. Call it once.
    pub(super) fn init(&self, page: usize, nr: [usize; 2], limited: bool, rows: &Rows) -> bool {
        let [nr_rows, most_rows] = nr;
        let row_bytes = round_up(nr_rows * ROW_STRIDE, page);
        let room = row_bytes.max(round_up(most_rows * ROW_STRIDE, page));
        let small = round_up(SMALL + nr_rows * SMALL_PER_ROW, page);
        // A limit counts what lies between rows.
        let are_whole = row_bytes <= WHOLE_ROWS && !limited;
        let first_part = page + if are_whole { row_bytes } else { 0 };
        let elements = ELEMENTS + nr_rows * ELEMENTS_PER_ROW;
        let mut elements = round_up(elements.min(MOST_ELEMENTS), page);
        let (header, mapped) = loop {
            let block = page + room + small + elements;
            // The rows of zeros lie behind it.
            let zeros = page + ZERO_ROWS_AT + ZERO_ROWS * ROW_STRIDE;
            let bytes = if rseq::ARE_SUPPORTED { block.max(zeros) } else { block };
            // Header and rows lie in one page of the page tables, and small tables and the first
            // elements in another: a fork copies each.
            match address_range::take(bytes, HUGE_PAGE.max(page), first_part) {
                Some(taken) => break taken,
                None if elements > LEAST_ELEMENTS => {
                    elements = round_up(elements / 2, page);
                }
                None => return false,
            }
        };
        let base = header + page;
        let (small_at, elements_at) = (base + room, base + room + small);
        let end = elements_at + round_up(FIRST_ELEMENTS, page);
        let first = round_up(FIRST_ROW_BYTES, page).min(ROW_STRIDE);
        self.mapped_of_row.store(if are_whole { ROW_STRIDE } else { first }, Ordering::Relaxed);
        // Nothing lies in front of the header that it could be merged with.
        let is_there = mapped == first_part
            && (are_whole || (0..nr_rows).all(|nr| map_here(base + nr * ROW_STRIDE, first)))
            && (!rseq::ARE_SUPPORTED || map_here(base + ZERO_ROWS_AT, ZERO_ROWS * ROW_STRIDE))
            && map_here(small_at, end - small_at)
            && self.remember(header, elements_at + elements, end - header, Use::Table);
        if !is_there {
            return false;
        }
        if (HUGE_PAGE..=WHOLE_ROWS).contains(&row_bytes) {
            // Rows use a page each of what lies between them.
            keep_small_pages(base, row_bytes);
        }
        self.small[0].store(small_at, Ordering::Relaxed);
        self.small[1].store(elements_at, Ordering::Relaxed);
        // SAFETY: mapped above, for ever.
        unsafe { rows.set(header, base, nr_rows, (elements_at, elements)) };
        rows.set_row_bytes(first);
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
            && let Some(address) = self.take_small(round_up(bytes, page))
        {
            return Some(address);
        }
        // A table is used at once, so its begin is mapped without a look at what is there.
        let first = if what == Use::Table { round_up(FIRST_OF_TABLE, page) } else { 0 };
        let (address, mapped) = address_range::take(bytes, align.max(page), first.min(bytes))?;
        self.remember(address, address + bytes, mapped, what).then_some(address)
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
        let fresh = self.behind_usable(address);
        if fresh >= address + bytes {
            return true;
        }
        self.reservation(address).is_some_and(|reservation| {
            reservation.grows_by(address + bytes - fresh);
            reservation.map(fresh, address + bytes - fresh)
        })
    }

    /// The address, or where what was mapped as it was reserved ends if it is there.
    fn behind_usable(&self, address: usize) -> usize {
        let known = self.reservation(address).map(|r| r.mapped_end.load(Ordering::Relaxed));
        address.max(known.unwrap_or(0))
    }

    /// Unmaps the pages that are mapped from an address on, without a gap, `most` bytes of it.
    pub(super) fn forget_commit(&self, page: usize, address: usize, most: usize) {
        let is_mapped = |at: &usize| find_resident(*at, page, &mut [0]);
        let first = self.behind_usable(address);
        let pages = (first..address + most).step_by(page).take_while(is_mapped).count();
        if pages > 0 {
            unmap(first, pages * page);
        }
    }

    /// Makes the bytes of each row up to `bytes` usable: most often they are there already, and
    /// else it maps them.
    pub(super) fn commit_rows(&self, rows: &Rows, bytes: usize) -> bool {
        let have = self.mapped_of_row.load(Ordering::Relaxed);
        let bytes = bytes.min(ROW_STRIDE);
        let at = |row: usize| rows.base() + row * ROW_STRIDE + have;
        if bytes > have {
            let more = bytes - have;
            let mapped = (0..rows.len()).take_while(|row| map_here(at(*row), more)).count();
            if mapped < rows.len() {
                (0..mapped).for_each(|row| unmap(at(row), more));
                return false;
            }
            self.mapped_of_row.store(bytes, Ordering::Relaxed);
        }
        rows.set_row_bytes(bytes.max(rows.row_bytes()));
        true
    }

    pub(super) fn keep_small_pages(&self, address: usize, bytes: usize) {
        if let Some(reservation) = self.reservation(address) {
            reservation.small_pages_end.fetch_max(address + bytes, Ordering::Relaxed);
        }
        keep_small_pages(address, bytes);
    }
}

/// Maps usable memory at an address, if nothing is there.
fn map_here(address: usize, bytes: usize) -> bool {
    is_mapped_here(address, bytes, PROT_RW)
}

#[cfg(test)]
mod tests;
