//! The only structure that assembly code touches: a bounded stack in 8 bytes.
//!
//! ```text
//! row (64 KiB for each CPU)            entry (8 bytes)
//! +--------+-----------+----+-- - --+  0       4       8
//! | slot 0 | countdown |  2 |  8191 |  +-------+-------+
//! +--------+-----------+----+-- - --+  |  top  |  end  |
//!                                      +-------+-------+
//!                                          |       |
//! elements (words, numbered from row 0)      v       v
//! -1  0   ...       +-------+------+------+------+------+- - -
//! |0| |0| rows ...  | guard | obj  | obj  |      |      |
//!                   +-------+------+------+------+------+- - -
//! ```
//!
//! An element is a word; its number counts words from the start of row 0, so that 32-bit numbers
//! reach 16 GiB. `top` is the number of the topmost object's element (the guard's, if the stack is
//! empty); `end` is the number of the last element that may be filled.
//!
//! A cache uses two adjacent entries, in one cache line: one for its main sheaf, one for its spare.
//! The first page of each row is usable from the start, further pages once created caches use them
//! ([`crate::PerCpu::commit_rows`]).
//!
//! A stack may have a *tag*, in the two elements after its end: an address, and a mask of the bits
//! in which an object's address must agree with it. With a tag, a CPU slab's stack accepts only
//! objects of its slab ([`crate::Takes::Tagged`]), and one exchange replaces both stack and tag. A
//! tag of two zeros accepts every object.
//!
//! Invariants:
//! * the guard and the elements -1 and 0 hold 0, which is no object's address: a pop that reads 0
//!   takes the slow path, because the stack is empty, stopped or absent;
//! * `top` is -1 while the stack is stopped, and 0 if there is no stack: an all-zero entry is empty
//!   and full at once, so every call takes the slow path;
//! * slot 0 is always all zeros: the page map maps every page outside slabs to it, and it is
//!   element 0;
//! * two rows of all-zero entries are at distance [`ZERO_ROWS_AT`] from row 0: they belong to the
//!   CPU numbers -1 (no sequence registered) and -2 (registration failed).
//!
//! Only the owner (the CPU, or the thread whose private slot the row is) changes an entry, by one
//! committing store. But any thread may set `end` to 0 or mark an entry as stopped
//! ([`crate::stop`]).

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Entries in a row: as many as 16 bits of an offset reach.
pub const SLOTS: usize = ROW_STRIDE / ENTRY_BYTES;
/// Top and end, of 32 bits each: read and written at once.
pub const ENTRY_BYTES: usize = 8;
/// Bytes of a row that are usable from the start: a page, so that it is on its CPU's node.
pub const FIRST_ROW_BYTES: usize = 4096;
/// From one row to the next; a row has as many bytes. The sequences read the CPU number where it
/// counts in this unit, and need no shift. The address space between rows is never touched; where
/// rows would fill a huge page, the kernel is advised against it.
pub const ROW_STRIDE: usize = 1 << 16;
/// The offset in a row of its countdown word, in place of slot 1's entry. Each free that begins the
/// sequence counts it down; one that finds it below zero takes the slow path.
pub const COUNTDOWN_AT: usize = slabyard_abi::region::row::COUNTDOWN;
/// Where the rows of zeros are, from row 0: the sequences keep 32 bits of the row's
/// distance, so that -2 and -1 lead here.
pub const ZERO_ROWS_AT: usize = u32::MAX as usize - (ZERO_ROWS * ROW_STRIDE - 1);
/// Rows whose entries are zeros.
pub const ZERO_ROWS: usize = 2;
/// Rows that there are at most: as many as the kernel's masks have bits.
pub const MOST_ROWS: usize = 8192;
/// So far in front of row 0 are their bits of use, and behind these the element -1.
pub const USED_BEFORE: usize = MOST_ROWS / 8 + ELEMENT_BYTES;
/// So far in front of row 0 is the number of bits of use that are set.
pub const NR_USED_BEFORE: usize = USED_BEFORE + 8;
/// An address: a stack's elements are what the fast path hands out.
pub const ELEMENT_BYTES: usize = 8;

/// Number of an entry within its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u16);

impl Slot {
    /// Bytes from the row's begin: what the tables of the fast path hold.
    #[inline]
    #[must_use]
    pub const fn offset(self) -> usize {
        self.0 as usize * ENTRY_BYTES
    }

    /// The slot at an offset.
    #[inline]
    #[must_use]
    pub const fn at(offset: u16) -> Self {
        Slot(offset / ENTRY_BYTES as u16)
    }
}

/// The stack was stopped, the thread has no row, or it was preempted in the midst of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// The value of an entry: two numbers of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Stack {
    /// The topmost object's element; the guard's if it is empty; 0 if there is no
    /// stack.
    pub top: u32,
    /// The last element that a push may fill.
    pub end: u32,
}

impl Stack {
    /// No stack: every call takes the slow path.
    pub const NONE: Stack = Stack { top: 0, end: 0 };

    /// The entry's word. `top` is first.
    #[inline]
    pub const fn to_word(self) -> u64 {
        if cfg!(target_endian = "little") {
            self.top as u64 | (self.end as u64) << 32
        } else {
            self.end as u64 | (self.top as u64) << 32
        }
    }

    /// The value of a word.
    #[inline]
    pub const fn of_word(word: u64) -> Self {
        let (low, high) = (word as u32, (word >> 32) as u32);
        if cfg!(target_endian = "little") {
            Stack { top: low, end: high }
        } else {
            Stack { top: high, end: low }
        }
    }

    /// True if there is no stack.
    #[inline]
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.top == 0
    }
}

/// Which objects a stack takes: those whose address agrees with `base` in the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Address of an object that it takes, or of their slab.
    pub base: usize,
    /// Bits in which the address of an object must agree with it.
    pub mask: usize,
}

impl Tag {
    /// Elements behind a stack's end.
    pub const ELEMENTS: u32 = 2;
    /// It takes every object.
    pub const ANY: Tag = Tag { base: 0, mask: 0 };

    /// The tag of a stack with this end; `word` reads an element.
    #[inline]
    pub fn of(end: u32, word: impl Fn(u32) -> usize) -> Self {
        Tag { base: word(end + 1), mask: word(end + 2) }
    }
}

/// The words of the header, in front of the rows.
pub type Header = [AtomicU64; slabyard_abi::region::HEADER_WORDS];

/// `top` of a stopped stack: as a signed number, the element -1.
pub const STOPPED: u32 = u32::MAX;

/// A stack in its row.
/// Two numbers of 32 bits: with a count, a capacity and an address each call had one load more,
/// 1.017 of mimalloc's time instead of 0.984 to 0.997 (e945116). The price: elements are within 16
/// GiB behind row 0 and are reserved with the rows.
#[repr(C, align(8))]
pub struct Entry {
    top: AtomicU32,
    end: AtomicU32,
}

const _: () = {
    use slabyard_abi::region::row;
    assert!(size_of::<Entry>() == ENTRY_BYTES && ENTRY_BYTES == row::ENTRY_BYTES);
    assert!(core::mem::offset_of!(Entry, end) == row::END);
    assert!(SLOTS == row::SLOTS && STOPPED == row::STOPPED);
    assert!(ROW_STRIDE == row::STRIDE);
    // Its other half is a note.
    assert!(COUNTDOWN_AT == ENTRY_BYTES, "no cache uses slot 1");
};

impl Entry {
    /// The topmost object's element as last stored; [`STOPPED`] if it is stopped.
    #[inline]
    pub fn top(&self) -> u32 {
        self.top.load(Ordering::Relaxed)
    }

    /// The last element that a push may fill, as last stored.
    #[inline]
    pub fn end(&self) -> u32 {
        self.end.load(Ordering::Relaxed)
    }

    /// Elements from the end to the top, as of a moment ago: 0 or more where no push fits.
    /// `None` if one fits, and if there is no stack or it is stopped.
    #[inline]
    pub fn above_end(&self) -> Option<u32> {
        match self.top() {
            0 | STOPPED => None,
            top => top.checked_sub(self.end()),
        }
    }

    /// True if there is no stack; a stopped one is there.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.top() == 0
    }

    /// Sends the next push to the slow path. A lost race with the owner's
    /// exchange loses the request, nothing else.
    #[inline]
    pub fn ask(&self) {
        self.end.store(0, Ordering::Relaxed);
    }

    /// Marks it as stopped; returns the top that it had. A sequence that read it before may still
    /// overwrite the mark, until a fence ([`crate::stop`]).
    pub fn mark_stopped(&self) -> u32 {
        self.top.swap(STOPPED, Ordering::AcqRel)
    }

    /// Takes a mark back after a refused fence. The owner may have read the top before the mark
    /// and commit at any moment. If it has committed, its store replaced the mark, and a plain
    /// store here would put back objects that it took. If the mark is still there, a store of
    /// the owner that is still to come follows from this same top.
    pub fn unmark(&self, top: u32) {
        // Release: as in `start`. It fails if the owner has committed.
        let _ = self.top.compare_exchange(STOPPED, top, Ordering::Release, Ordering::Relaxed);
    }

    /// True while the stack is stopped.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.top() == STOPPED
    }

    /// Gives a stopped stack back to its owner, with `top` as its topmost element.
    pub fn start(&self, top: u32) {
        // Release: the owner's plain load of `top` sees the objects below it
        // (on x86-64 all loads acquire; the machine's are ordered by its lock).
        self.top.store(top, Ordering::Release);
    }

    /// Starts a stopped entry without a stack: the thread that stopped it keeps the stack.
    pub fn start_without(&self) {
        self.end.store(0, Ordering::Relaxed);
        // Release: a thread that sees that the stack is gone sees an end of 0 too.
        self.top.store(0, Ordering::Release);
    }

    /// Plain replacement by the owner of a private row.
    ///
    /// # Errors
    /// [`Stopped`] if it is stopped.
    pub fn replace(&self, new: Stack) -> Result<Stack, Stopped> {
        let old = self.load();
        if old.top == STOPPED {
            return Err(Stopped);
        }
        self.end.store(new.end, Ordering::Relaxed);
        self.top.store(new.top, Ordering::Release);
        Ok(old)
    }

    /// Both numbers, of a stack that no other thread changes: else they may be of two moments.
    pub fn load(&self) -> Stack {
        Stack { top: self.top(), end: self.end() }
    }

    /// The one store of a pop or push in plain code, by the owner of a private row.
    pub fn commit(&self, top: u32) {
        self.top.store(top, Ordering::Release);
    }
}

/// A word so far in front of row 0: of the bits of use, or their number.
///
/// # Safety
/// `rows` is the base of valid rows.
unsafe fn before<'a>(rows: usize, bytes: usize) -> &'a AtomicU64 {
    // SAFETY: `Rows::set` found room for them in front of the rows, which stay for ever.
    unsafe { &*((rows - bytes) as *const AtomicU64) }
}

/// From now on a row may have stacks, as an exchange says before it puts the first one there.
///
/// The exchange that sets the bit is SeqCst, and so is the load in [`Rows::next_used`]. Who must find
/// the stacks of slow paths that ended has ordered these before. Who counts a kick first and then
/// looks at the rows finds the bit, or the slow path finds the kick at its end, and kicks again. A
/// countdown that started before would be long, and no kick ended it: it begins at 0.
///
/// # Safety
/// `rows` is the base of valid rows, and `row` the number of one.
pub unsafe fn begin_use(rows: usize, row: usize) {
    // SAFETY: the caller's promise.
    let (bits, nr) =
        unsafe { (before(rows, USED_BEFORE - row / 64 * 8), before(rows, NR_USED_BEFORE)) };
    let bit = 1 << (row % 64);
    if bits.load(Ordering::Relaxed) & bit == 0 && bits.fetch_or(bit, Ordering::SeqCst) & bit == 0 {
        // SAFETY: the countdown of this row.
        let countdown = unsafe { &*((rows + row * ROW_STRIDE + COUNTDOWN_AT) as *const AtomicU32) };
        countdown.store(0, Ordering::Relaxed);
        nr.fetch_add(1, Ordering::Relaxed);
    }
}

/// All rows of a platform, the elements behind them and the header before them.
pub struct Rows {
    header: AtomicUsize,
    base: AtomicUsize,
    count: AtomicUsize,
    /// Bytes of each row that are usable: whole pages.
    row_bytes: AtomicUsize,
    /// Address and bytes of what is left for stacks.
    elements: [AtomicUsize; 2],
    cs_offset: AtomicUsize,
    are_private: AtomicBool,
}

impl Rows {
    /// No rows yet.
    #[must_use]
    pub const fn new() -> Self {
        Rows {
            header: AtomicUsize::new(0),
            base: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            row_bytes: AtomicUsize::new(FIRST_ROW_BYTES),
            elements: [const { AtomicUsize::new(0) }; 2],
            cs_offset: AtomicUsize::new(0),
            are_private: AtomicBool::new(false),
        }
    }

    /// Sets the rows: `base` is the address of row 0, `elements` address and bytes
    /// of the memory for stacks, `header` that of the page before the rows.
    ///
    /// # Safety
    /// The bytes from `header` to `base`, `count` rows from `base`, and the elements are
    /// zeroed memory that stays for ever. The rows are changed through [`Entry`] and
    /// the sequences only. The elements are reserved, not committed.
    ///
    /// # Panics
    /// If there are too many rows, elements are below them or out of the reach of their numbers, or
    /// the header is too small.
    pub unsafe fn set(&self, header: usize, base: usize, count: usize, elements: (usize, usize)) {
        assert!(count <= MOST_ROWS && elements.0 >= base + count * ROW_STRIDE, "where all lie");
        assert!(
            (elements.0 + elements.1 - base) / ELEMENT_BYTES < 1 << 31,
            "elements are numbered"
        );
        // A pop from a stopped stack reads the element below row 0: it stays zero.
        assert!(base - header >= size_of::<Header>() + NR_USED_BEFORE, "the header has room");
        self.header.store(header, Ordering::Relaxed);
        self.base.store(base, Ordering::Relaxed);
        self.elements[0].store(elements.0, Ordering::Relaxed);
        self.elements[1].store(elements.1, Ordering::Relaxed);
        self.count.store(count, Ordering::Release);
    }

    /// Says whose the rows are: where a thread finds the number of its own (the field `rseq_cs`
    /// is behind it, so far from the thread pointer), and whether each belongs to one thread.
    ///
    /// # Safety
    /// Where sequences run, each thread has a registered area there, or a block with a private slot.
    pub unsafe fn set_owner(&self, cs_offset: usize, are_private: bool) {
        self.cs_offset.store(cs_offset, Ordering::Relaxed);
        self.are_private.store(are_private, Ordering::Relaxed);
    }

    /// Offset of `rseq_cs` from the thread pointer.
    #[inline]
    pub(crate) fn cs_offset(&self) -> usize {
        self.cs_offset.load(Ordering::Relaxed)
    }

    /// True if each row belongs to one thread, and not to all that run on a CPU.
    pub fn are_private(&self) -> bool {
        self.are_private.load(Ordering::Relaxed)
    }

    /// The header's words, by which readers find the yard (`abi::region::Word`).
    ///
    /// # Panics
    /// Before [`Rows::set`].
    #[inline]
    pub fn header(&self) -> &Header {
        let header = self.header.load(Ordering::Relaxed);
        assert!(header != 0, "no rows yet");
        // SAFETY: `set` was promised zeroed memory there, for ever; the words are
        // changed as atomic numbers only.
        unsafe { &*(header as *const Header) }
    }

    /// Address of row 0.
    #[inline]
    pub fn base(&self) -> usize {
        self.base.load(Ordering::Relaxed)
    }

    /// Number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// From now on a row may have stacks: nobody looks at other rows ([`begin_use`]).
    ///
    /// # Panics
    /// If there is no such row.
    pub fn begin_use(&self, row: usize) {
        assert!(row < self.len());
        // SAFETY: `set` was promised zeroed memory there.
        unsafe { begin_use(self.base(), row) }
    }

    /// The first row that may have stacks, from a number on.
    #[inline(never)]
    pub fn next_used(&self, row: usize) -> Option<usize> {
        let mut from = u64::MAX << (row % 64);
        (row / 64..self.len().div_ceil(64)).find_map(|word| {
            // SAFETY: as in `begin_use`. SeqCst: with the exchange there.
            let bits = unsafe { before(self.base(), USED_BEFORE - word * 8) };
            let bits = bits.load(Ordering::SeqCst) & from;
            from = !0;
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// Those of which walks look at the stacks, in order.
    pub fn used(&self) -> impl Iterator<Item = usize> + '_ {
        core::iter::successors(self.next_used(0), |row| self.next_used(row + 1))
    }

    /// How many these are, as of a moment ago.
    #[inline]
    pub fn nr_used(&self) -> usize {
        // SAFETY: as in `begin_use`. Relaxed: a hint.
        unsafe { before(self.base(), NR_USED_BEFORE) }.load(Ordering::Relaxed) as usize
    }

    /// Bytes of each row that are usable.
    #[inline]
    pub fn row_bytes(&self) -> usize {
        self.row_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all rows that are usable.
    pub fn committed_bytes(&self) -> usize {
        self.len() * self.row_bytes()
    }

    /// Address of the number of bytes of each row that are usable.
    pub fn row_bytes_at(&self) -> usize {
        self.row_bytes.as_ptr() as usize
    }

    /// This many bytes of each row are usable from now on.
    pub fn set_row_bytes(&self, bytes: usize) {
        debug_assert!(bytes <= ROW_STRIDE);
        self.row_bytes.store(bytes, Ordering::Relaxed);
    }

    /// True before [`Rows::set`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address and bytes of the memory reserved for stacks: whole pages.
    pub fn elements(&self) -> (usize, usize) {
        (self.elements[0].load(Ordering::Relaxed), self.elements[1].load(Ordering::Relaxed))
    }

    /// Number of the element at an address.
    #[inline]
    pub fn element_number(&self, address: usize) -> u32 {
        ((address - self.base()) / ELEMENT_BYTES) as u32
    }

    /// The element of a number, which is 0 or one of a stack's.
    pub fn element(&self, number: u32) -> &AtomicUsize {
        // SAFETY: element 0 is row 0's first entry; stacks lie in the elements that
        // `set` was promised, committed.
        unsafe { &*((self.base() + number as usize * ELEMENT_BYTES) as *const AtomicUsize) }
    }

    /// A row's countdown to its next slow path, signed: negative when it has run out. A hint:
    /// the owner counts without a lock, so another thread's store may be lost.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn countdown(&self, row: usize) -> &AtomicU32 {
        assert!(row < self.len());
        // SAFETY: inside the rows that `set` was promised, in their first page.
        unsafe { &*((self.base() + row * ROW_STRIDE + COUNTDOWN_AT) as *const AtomicU32) }
    }

    /// A word of a row beside its countdown, for the CPU's page lists of a tuned kind. A hint, as
    /// the countdown.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn note(&self, row: usize) -> &AtomicU32 {
        assert!(row < self.len());
        let at = COUNTDOWN_AT + size_of::<AtomicU32>();
        // SAFETY: inside the rows that `set` was promised, in their first page.
        unsafe { &*((self.base() + row * ROW_STRIDE + at) as *const AtomicU32) }
    }

    /// One entry.
    ///
    /// # Panics
    /// If there is no such row or slot.
    #[inline]
    pub fn entry(&self, row: usize, slot: Slot) -> &Entry {
        assert!(row < self.len() && (slot.0 as usize) < SLOTS);
        // SAFETY: inside the rows that `set` was promised.
        unsafe { &*((self.base() + row * ROW_STRIDE + slot.offset()) as *const Entry) }
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self::new()
    }
}
