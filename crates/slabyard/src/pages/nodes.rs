//! NUMA nodes: which parts of the region belong to which node.
//!
//! ```text
//! granule   0        4096       8192       12288
//!          | node 0 | node 1   | node 0   | node 1   | ...     of two nodes
//! ```
//!
//! The region is cut into stripes of [`STRIPE`] granules, which are assigned to the nodes in turn.
//! The region's start is aligned so that some bits of an address are the node's number: a
//! restartable sequence finds an object's node by a mask. As with a kernel's emulated nodes
//! (`numa=fake`), a node is a set of addresses; if it is a real node, the yard asks the kernel to
//! place the stripe's pages there.
//!
//! Neighbours: [`super::region`] grows by whole stripes if needed; [`super::blocks`] searches the
//! blocks of one node for a run.
//! Invariant: if there is more than one node, no block and no run spans two stripes.

use super::blocks::Lists;
use super::heap::PageHeap;
use super::region::{Region, reserve};
use crate::platform::stack::Tag;
use crate::platform::{Advice, GRANULE, Platform};
use crate::sync::Ordering;

/// A stripe has 2^this granules, 16 MiB: the highest order of its blocks.
pub const STRIPE_ORDER: u32 = 12;
/// Granules of a stripe.
pub const STRIPE: usize = 1 << STRIPE_ORDER;
const _: () = assert!(STRIPE as u64 == slabyard_abi::region::NODE_STRIPE);

impl Region {
    /// Reserves the region for several nodes, aligned to a stripe of each; `None` with one node, and
    /// where the kernel has no room for it: then there is one.
    pub(super) fn reserve_parts<P: Platform>(&self, p: &P, want: usize) -> Option<(usize, usize)> {
        if P::MOST_NODES == 1 || p.nodes() == 1 {
            return None;
        }
        let parts = p.nodes() * STRIPE * GRANULE;
        let found = reserve(p, want.max(parts), parts).filter(|(_, bytes)| *bytes >= parts)?;
        self.nodes.store(p.nodes(), Ordering::Relaxed);
        Some(found)
    }

    /// Memory nodes.
    #[inline]
    pub fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Relaxed)
    }

    /// The node of a granule.
    #[inline]
    pub fn node_of(&self, index: u32) -> usize {
        (index as usize >> STRIPE_ORDER) & (self.nodes() - 1)
    }

    /// The tag of stacks that take the objects of a node alone.
    pub fn tag_of(&self, node: usize) -> Tag {
        let bytes = STRIPE * GRANULE;
        Tag { base: self.base() + node * bytes, mask: (self.nodes() - 1) * bytes }
    }

    /// The highest order of a block, if nodes bound it: a block is in one stripe.
    pub(super) fn most_order<P: Platform>(&self) -> Option<u32> {
        (P::MOST_NODES > 1 && self.nodes() > 1).then_some(STRIPE_ORDER)
    }

    /// Granules from one on to the end of its stripe; no bound with one node.
    pub(super) fn stripe_left(&self, start: usize) -> usize {
        if self.nodes() == 1 { usize::MAX } else { STRIPE - start % STRIPE }
    }

    /// The first position from a granule on for this many granules: aligned, in one stripe, and in
    /// one of the node's if one is named.
    pub(super) fn place(
        &self,
        from: usize,
        granules: usize,
        align: usize,
        node: Option<usize>,
    ) -> usize {
        let mut at = from.next_multiple_of(align);
        // An alignment above a stripe's may lead to the stripes of one node only.
        for _ in 0..=self.nodes() {
            let fits = granules <= self.stripe_left(at);
            if fits && node.is_none_or(|node| self.node_of(at as u32) == node) {
                break;
            }
            at = (at + 1).next_multiple_of(STRIPE).next_multiple_of(align);
        }
        at
    }
}

impl<P: Platform> PageHeap<P> {
    /// The node of the running CPU, if there is more than one.
    #[inline]
    pub(super) fn near(&self) -> Option<usize> {
        let has_nodes = P::MOST_NODES > 1 && self.region.nodes() > 1;
        has_nodes.then(|| self.node_of_row(self.platform.row_hint()))
    }

    /// The node of a row's CPU, of those that the region has.
    pub fn node_of_row(&self, row: Option<usize>) -> usize {
        let node = row.map_or(0, |row| self.platform.node_of_row(row));
        node & (self.region.nodes() - 1)
    }
}

/// True if a granule is on a node, if one is named.
#[inline]
pub(super) fn is_of<P: Platform>(region: &Region, index: u32, node: Option<usize>) -> bool {
    P::MOST_NODES == 1 || node.is_none_or(|node| region.node_of(index) == node)
}

/// Frees granules by which the region grew, stripe by stripe.
pub(super) fn free_new<P: Platform>(
    heap: &PageHeap<P>,
    lists: &mut Lists,
    start: usize,
    end: usize,
    now: u32,
) {
    let mut at = start;
    while P::MOST_NODES > 1 && heap.region.nodes() > 1 && at < end {
        let next = end.min(at + heap.region.stripe_left(at));
        lists.free_range(&heap.region, at, next, false, now);
        at = next;
    }
    if at < end {
        lists.free_range(&heap.region, at, end, false, now);
    }
}

/// Asks for the nodes of granules by which the region grew. Under no lock but that of growth.
pub(super) fn bind_new<P: Platform>(heap: &PageHeap<P>, start: usize, end: usize) {
    let mut at = start;
    while P::MOST_NODES > 1 && heap.region.nodes() > 1 && at < end {
        let next = end.min(at + heap.region.stripe_left(at));
        let (address, node) = (heap.region.address(at as u32), heap.region.node_of(at as u32));
        heap.platform.advise(address, (next - at) * GRANULE, Advice::Node(node));
        at = next;
    }
}
