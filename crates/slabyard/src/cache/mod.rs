//! Floor 5: caches as their callers see them: a cache's header and engine, malloc's size classes,
//! the table of all caches, and the set of slots that are in use.

pub mod classes;
pub mod settings;
pub mod slots;
pub mod table;
pub mod used;

pub use crate::engine::CacheFlags;
pub use settings::CacheSettings;
pub use table::{CacheId, Caches};

use crate::engine::{Debug, Engine, Header, PageSlabs, Shape, Sheaves};
use crate::pages::PageHeap;
use crate::platform::Platform;
use crate::slab::{self, Object, freeset};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use core::fmt;
use core::ops::Deref;

/// One cache: objects of one geometry.
#[repr(C)]
pub struct Cache<E = Sheaves> {
    header: Header,
    /// Its slow paths.
    pub engine: E,
    /// What `verify` counts of it.
    pub(crate) tally: Tally,
    /// Address of its maker's block, once it is abandoned (`created::abandoned`).
    owner: AtomicUsize,
}

/// What `verify` counts of a cache, under the drain lock: slabs, listed slabs, free objects.
pub(crate) struct Tally([AtomicU64; 3]);

impl Tally {
    /// Adds to the three counts.
    pub(crate) fn add(&self, counts: [u64; 3]) {
        for (count, more) in self.0.iter().zip(counts) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Takes the counts and begins anew.
    pub(crate) fn take(&self) -> [u64; 3] {
        self.0.each_ref().map(|count| count.swap(0, Ordering::Relaxed))
    }
}

/// The most that are worth a prefetch.
const MOST_LINES: usize = 8;

impl<E: Engine> Cache<E> {
    /// Its first lines, which slow paths use: of what an engine has for each of several memory nodes
    /// they use a part.
    pub(crate) const LINES: usize = {
        let lines = core::mem::offset_of!(Self, tally).div_ceil(64);
        if lines < MOST_LINES { lines } else { MOST_LINES }
    };

    /// A cache that is not in use.
    #[allow(clippy::new_without_default, reason = "it is for a constant")]
    #[must_use]
    pub const fn new() -> Self {
        let tally = Tally([const { AtomicU64::new(0) }; 3]);
        let owner = AtomicUsize::new(0);
        Cache { header: Header::new(), engine: E::NEW, tally, owner }
    }

    /// Gives the cache its shape, once, before its first use.
    pub fn begin<P: Platform>(
        &self,
        heap: &PageHeap<P>,
        name: impl fmt::Display,
        shape: Shape,
        generation: u32,
    ) {
        self.header.begin(name, shape, generation);
        self.engine.begin(self.on(heap));
        self.header.show();
    }

    /// Its maker's block.
    pub(crate) fn owner(&self) -> usize {
        self.owner.load(Ordering::Relaxed)
    }

    /// Sets its maker's block.
    pub(crate) fn set_owner(&self, address: usize) {
        self.owner.store(address, Ordering::Relaxed);
    }

    /// Sets or clears the bit of an object, as a mark; returns whether it was set, `None` if no
    /// object of the cache begins there.
    pub(crate) fn mark<P: Platform>(
        &self,
        heap: &PageHeap<P>,
        address: usize,
        free: bool,
    ) -> Option<bool> {
        let shape = self.shape();
        let object = slab::resolve(&heap.region, &shape.geometry, shape.slot, address);
        let Object { slab, index } = object.ok()?;
        Some(freeset::mark(heap, slab, index, free))
    }

    /// Its slabs on the page heap: what its engine works on.
    #[inline]
    pub fn on<'a, P>(&'a self, heap: &'a PageHeap<P>) -> PageSlabs<'a, P> {
        PageSlabs { heap, cache: &self.header, rules: () }
    }
}

impl<E> Deref for Cache<E> {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        &self.header
    }
}

/// The debugging of a cache, where engines may have it.
#[inline(always)]
pub(crate) fn debug_of<E: Engine>(cache: &Cache<E>) -> Option<&Debug> {
    if E::SIZED { cache.engine.debug() } else { None }
}
