//! The page-table entry of a page of fixed memory: ten bytes.
//!
//! ```text
//! entry        | head:16 | free:16 | first:16 | next:16 | prev:16 |
//! head         | kind:4 | order:4 | cache:8 |
//! ```
//!
//! The kind of an entry says what its other words mean. A slab's entry has the number of free
//! objects, the first free object, and the slab's neighbours on a list.
//!
//! Neighbour: [`super::table`] has an entry for each page. Invariant: a slab's link to a free
//! object names one of its own objects, or is [`NONE`].

use core::cell::Cell;

/// The highest order of a block.
pub const MOST_ORDER: u32 = 10;
/// The end of a chain of free objects.
pub const NONE: u16 = u16::MAX;

/// What a page is used for, and which list it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Nobody's: it holds entries, or was never given.
    Reserved = 0,
    /// The first of a free block.
    Free = 1,
    /// Inside of a block; `first` is the number of the block's first page, where that is in use.
    Inside = 2,
    /// The first of pages that were requested as such.
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
    /// The same, on the list of pages with free units.
    ListedBlocks = 10,
    /// A page of the allocator's own tables.
    Meta = 11,
}

impl PageKind {
    const ALL: [PageKind; 12] = [
        PageKind::Reserved,
        PageKind::Free,
        PageKind::Inside,
        PageKind::Run,
        PageKind::Slab,
        PageKind::Listed,
        PageKind::Apart,
        PageKind::OnCpu,
        PageKind::Parked,
        PageKind::Blocks,
        PageKind::ListedBlocks,
        PageKind::Meta,
    ];

    /// True for the first page of a slab.
    #[must_use]
    pub const fn is_slab(self) -> bool {
        matches!(
            self,
            PageKind::Slab
                | PageKind::Listed
                | PageKind::Apart
                | PageKind::OnCpu
                | PageKind::Parked
        )
    }

    /// True for the first page of a block in use.
    #[must_use]
    pub const fn is_in_use(self) -> bool {
        !matches!(self, PageKind::Reserved | PageKind::Free | PageKind::Inside)
    }
}

/// What is known of a page.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Entry {
    head: Cell<u16>,
    /// Free objects, units or places.
    pub free: Cell<u16>,
    /// Where the chain of these begins in the page.
    pub first: Cell<u16>,
    /// The next page of a list.
    pub next: Cell<u16>,
    /// The one before.
    pub prev: Cell<u16>,
}

/// Bytes of what is known of a page.
pub const ENTRY_BYTES: usize = size_of::<Entry>();

impl Entry {
    /// From the low 4 bits of the first word.
    #[inline]
    pub fn kind(&self) -> PageKind {
        PageKind::ALL[(self.head.get() & 15) as usize % PageKind::ALL.len()]
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

    /// Replaces kind, order and cache in one write, so that a repair sees all or nothing.
    #[inline]
    pub fn set(&self, kind: PageKind, order: u32, cache: u8) {
        self.head.set(kind as u16 | (order as u16) << 4 | u16::from(cache) << 8);
    }

    /// Changes its kind.
    #[inline]
    pub fn set_kind(&self, kind: PageKind) {
        self.head.set(self.head.get() & !15 | kind as u16);
    }
}
