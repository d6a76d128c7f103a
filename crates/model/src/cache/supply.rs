//! Where a cache's slabs get their pages: without end, or by a [`Supply`].
//!
//! A kernel asks for a block of the cache's order first. Where there is none it takes one of the
//! least order that holds an object, and such a slab has fewer objects: a slab's own number, which
//! [`KernelCache::objects_of`] tells. All limits stay the cache's: lists that count slabs count a
//! small one as any other. SLAB asks for its order alone.
//!
//! Neighbours: [`super::numbers`] asks here as a slab begins, and says that it ended.
//! Invariant: a slab that began has pages until it ends, but for those that were put in place by
//! hand, of which the supply is told.

use super::KernelCache;

/// The order that a slab's block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The cache's.
    Cache,
    /// The least that holds an object.
    Least,
}

/// What gives pages to the slabs of one cache.
pub trait Supply {
    /// A slab of a number is to begin at a node; `None`: no block is there for it.
    fn begin(&self, slab: u32, node: u16) -> Option<Order>;
    /// A slab of the cache's order is put in place that was there before.
    fn adopt(&self, slab: u32, node: u16);
    /// A slab ended.
    fn end(&self, slab: u32);
}

/// A supply, and what its small slabs are.
pub(super) struct Supplied {
    supply: Box<dyn Supply>,
    /// Objects of a slab of the least order.
    least: u32,
}

impl KernelCache {
    /// From now on pages of slabs come from a supply, and those of the slabs that there are, too:
    /// it is asked to adopt each. A slab of the least order has so many objects. Call it once.
    ///
    /// # Panics
    /// If these are none, or more than the cache's, or objects are told apart by their words.
    pub fn supply(&mut self, supply: Box<dyn Supply>, least: u32) {
        assert!((1..=self.rules.objects).contains(&least) && self.numbers.shift == 0);
        for (number, slab) in self.each_slab() {
            supply.adopt(number, slab.node.get());
        }
        self.supplied = Some(Supplied { supply, least });
    }

    /// Objects of a slab, free or not.
    #[inline]
    #[must_use]
    pub fn objects_of(&self, slab: u32) -> u32 {
        self.objects_if(self.is_small(slab))
    }

    /// Objects of a slab of the cache's order, or of a small one.
    #[inline]
    pub(super) fn objects_if(&self, is_small: bool) -> u32 {
        match &self.supplied {
            Some(Supplied { least, .. }) if is_small => *least,
            _ => self.rules.objects,
        }
    }

    /// True of a slab of the least order.
    #[must_use]
    pub fn is_small(&self, slab: u32) -> bool {
        self.slab(slab).is_small.get()
    }

    /// Slabs of the least order.
    #[must_use]
    pub fn nr_small(&self) -> u32 {
        self.each_slab().filter(|(_, slab)| slab.is_small.get()).count() as u32
    }

    /// The order that a slab of this number gets; `None`: there are no pages for it.
    pub(super) fn ask_for(&self, slab: u32, node: u16) -> Option<Order> {
        match &self.supplied {
            Some(Supplied { supply, .. }) => supply.begin(slab, node),
            None => Some(Order::Cache),
        }
    }

    pub(super) fn say_adopted(&self, slab: u32, node: u16) {
        if let Some(Supplied { supply, .. }) = &self.supplied {
            supply.adopt(slab, node);
        }
    }

    pub(super) fn say_ended(&self, slab: u32) {
        if let Some(Supplied { supply, .. }) = &self.supplied {
            supply.end(slab);
        }
    }
}
