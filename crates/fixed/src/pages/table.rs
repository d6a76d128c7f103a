//! The page table of fixed memory, at the start of that memory.
//!
//! ```text
//! memory       | entries | ... | page | page | page | ...
//!              base: page 0 begins here, or a part of a page before
//! ```
//!
//! Neighbours: [`super::entry`] defines an entry; [`super::buddy`] hands out pages. One call is
//! under way at a time ([`crate::Board`]), so the words are plain cells. Invariant: page 0 is never
//! handed out, because the table starts in it; so the number 0 can terminate lists.

use super::entry::{ENTRY_BYTES, Entry, PageKind};
use core::cell::Cell;
use core::marker::PhantomData;

/// A memory has no room for its own entries and a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSmall;

impl core::fmt::Display for TooSmall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the memory has no room for its table of pages and a page, or is not valid")
    }
}

impl core::error::Error for TooSmall {}

/// Two bytes of the allocator's in a page. They may hold anything before they are written, and no
/// reference may point to them: an object may be there next.
#[derive(Clone, Copy)]
pub struct MetaWord<'a> {
    at: *mut u16,
    of: PhantomData<&'a Table>,
}

impl MetaWord<'_> {
    /// What they hold: after they were written.
    #[inline]
    pub fn get(self) -> u16 {
        // SAFETY: in the memory that `Table::begin` got, at an even address; no object that is handed
        // out covers them, as the caller has it from the free objects' chain.
        unsafe { self.at.read() }
    }

    /// Writes them.
    #[inline]
    pub fn set(self, value: u16) {
        // SAFETY: as above.
        unsafe { self.at.write(value) };
    }
}

/// Names a place of the allocator's own tables: its page, and in the low half the offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaRef(u32);

impl MetaRef {
    /// No place.
    pub const NONE: MetaRef = MetaRef(0);

    /// A place of a page.
    pub(super) const fn at(page: u32, offset: u32) -> Self {
        MetaRef(page << 16 | offset)
    }

    /// As a number; 0 belongs to no piece.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The place of a number.
    pub const fn of(number: u32) -> Self {
        MetaRef(number)
    }

    pub(super) fn page(self) -> u32 {
        self.0 >> 16
    }

    pub(super) fn offset(self) -> u32 {
        self.0 & 0xffff
    }
}

/// The pages, as they are in the memory.
pub struct Table {
    /// Address of page 0.
    base: Cell<usize>,
    entries: Cell<*const Entry>,
    /// Pages, those that hold entries included.
    nr: Cell<u32>,
    shift: u32,
}

impl Table {
    /// No memory yet; pages of 2^shift bytes.
    pub(super) const fn new(shift: u32) -> Self {
        Table { base: Cell::new(0), entries: Cell::new(core::ptr::null()), nr: Cell::new(0), shift }
    }

    /// The first page behind the entries, and how many there are.
    pub(super) fn layout(&self, at: usize, bytes: usize) -> Result<(u32, u32), TooSmall> {
        let page = 1usize << self.shift;
        let begin = at.next_multiple_of(align_of::<Entry>());
        let (base, end) = (begin & !(page - 1), at.checked_add(bytes).ok_or(TooSmall)?);
        let nr = end.saturating_sub(base) / page;
        let first = (begin + nr * ENTRY_BYTES).next_multiple_of(page);
        let first = first.saturating_sub(base) / page;
        if self.nr.get() != 0 || at == 0 || first >= nr || nr > usize::from(u16::MAX) {
            return Err(TooSmall);
        }
        Ok((first as u32, nr as u32))
    }

    /// Writes the entries: all pages are nobody's.
    ///
    /// # Safety
    /// The entries' bytes are this allocator's alone, and [`Table::layout`] found the number.
    pub(super) unsafe fn begin(&self, at: usize, nr: u32) {
        let begin = at.next_multiple_of(align_of::<Entry>());
        for nth in 0..nr as usize {
            // SAFETY: the entries lie in the memory, in front of the first page that is handed out.
            unsafe { (begin as *mut Entry).add(nth).write(Entry::default()) };
        }
        self.base.set(begin & !((1 << self.shift) - 1));
        self.entries.set(begin as *const Entry);
        self.nr.set(nr);
    }

    /// A power of two.
    #[inline]
    pub fn page_bytes(&self) -> u32 {
        1 << self.shift
    }

    /// The bytes are 1 shifted left by it.
    #[inline]
    pub fn page_shift(&self) -> u32 {
        self.shift
    }

    /// Pages, those that hold entries included.
    #[inline]
    pub fn nr(&self) -> u32 {
        self.nr.get()
    }

    /// What is known of a page.
    ///
    /// # Panics
    /// If there is none of this number.
    #[inline]
    pub fn entry(&self, page: u32) -> &Entry {
        assert!(page < self.nr.get(), "a page of the memory");
        // SAFETY: `begin` wrote so many.
        unsafe { &*self.entries.get().add(page as usize) }
    }

    /// The address of a page.
    #[inline]
    pub fn address(&self, page: u32) -> usize {
        self.base.get() + ((page as usize) << self.shift)
    }

    /// The page that contains an address, and the offset there.
    #[inline]
    pub fn page_of(&self, address: usize) -> Option<(u32, u32)> {
        let behind = address.checked_sub(self.base.get())?;
        let page = behind >> self.shift;
        let offset = behind & ((1 << self.shift) - 1);
        (page < self.nr.get() as usize).then_some((page as u32, offset as u32))
    }

    /// The first page of the block in use that a page belongs to.
    pub fn head_of(&self, page: u32) -> u32 {
        match self.entry(page).kind() {
            PageKind::Inside => self.entry(page).first.get().into(),
            _ => page,
        }
    }

    /// Two bytes of a page at an even offset, which may be behind the page's end where the block
    /// continues there. They are the allocator's: of a free object, of a page of blocks, or of its
    /// own tables.
    ///
    /// # Panics
    /// If they are in no page.
    #[inline]
    pub fn half(&self, page: u32, offset: u32) -> MetaWord<'_> {
        let behind = ((page as usize) << self.shift) + offset as usize;
        assert!(page != 0 && behind + 2 <= (self.nr.get() as usize) << self.shift, "in the memory");
        debug_assert!(offset.is_multiple_of(2));
        let at = core::ptr::with_exposed_provenance_mut(self.base.get() + behind);
        MetaWord { at, of: PhantomData }
    }

    /// The words of a place.
    ///
    /// # Panics
    /// If they leave the memory, or the place is none.
    #[inline]
    pub fn words(&self, place: MetaRef, words: u32) -> &[Cell<u32>] {
        let at = self.address_of(place);
        let end = at + words as usize * size_of::<u32>();
        assert!(place != MetaRef::NONE && end <= self.address(self.nr()), "in the memory");
        // SAFETY: in the memory, aligned to 16; a place's words are changed as cells only.
        unsafe { core::slice::from_raw_parts(at as *const Cell<u32>, words as usize) }
    }

    /// The address of a place.
    #[inline]
    pub fn address_of(&self, place: MetaRef) -> usize {
        self.address(place.page()) + place.offset() as usize
    }
}
