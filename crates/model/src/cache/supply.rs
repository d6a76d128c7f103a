//! Where a cache's slabs get their pages: from an unlimited source, or from a [`Supply`].
//!
//! A kernel first requests a block of the cache's order. If there is none, it requests a block of
//! the smallest order that holds an object; such a slab has fewer objects, as
//! [`super::KernelCache::objects_of`] says. The cache's limits do not change: a list that counts
//! slabs counts a small slab like any other. SLAB requests only blocks of the cache's order.
//!
//! Neighbour: [`super::begin`] requests pages here when it allocates a slab, and returns them when
//! it frees one. Invariant: a slab has pages from its allocation until it is freed, except for
//! slabs that were put in place by hand, which are reported to the supply.

/// The order that a slab's block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `oo` of the kernel's cache: what its rule of orders chose.
    Cache,
    /// The least that holds an object.
    Least,
}

/// What gives pages to the slabs of one cache.
pub trait Supply {
    /// A slab with this number needs pages at a node; `None`: there is no block for it.
    fn begin(&self, slab: u32, node: u16) -> Option<Order>;
    /// A slab of the cache's order that existed before is put in place.
    fn adopt(&self, slab: u32, node: u16);
    /// A slab ended.
    fn end(&self, slab: u32);
}

/// A supply, and what its small slabs are.
pub(super) struct SuppliedSlabs {
    pub(super) supply: Box<dyn Supply>,
    /// Objects of a slab of the least order.
    pub(super) least: u32,
}
