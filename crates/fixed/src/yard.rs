//! A yard on fixed memory: every call enters the board, and the engine serves it.
//!
//! [`crate::caches`] holds the engine's data; [`crate::report`], [`crate::typed`] and `shared` add
//! further calls. Invariant: the yard's core is used only between [`Board::enter`] and
//! [`Board::leave`].

use crate::board::Board;
use crate::caches::{CacheId, CacheSettings, Core, FixedEngine, Settings};
use crate::engine::Tiny;
use crate::live_map::{GRANULE, LiveMap};
use crate::memory::Memory;
use crate::pages::{ENTRY_BYTES, TooSmall};
use crate::tally::Counts;
use crate::{repair, verify};
use core::ops::Range;
use core::ptr::NonNull;

/// One whole allocator on a machine without a system.
pub struct Yard<B, E: FixedEngine = Tiny> {
    pub(crate) board: B,
    core: Core<E>,
}

// SAFETY: the core is used between `Board::enter` and `leave` only, which exclude each other.
unsafe impl<B: Board + Sync, E: FixedEngine> Sync for Yard<B, E> {}

impl<B: Board, E: FixedEngine> Yard<B, E> {
    /// A yard before [`Yard::init`], by the settings of its engine.
    pub const fn new(board: B) -> Self {
        Self::with(board, Settings::DEFAULT)
    }

    /// As [`Yard::new`], with settings.
    pub const fn with(board: B, settings: Settings) -> Self {
        const {
            assert!(B::PAGE_BYTES.is_power_of_two() && B::CPUS > 0 && B::CPUS <= 64);
            assert!(B::PAGE_BYTES >= 256 && B::PAGE_BYTES <= 1 << 16);
        }
        let shift = B::PAGE_BYTES.ilog2();
        Yard { board, core: Core::new(shift, B::CPUS as u32, settings) }
    }

    /// Calls `f` while all others are excluded.
    pub fn enter<R>(&self, f: impl FnOnce(&Core<E>, u32) -> R) -> R {
        struct LeaveGuard<'a, B: Board>(&'a B, usize);
        impl<B: Board> Drop for LeaveGuard<'_, B> {
            fn drop(&mut self) {
                self.0.leave(self.1);
            }
        }
        let _leave = LeaveGuard(&self.board, self.board.enter());
        let cpu = self.board.cpu() as u32;
        let Some(live) = self.board.live_map() else { return f(&self.core, cpu) };
        if live.begin_call() {
            repair::repair(&self.core, live, cpu);
        }
        let result = f(&self.core, cpu);
        // Not after a panic: then the next call repairs.
        live.end_call();
        result
    }

    /// What a call is about to hand out, of a cache or else a block, is live.
    #[inline(always)]
    fn marked(
        &self,
        core: &Core<E>,
        cache: Option<&E::Cache>,
        address: Option<usize>,
    ) -> Option<usize> {
        if let (Some(live), Some(address)) = (self.board.live_map(), address) {
            E::mark(core, live, address, cache);
        }
        address
    }

    /// Takes back by `f` what was handed out; false if it is no such block.
    fn take_back(
        &self,
        cache: Option<CacheId>,
        address: usize,
        f: impl Fn(&Core<E>, u32, Option<&E::Cache>) -> bool,
    ) -> bool {
        self.enter(|core, cpu| {
            let cache = match cache.map(|cache| core.find(cache)) {
                Some(None) => return false,
                cache => cache.flatten(),
            };
            let live = self.board.live_map();
            if live.is_some_and(|live| !E::unmark(core, live, address, cache)) {
                return false;
            }
            let is_freed = f(core, cpu, cache);
            if !is_freed && let Some(live) = live {
                // Another cache's: it stays with its owner.
                E::mark(core, live, address, cache);
            }
            is_freed
        })
    }

    /// The size of a request on a board with a live map: whole granules of it.
    fn whole(&self, bytes: usize) -> Option<usize> {
        match self.board.live_map() {
            Some(_) => bytes.max(1).checked_next_multiple_of(GRANULE),
            None => Some(bytes),
        }
    }

    /// Makes room for the live map at the start of a memory: returns what is left of it.
    fn begin_map(&self, at: *mut u8, bytes: usize) -> Result<(*mut u8, usize), TooSmall> {
        let Some(live) = self.board.live_map() else { return Ok((at, bytes)) };
        let skipped = at.align_offset(align_of::<u32>());
        let map = LiveMap::bytes_for(bytes, B::PAGE_BYTES);
        let left = bytes.checked_sub(skipped).and_then(|left| left.checked_sub(map));
        let left = left.filter(|_| self.core.pages.table().nr() == 0).ok_or(TooSmall)?;
        // SAFETY: in the memory, which is the yard's by the promise of who calls.
        unsafe {
            live.init(at.add(skipped), map);
            Ok((at.add(skipped + map), left))
        }
    }

    fn end_map(&self, core: &Core<E>) {
        if self.board.live_map().is_some() {
            core.pages.table().name_insides();
        }
    }

    /// Takes a memory over, once.
    ///
    /// # Errors
    /// [`TooSmall`] if it has no room for its own table and a page, or one of the two was used
    /// already.
    pub fn init<const BYTES: usize>(&self, memory: &'static Memory<BYTES>) -> Result<(), TooSmall> {
        let at = memory.take().ok_or(TooSmall)?;
        // SAFETY: a static that nobody else gets.
        unsafe { self.init_at(at, BYTES) }
    }

    /// As [`Yard::init`], of memory by its address: what a linker script or a memory map leaves.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// The bytes are readable and writable as long as the yard is used, and nobody else uses them.
    pub unsafe fn init_at(&self, at: *mut u8, bytes: usize) -> Result<(), TooSmall> {
        self.enter(|core, _| {
            let (at, bytes) = self.begin_map(at, bytes)?;
            // SAFETY: the caller's promise.
            unsafe { core.pages.buddy.init(at.expose_provenance(), bytes) }?;
            self.end_map(core);
            Ok(())
        })
    }

    /// As [`Yard::init_at`], of memory that has holes: firmware's tables, a device's registers, a
    /// kernel's own image. They begin and end at these addresses, in ascending order; a page that a
    /// hole reaches into is never handed out, and no block crosses one.
    ///
    /// ```
    /// use slabyard_fixed::{Alone, Tiny, Yard};
    ///
    /// let memory = vec![0u64; 8 << 10].leak().as_mut_ptr().cast::<u8>();
    /// let yard = Yard::<Alone<512>, Tiny>::new(Alone::new());
    /// let holes = [memory.addr() + (16 << 10)..memory.addr() + (20 << 10)];
    /// // SAFETY: nobody else has the memory.
    /// unsafe { yard.init_around(memory, 64 << 10, &holes) }?;
    /// assert!(yard.malloc(100).is_some_and(|block| !holes[0].contains(&block.addr().get())));
    /// # Ok::<(), slabyard_fixed::TooSmall>(())
    /// ```
    ///
    /// # Errors
    /// As there, and if the table of pages, at the memory's start, would be in a hole.
    ///
    /// # Safety
    /// As there, of the bytes outside of the holes.
    pub unsafe fn init_around(
        &self,
        at: *mut u8,
        bytes: usize,
        holes: &[Range<usize>],
    ) -> Result<(), TooSmall> {
        self.enter(|core, _| {
            let (at, bytes) = self.begin_map(at, bytes)?;
            // SAFETY: the caller's promise.
            unsafe { core.pages.buddy.init_around(at.expose_provenance(), bytes, holes) }?;
            self.end_map(core);
            Ok(())
        })
    }

    /// Allocates a block, aligned to 8 bytes, and to its size if that is a power of two up to a
    /// page. `None` if there is no memory, after what was parked was returned: then the machine
    /// continues, and a later call finds what was freed meanwhile.
    pub fn malloc(&self, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = self.whole(bytes)?;
        let malloc = |core: &Core<E>, cpu| {
            self.marked(core, None, core.or_shrink(cpu, || E::malloc(core, cpu, bytes)))
        };
        self.enter(malloc).and_then(pointer)
    }

    /// Frees what [`Yard::malloc`] returned. What is no such block is left alone, as far as that can
    /// be seen: then false is returned.
    ///
    /// # Safety
    /// The block is not used any more, and was not freed before.
    pub unsafe fn mfree(&self, block: NonNull<u8>) -> bool {
        let at = block.addr().get();
        self.take_back(None, at, |core, cpu, _| E::mfree(core, cpu, at))
    }

    /// Bytes that the owner of such a block may use; 0 if it is none.
    pub fn usable(&self, block: NonNull<u8>) -> usize {
        self.enter(|core, _| E::usable(core, block.addr().get()))
    }

    /// Allocates 2^order pages in a row, aligned to a page. `None` if there are not that many.
    pub fn pages(&self, order: u32) -> Option<NonNull<u8>> {
        let take = |core: &Core<E>, cpu| {
            self.marked(core, None, core.or_shrink(cpu, || core.take_run(order)))
        };
        self.enter(take).and_then(pointer)
    }

    /// Frees what [`Yard::pages`] returned; false if it is no such block.
    ///
    /// # Safety
    /// As [`Yard::mfree`].
    pub unsafe fn free_pages(&self, block: NonNull<u8>) -> bool {
        let at = block.addr().get();
        self.take_back(None, at, |core, _, _| core.give_run(at))
    }

    /// Makes a cache. `None` if there is no memory, there are 255 caches, or no slab holds such
    /// objects.
    pub fn create(&self, name: &str, settings: CacheSettings) -> Option<CacheId> {
        let CacheSettings { size, align } = settings;
        let align = if align.is_power_of_two() { self.whole(align)? } else { align };
        let settings = CacheSettings { size: self.whole(size)?, align };
        self.enter(|core, cpu| core.or_shrink(cpu, || core.create(name, settings)))
    }

    /// Ends a cache without live objects; false if it has some, or is none.
    pub fn destroy(&self, cache: CacheId) -> bool {
        self.enter(|core, cpu| core.destroy(cpu, cache))
    }

    /// Allocates an object of a cache. `None` as in [`Yard::malloc`].
    pub fn alloc(&self, cache: CacheId) -> Option<NonNull<u8>> {
        let alloc = |core: &Core<E>, cpu| {
            let cache = core.find(cache)?;
            self.marked(core, Some(cache), core.or_shrink(cpu, || E::alloc(core, cpu, cache)))
        };
        self.enter(alloc).and_then(pointer)
    }

    /// Frees an object of a cache; false if it is none, as far as that can be seen.
    ///
    /// # Safety
    /// As [`Yard::mfree`].
    pub unsafe fn free(&self, cache: CacheId, object: NonNull<u8>) -> bool {
        let at = object.addr().get();
        self.take_back(Some(cache), at, |core, cpu, cache| {
            cache.is_some_and(|cache| E::free(core, cpu, cache, at))
        })
    }

    /// Returns all that is parked, and ends the empty slabs: what a kernel's `shrink` does of each
    /// cache. Called as well before an allocation fails.
    pub fn shrink(&self) {
        self.enter(|core, cpu| core.shrink(cpu));
    }

    /// Checks the whole yard: returns what it has, or which equation does not hold.
    ///
    /// # Errors
    /// The equation.
    pub fn verify(&self) -> Result<Counts, &'static str> {
        self.enter(|core, cpu| {
            let counts = verify::verify(core, cpu)?;
            match self.board.live_map() {
                Some(live) if !repair::is_mapped(core, live, &counts) => {
                    Err("other blocks are live than the live map has")
                }
                _ => Ok(counts),
            }
        })
    }

    /// Bytes of an empty yard: itself and its table of pages.
    pub fn fixed_bytes(&self) -> usize {
        let pages = self.enter(|core, _| core.pages.table().nr() as usize);
        size_of::<Self>() + pages * ENTRY_BYTES
    }

    /// Bytes of a cache: what it takes of a page of the allocator's tables.
    pub fn cache_bytes(&self) -> usize {
        let places = [size_of::<E::Cache>(), E::cpu_bytes(B::CPUS as u32) as usize];
        places.iter().filter(|bytes| **bytes > 0).map(|b| b.next_power_of_two().max(16)).sum()
    }
}

fn pointer(address: usize) -> Option<NonNull<u8>> {
    NonNull::new(core::ptr::with_exposed_provenance_mut(address))
}
