//! Lets a collection allocate from one cache: a block that fits the cache's objects is an object,
//! other blocks come from the yard's size classes.
//!
//! Neighbours: [`crate::allocator`] has the trait's calls, and lets collections allocate from a
//! whole yard. Invariant: a free tells objects from blocks by the layout alone, which fits an object
//! in the first case, because a collection is told an object's full size, and never in the other.

use super::handle::ObjectCache;
use super::home::Home;
use super::kind::Fresh;
use super::record::Record;
use crate::allocator::allocator;
use crate::blocks::Blocks;
use core::alloc::Layout;

impl<Y: Home> Record<Y> {
    #[inline]
    fn fits(&self, layout: Layout) -> bool {
        let (bytes, align) = self.object();
        layout.size() <= bytes && layout.align() <= align
    }

    fn taken(&self) -> Option<(usize, usize)> {
        self.alloc().map(|(address, _)| (address, self.object().0))
    }
}

impl<Y: Home> Blocks for Record<Y> {
    #[inline]
    fn take(&self, layout: Layout) -> Option<(usize, usize)> {
        if self.fits(layout) { self.taken() } else { self.yard.take(layout) }
    }

    fn take_resized(&self, address: usize, from: Layout, to: Layout) -> Option<(usize, usize)> {
        if self.fits(to) { self.taken() } else { self.yard.take_resized(address, from, to) }
    }

    unsafe fn zero(&self, address: usize, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.yard.zero(address, bytes) };
    }

    fn resize(&self, address: usize, from: Layout, to: Layout) -> Option<(usize, usize)> {
        match (self.fits(from), self.fits(to)) {
            (true, true) => Some((address, self.object().0)),
            (false, false) => Blocks::resize(self.yard, address, from, to),
            _ => None,
        }
    }

    #[inline]
    unsafe fn give(&self, address: usize, layout: Layout) {
        if self.fits(layout) {
            // SAFETY: it was allocated with this record or its other, which is still there as the
            // handle is. Memory has no end of use but this.
            unsafe { self.of(address).as_ref().free::<(), Fresh>(address) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.yard.give(address, layout) };
        }
    }
}

allocator! {
    /// Collections that live in a cache: each block that fits an object, by size and alignment, is
    /// an object of the cache, and all of its bytes are the collection's; what is larger comes from
    /// the yard's size classes. `T` says how large an object is, and is never made.
    ///
    /// Tables of `hashbrown` are aligned to 16 bytes.
    ///
    /// ```
    /// use hashbrown::HashMap;
    /// use slabyard::{ObjectCache, ProcessYard};
    /// use std::hash::RandomState;
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let tables = ObjectCache::<[u8; 1024]>::builder("tables").align(16).create(&YARD)?;
    /// let mut session: HashMap<u64, u64, _, _> =
    ///     HashMap::with_hasher_in(RandomState::new(), &tables);
    /// session.insert(1, 10);
    /// assert_eq!((session.capacity(), tables.live()), (28, Some(1)));
    /// // A larger table is of the yard.
    /// session.reserve(100);
    /// assert_eq!(tables.live(), Some(0));
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    [T, Y: Home] ObjectCache<T, Fresh, Y>, cache => Some(cache.record())
}
