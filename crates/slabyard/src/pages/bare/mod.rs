//! Pages of a fixed memory: ten bytes for each, in a table at the memory's begin, and a buddy.
//!
//! ```text
//! memory       | entries | ... | page | page | page | ...
//!              base: page 0 begins here, or a part of a page before
//! entry        | head:16 | free:16 | first:16 | next:16 | prev:16 |
//! head         | kind:4 | order:4 | cache:8 |
//! ```
//!
//! What an entry's words mean follows from its kind. Of a slab: its free objects, the first of
//! them, its neighbours on a list. Each free object holds the number of the next one in its first
//! two bytes; so a slab has no bitmap, and a machine of 8 MiB has 20 KiB of entries.
//!
//! Neighbours: [`buddy`] cuts blocks of 2^order pages; [`meta`] cuts pages for the allocator's own
//! small tables; [`repair`] makes the lists of both anew; [`crate::engine`]'s bare engines have the slabs. One call is under way at a time
//! ([`crate::platform::bare::Board`]), so the words are cells.
//! Invariants: page 0 is nobody's, because the entries begin in it; the number 0 ends lists. A
//! link of a slab leads to an object of it, or is [`NONE`].

pub mod buddy;
pub mod meta;
pub mod repair;

use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::Range;

/// The highest order of a block.
pub const MOST_ORDER: u32 = 10;
/// The end of a chain of free objects.
pub const NONE: u16 = u16::MAX;

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Nobody's: it holds entries, or was never given.
    Reserved = 0,
    /// The first of a free block.
    Free = 1,
    /// Inside of a block; `first` is the number of the block's first page, where that is in use.
    Inside = 2,
    /// The first of pages that were asked for as such.
    Run = 3,
    /// The first of a slab on no list.
    Slab = 4,
    /// The first of a slab on its cache's list.
    Listed = 5,
    /// As `Listed`, among the empty ones at the list's end.
    Apart = 6,
    /// The first of a slab that a CPU allocates from.
    OnCpu = 7,
    /// The first of a slab on a CPU's partial list.
    Parked = 8,
    /// A page of blocks of several sizes.
    Blocks = 9,
    /// As `Blocks`, on a list.
    ListedBlocks = 10,
    /// A page of the allocator's own tables.
    Meta = 11,
}

impl Kind {
    const ALL: [Kind; 12] = [
        Kind::Reserved,
        Kind::Free,
        Kind::Inside,
        Kind::Run,
        Kind::Slab,
        Kind::Listed,
        Kind::Apart,
        Kind::OnCpu,
        Kind::Parked,
        Kind::Blocks,
        Kind::ListedBlocks,
        Kind::Meta,
    ];

    /// True for the first page of a slab.
    #[must_use]
    pub const fn is_slab(self) -> bool {
        matches!(self, Kind::Slab | Kind::Listed | Kind::Apart | Kind::OnCpu | Kind::Parked)
    }

    /// True for the first page of a block in use.
    #[must_use]
    pub const fn is_in_use(self) -> bool {
        !matches!(self, Kind::Reserved | Kind::Free | Kind::Inside)
    }
}

/// What is known of a page.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Entry {
    head: Cell<u16>,
    /// Free objects, units or places.
    pub free: Cell<u16>,
    /// The first of them.
    pub first: Cell<u16>,
    /// The next page of a list.
    pub next: Cell<u16>,
    /// The one before.
    pub prev: Cell<u16>,
}

/// Bytes of what is known of a page.
pub const ENTRY_BYTES: usize = size_of::<Entry>();

impl Entry {
    /// What it is.
    #[inline]
    pub fn kind(&self) -> Kind {
        Kind::ALL[(self.head.get() & 15) as usize % Kind::ALL.len()]
    }

    /// The order of its block.
    #[inline]
    pub fn order(&self) -> u32 {
        u32::from(self.head.get() >> 4 & 15)
    }

    /// The number of its cache.
    #[inline]
    pub fn cache(&self) -> u8 {
        (self.head.get() >> 8) as u8
    }

    /// Says what it is.
    #[inline]
    pub fn set(&self, kind: Kind, order: u32, cache: u8) {
        self.head.set(kind as u16 | (order as u16) << 4 | u16::from(cache) << 8);
    }

    /// Changes its kind.
    #[inline]
    pub fn set_kind(&self, kind: Kind) {
        self.head.set(self.head.get() & !15 | kind as u16);
    }
}

/// A memory has no room for its own entries and a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSmall;

impl core::fmt::Display for TooSmall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the memory has no room for its table of pages and a page, or is not valid")
    }
}

impl core::error::Error for TooSmall {}

/// Two bytes of the allocator's in a page. They may hold anything before they are written, and are
/// no place that a reference may lead to: an object may lie there next.
#[derive(Clone, Copy)]
pub struct Half<'a> {
    at: *mut u16,
    of: PhantomData<&'a Pages>,
}

impl Half<'_> {
    /// What they hold: after they were written.
    #[inline]
    pub fn get(self) -> u16 {
        // SAFETY: in the memory that `Pages::init` got, at an even address; no object that is handed
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

/// All pages.
pub struct Pages {
    /// Address of page 0.
    base: Cell<usize>,
    entries: Cell<*const Entry>,
    /// Pages, those that hold entries included.
    nr: Cell<u32>,
    /// Pages that can be handed out.
    managed: Cell<u32>,
    shift: u32,
    lists: buddy::Lists,
    meta: meta::Lists,
}

impl Pages {
    /// No memory yet; pages of 2^shift bytes.
    pub const fn new(shift: u32) -> Self {
        Pages {
            base: Cell::new(0),
            entries: Cell::new(core::ptr::null()),
            nr: Cell::new(0),
            managed: Cell::new(0),
            shift,
            lists: buddy::Lists::new(),
            meta: meta::Lists::new(),
        }
    }

    /// Takes memory over, once.
    ///
    /// # Errors
    /// [`TooSmall`] if there is no room, or a memory is there already.
    ///
    /// # Safety
    /// The bytes are readable and writable for ever, and nobody else uses them.
    pub unsafe fn init(&self, at: usize, bytes: usize) -> Result<(), TooSmall> {
        let (first, nr) = self.layout(at, bytes)?;
        // SAFETY: the caller's promise; `layout` found the place.
        unsafe { self.begin(at, nr) };
        self.add(first, nr);
        Ok(())
    }

    /// As [`Pages::init`], of memory with holes, which begin and end at these addresses. A page that
    /// a hole reaches into is never handed out.
    ///
    /// # Errors
    /// [`TooSmall`], also if the holes are in no ascending order, or where the entries must lie.
    ///
    /// # Safety
    /// As there, of the bytes outside of the holes.
    pub unsafe fn init_around(
        &self,
        at: usize,
        bytes: usize,
        holes: &[Range<usize>],
    ) -> Result<(), TooSmall> {
        let (first, nr) = self.layout(at, bytes)?;
        let begin = at.next_multiple_of(align_of::<Entry>());
        let base = begin & !((1 << self.shift) - 1);
        // The pages up to a hole, and the first one behind it.
        let around = |hole: &Range<usize>| {
            let [from, to] = [hole.start, hole.end].map(|edge| edge.saturating_sub(base));
            let to = to.div_ceil(1 << self.shift).min(nr as usize) as u32;
            ((from >> self.shift).min(nr as usize) as u32, to)
        };
        let (mut behind, mut page, mut usable) = (begin + nr as usize * ENTRY_BYTES, first, 0);
        for hole in holes {
            if hole.start < behind || hole.is_empty() {
                return Err(TooSmall);
            }
            let (from, to) = around(hole);
            usable += from.saturating_sub(page);
            (behind, page) = (hole.end, page.max(to));
        }
        if usable + nr.saturating_sub(page) == 0 {
            return Err(TooSmall);
        }
        // SAFETY: the caller's promise; the entries lie in front of all holes.
        unsafe { self.begin(at, nr) };
        page = first;
        for hole in holes {
            let (from, to) = around(hole);
            if from > page {
                self.add(page, from);
            }
            page = page.max(to);
        }
        self.add(page, nr);
        Ok(())
    }

    /// The first page behind the entries, and how many there are.
    fn layout(&self, at: usize, bytes: usize) -> Result<(u32, u32), TooSmall> {
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
    /// The entries' bytes are this allocator's alone, and [`Pages::layout`] found the number.
    unsafe fn begin(&self, at: usize, nr: u32) {
        let begin = at.next_multiple_of(align_of::<Entry>());
        for nth in 0..nr as usize {
            // SAFETY: the entries lie in the memory, in front of the first page that is handed out.
            unsafe { (begin as *mut Entry).add(nth).write(Entry::default()) };
        }
        self.base.set(begin & !((1 << self.shift) - 1));
        self.entries.set(begin as *const Entry);
        self.nr.set(nr);
    }

    /// Gives the pages of a range to the buddy: those that nobody else must have.
    fn add(&self, first: u32, end: u32) {
        let mut at = end;
        while at > first {
            let fits = (at - first).ilog2();
            let order = at.trailing_zeros().min(fits).min(MOST_ORDER);
            at -= 1 << order;
            self.give(at, order);
        }
        self.managed.set(self.managed.get() + end - first);
    }

    /// Bytes of a page.
    #[inline]
    pub fn page_bytes(&self) -> u32 {
        1 << self.shift
    }

    /// As a shift.
    #[inline]
    pub fn page_shift(&self) -> u32 {
        self.shift
    }

    /// Pages, those that hold entries included.
    #[inline]
    pub fn nr(&self) -> u32 {
        self.nr.get()
    }

    /// Pages that can be handed out.
    pub fn managed(&self) -> u32 {
        self.managed.get()
    }

    /// What is known of a page.
    ///
    /// # Panics
    /// If there is none of this number.
    #[inline]
    pub fn entry(&self, page: u32) -> &Entry {
        assert!(page < self.nr.get(), "a page of the memory");
        // SAFETY: `init` wrote so many.
        unsafe { &*self.entries.get().add(page as usize) }
    }

    /// The address of a page.
    #[inline]
    pub fn address(&self, page: u32) -> usize {
        self.base.get() + ((page as usize) << self.shift)
    }

    /// The page that an address lies in, and the offset there.
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
            Kind::Inside => self.entry(page).first.get().into(),
            _ => page,
        }
    }

    /// Takes a block in use: its first page has a kind, and the others know it.
    pub fn take_as(&self, kind: Kind, order: u32, cache: u8) -> Option<u32> {
        let page = self.take(order)?;
        self.entry(page).set(kind, order, cache);
        for inside in page + 1..page + (1 << order) {
            self.entry(inside).set(Kind::Inside, 0, cache);
            self.entry(inside).first.set(page as u16);
        }
        Some(page)
    }

    /// Two bytes of a page at an even offset, which may lie behind the page's end where the block
    /// goes on there. They are the allocator's: of a free object, of a page of blocks, or of its own
    /// tables.
    ///
    /// # Panics
    /// If they lie in no page.
    #[inline]
    pub fn half(&self, page: u32, offset: u32) -> Half<'_> {
        let behind = ((page as usize) << self.shift) + offset as usize;
        assert!(page != 0 && behind + 2 <= (self.nr.get() as usize) << self.shift, "in the memory");
        debug_assert!(offset.is_multiple_of(2));
        let at = core::ptr::with_exposed_provenance_mut(self.base.get() + behind);
        Half { at, of: PhantomData }
    }
}
