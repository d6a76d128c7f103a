//! Allocates and frees slabs: gives a slab its number and pages, and counts what happened.
//!
//! Neighbours: [`super::numbers`] stores the slabs, [`super::supply`] supplies their pages.

use super::numbers::Slab;
use super::supply::{Order, SuppliedSlabs, Supply};
use super::{KernelCache, Page};
use slabyard::engine::Counter;

impl KernelCache {
    #[inline]
    pub(crate) fn slab(&self, slab: u32) -> &Slab {
        self.numbers.table.get(slab)
    }

    /// Begins a slab whose objects are all free, in no list; `None` without pages.
    pub(crate) fn begin_slab(&self, node: u16) -> Option<u32> {
        let slab = self.new_slab(node)?;
        self.counters.add(Counter::AllocSlab, 1);
        Some(slab)
    }

    pub(super) fn new_slab(&self, node: u16) -> Option<u32> {
        let node = self.memory.of(node);
        // Without a supply there are always pages.
        let order = match &self.supplied {
            Some(SuppliedSlabs { supply, .. }) => supply.begin(self.numbers.next(), node)?,
            None => Order::Cache,
        };
        let is_small = order == Order::Least;
        let number = self.make(self.objects_if(is_small), node);
        self.slab(number).is_small.set(is_small);
        self.counters.add(Counter::OrderFallback, is_small.into());
        Some(number)
    }

    /// Puts a slab in place that existed before: the supply of pages is notified.
    pub(super) fn adopt_slab(&self, node: u16) -> u32 {
        self.counters.add(Counter::AllocSlab, 1);
        let node = self.memory.of(node);
        if let Some(SuppliedSlabs { supply, .. }) = &self.supplied {
            supply.adopt(self.numbers.next(), node);
        }
        self.make(self.rules.objects, node)
    }

    fn make(&self, objects: u32, node: u16) -> u32 {
        let number = self.numbers.begin(objects, node);
        self.nr_slabs.set(self.nr_slabs.get() + 1);
        self.pages.borrow_mut().push(Page::New(number));
        if let Some(contention) = &self.contention {
            contention.begin_slab(number);
        }
        number
    }

    /// Ends a slab that is empty and in no list.
    pub(crate) fn discard(&self, slab: u32) {
        self.counters.add(Counter::FreeSlab, 1);
        self.end_slab(slab);
    }

    pub(super) fn end_slab(&self, slab: u32) {
        debug_assert_eq!(self.slab(slab).free.get(), self.objects_of(slab));
        if let Some(SuppliedSlabs { supply, .. }) = &self.supplied {
            supply.end(slab);
        }
        self.numbers.end(slab);
        self.nr_slabs.set(self.nr_slabs.get() - 1);
        self.pages.borrow_mut().push(Page::Freed(slab));
    }

    /// From now on pages of slabs come from a supply, and those of the slabs that there are, too:
    /// it is asked to adopt each. A slab of the smallest order has this many objects. Call it once.
    ///
    /// # Panics
    /// If these are none, or more than the cache's, or objects are distinguished by their words.
    pub fn supply(&mut self, supply: Box<dyn Supply>, least: u32) {
        assert!((1..=self.rules.objects).contains(&least) && self.numbers.shift == 0);
        for (number, slab) in self.each_slab() {
            supply.adopt(number, slab.node.get());
        }
        self.supplied = Some(SuppliedSlabs { supply, least });
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
            Some(SuppliedSlabs { least, .. }) if is_small => *least,
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
}
