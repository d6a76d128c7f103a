//! SLOB on a modelled machine: its pages are records in the lab's memory, and the requests come
//! from a kernel's trace.
//!
//! `kmalloc` stores the size in front of the object, in as many bytes as the minimum alignment; an
//! object of a power-of-two size is aligned to that size (since 5.4). A cache's object has no
//! header: the caller of a free passes its size. A request that does not fit into a page with its
//! header, and a cache object of a page or more, gets pages of its own. One call is under way at a
//! time.
//!
//! Neighbours: [`slabyard::engine::slob`] implements the policy; the lab replays kernels' traces
//! here, and sets up the initial pages by hand ([`Kernel::install`]).

#[cfg(test)]
mod tests;

use slabyard::engine::slabs::Links;
use slabyard::engine::slob::{
    Block, BlockRef, Lists, Overwritten, Pages, Request, alloc, free, kernel_unit, page,
};
use slabyard::pages::descriptor::NIL;
use std::cell::{Cell, OnceCell};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SlobPageKind {
    #[default]
    Gone,
    /// Blocks of several objects.
    Blocks,
    /// The first of this many pages of one object.
    Large(u32),
}

/// A page of the modelled machine.
#[derive(Default)]
pub struct Page {
    next: Cell<u32>,
    prev: Cell<u32>,
    listed: Cell<bool>,
    kind: Cell<SlobPageKind>,
    free: Cell<(u32, u32)>,
    units: OnceCell<Box<[Cell<i32>]>>,
}

impl Links for Page {
    fn next(&self) -> u32 {
        self.next.get()
    }

    fn set_next(&self, next: u32) {
        self.next.set(next);
    }

    fn prev(&self) -> u32 {
        self.prev.get()
    }

    fn set_prev(&self, prev: u32) {
        self.prev.set(prev);
    }

    fn is_listed(&self) -> bool {
        self.listed.get()
    }

    fn set_listed(&self, is_listed: bool) {
        self.listed.set(is_listed);
    }
}

/// `mm/slob.c` of a modelled kernel: its heap of pages, by numbers.
pub struct Kernel {
    page_bytes: u32,
    /// What `kmalloc` aligns to at least, and the bytes of its header.
    least_align: u32,
    pages: Vec<Page>,
    /// Numbers of pages that are gone: the last is the next one to be used.
    vacant: Cell<Vec<u32>>,
    lists: Cell<Lists>,
    nr_pages: Cell<u32>,
    most_pages: u32,
}

impl Kernel {
    /// A kernel on a machine with at most this many pages.
    #[must_use]
    pub fn new(page_bytes: u32, least_align: u32, most_pages: u32) -> Self {
        let pages = (0..=most_pages).map(|_| Page::default()).collect();
        Kernel {
            page_bytes,
            least_align,
            pages,
            vacant: Cell::new((1..=most_pages).rev().collect()),
            lists: Cell::new(Lists::NEW),
            nr_pages: Cell::new(0),
            most_pages,
        }
    }

    /// Pages that it has, those of large objects included: what a kernel counts as slab.
    #[must_use]
    pub fn nr_pages(&self) -> u32 {
        self.nr_pages.get()
    }

    /// The lists of partly free pages.
    #[must_use]
    pub fn lists(&self) -> Lists {
        self.lists.get()
    }

    /// Free bytes of all pages of blocks.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let free = |page: &Page| u64::from(page.free.get().0) * u64::from(self.unit_bytes());
        self.pages.iter().filter(|page| page.kind.get() == SlobPageKind::Blocks).map(free).sum()
    }

    /// Allocates an object of `size` bytes, 1 or more: its address. `None` without memory.
    pub fn kmalloc(&self, size: u32) -> Option<u64> {
        let header = self.least_align;
        if size >= self.page_bytes - header {
            return self.alloc_pages(size);
        }
        let align = if size.is_power_of_two() { size.max(header) } else { header };
        let place = self.alloc_block(&Request { bytes: size + header, header, align })?;
        self.set(place.page, place.unit, size as i32);
        Some(self.address(place) + u64::from(header))
    }

    /// Frees what `kmalloc` returned.
    ///
    /// # Panics
    /// If it is no such address.
    pub fn kfree(&self, address: u64) {
        if let Some(page) = self.large_at(address) {
            return self.free_pages(page);
        }
        let place = self.place(address - u64::from(self.least_align));
        let bytes = self.get(place.page, place.unit) as u32 + self.least_align;
        self.free_block(place, bytes);
    }

    /// Usable bytes of what `kmalloc` returned.
    #[must_use]
    pub fn ksize(&self, address: u64) -> u32 {
        match self.large_at(address).map(|page| self.pages[page as usize].kind.get()) {
            Some(SlobPageKind::Large(pages)) => pages * self.page_bytes,
            _ => {
                let place = self.place(address - u64::from(self.least_align));
                let size = self.get(place.page, place.unit) as u32;
                size.next_multiple_of(self.unit_bytes())
            }
        }
    }

    /// Allocates an object of a cache whose objects have this many bytes.
    pub fn cache_alloc(&self, bytes: u32, align: u32) -> Option<u64> {
        if bytes >= self.page_bytes {
            return self.alloc_pages(bytes);
        }
        let align = align.max(self.unit_bytes());
        self.alloc_block(&Request { bytes, header: 0, align }).map(|place| self.address(place))
    }

    /// Frees an object of a cache whose objects have this many bytes.
    pub fn cache_free(&self, address: u64, bytes: u32) {
        match self.large_at(address) {
            Some(page) => self.free_pages(page),
            None => self.free_block(self.place(address), bytes),
        }
    }

    /// A page for the start of a replay, at the end of the list for objects of a size, or on none
    /// if it is full: its free blocks, in bytes from its start, in order of addresses. Returns the
    /// page's number.
    pub fn install(&self, free_blocks: &[(u32, u32)], of_size: u32) -> Option<u32> {
        let page = self.begin_page()?;
        for &(at, bytes) in free_blocks {
            let (at, units) = (at / self.unit_bytes(), bytes / self.unit_bytes());
            page::give(self, page, at, units).expect("blocks in order, in new memory");
        }
        if !free_blocks.is_empty() {
            self.with_lists(|lists| lists.append(self, page, of_size));
        }
        Some(page)
    }

    /// The page that contains an address, and the offset there.
    #[must_use]
    pub fn split(&self, address: u64) -> (u32, u32) {
        let bytes = u64::from(self.page_bytes);
        ((address / bytes) as u32, (address % bytes) as u32)
    }

    /// The free blocks of a page, in bytes from its start.
    #[must_use]
    pub fn free_blocks(&self, page: u32) -> Vec<(u32, u32)> {
        let mut blocks = Vec::new();
        let unit = self.unit_bytes();
        let add = |block: Block| blocks.push((block.at * unit, block.units * unit));
        page::each(self, page, add).expect("nobody writes there");
        blocks
    }

    fn alloc_block(&self, request: &Request) -> Option<BlockRef> {
        alloc(self, request).expect("nobody writes to free memory")
    }

    fn free_block(&self, place: BlockRef, bytes: u32) {
        let freed: Result<(), Overwritten> = free(self, place, bytes);
        freed.expect("nobody writes to free memory");
    }

    fn alloc_pages(&self, bytes: u32) -> Option<u64> {
        // The page allocator's order: a power of two.
        let pages = bytes.div_ceil(self.page_bytes).next_power_of_two();
        let page = self.new_page(SlobPageKind::Large(pages), pages)?;
        Some(self.address(BlockRef { page, unit: 0 }))
    }

    fn free_pages(&self, page: u32) {
        if let SlobPageKind::Large(pages) = self.pages[page as usize].kind.get() {
            self.drop_page(page, pages);
        }
    }

    fn large_at(&self, address: u64) -> Option<u32> {
        let (page, offset) = self.split(address);
        let kind = self.pages[page as usize].kind.get();
        assert!(kind != SlobPageKind::Gone, "{address:#x} is in no page");
        (offset == 0 && matches!(kind, SlobPageKind::Large(_))).then_some(page)
    }

    fn new_page(&self, kind: SlobPageKind, pages: u32) -> Option<u32> {
        if self.nr_pages.get() + pages > self.most_pages {
            return None;
        }
        let mut vacant = self.vacant.take();
        let page = vacant.pop();
        self.vacant.set(vacant);
        let page = page.filter(|page| *page != NIL)?;
        self.nr_pages.set(self.nr_pages.get() + pages);
        self.pages[page as usize].kind.set(kind);
        Some(page)
    }

    fn drop_page(&self, page: u32, pages: u32) {
        self.pages[page as usize].kind.set(SlobPageKind::Gone);
        self.nr_pages.set(self.nr_pages.get() - pages);
        let mut vacant = self.vacant.take();
        vacant.push(page);
        self.vacant.set(vacant);
    }

    fn address(&self, place: BlockRef) -> u64 {
        u64::from(place.page) * u64::from(self.page_bytes)
            + u64::from(place.unit * self.unit_bytes())
    }

    fn place(&self, address: u64) -> BlockRef {
        let (page, offset) = self.split(address);
        BlockRef { page, unit: offset / self.unit_bytes() }
    }

    fn units(&self, page: u32) -> &[Cell<i32>] {
        let new = || (0..self.page_units()).map(|_| Cell::new(0)).collect();
        self.pages[page as usize].units.get_or_init(new)
    }
}

impl Pages for &Kernel {
    type Links = Page;

    fn page_units(self) -> u32 {
        self.page_bytes / self.unit_bytes()
    }

    fn unit_bytes(self) -> u32 {
        kernel_unit(self.page_bytes)
    }

    fn get(self, page: u32, unit: u32) -> i32 {
        self.units(page)[unit as usize].get()
    }

    fn set(self, page: u32, unit: u32, value: i32) {
        // What a unit of the kernel holds.
        assert!(self.unit_bytes() == 4 || i16::try_from(value).is_ok(), "{value} in two bytes");
        self.units(page)[unit as usize].set(value);
    }

    fn free(self, page: u32) -> (u32, u32) {
        self.pages[page as usize].free.get()
    }

    fn set_free(self, page: u32, units: u32, first: u32) {
        self.pages[page as usize].free.set((units, first));
    }

    fn links(&self, page: u32) -> &Page {
        &self.pages[page as usize]
    }

    fn set_aside(self, page: u32) {
        self.pages[page as usize].free.set((0, 0));
    }

    fn begin_page(self) -> Option<u32> {
        let page = self.new_page(SlobPageKind::Blocks, 1)?;
        self.set_free(page, 0, 0);
        Some(page)
    }

    fn end_page(self, page: u32) {
        self.drop_page(page, 1);
    }

    fn with_lists<R>(self, f: impl FnOnce(&mut Lists) -> R) -> R {
        let mut lists = self.lists.get();
        let result = f(&mut lists);
        self.lists.set(lists);
        result
    }
}
