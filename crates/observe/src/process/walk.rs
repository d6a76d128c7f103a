//! Walks over the page descriptors to find how full the slabs of each cache are.
//!
//! The walk goes from descriptor to descriptor, in large reads, and follows no link, so neither a
//! changing list nor a damaged one can mislead it. Each step advances by at least one granule.
//!
//! Neighbour: `slabyard_abi::region::descriptor` says what a descriptor holds.

use super::front::Front;
use super::memory::{self, Fault, Memory, MemoryPart};
use crate::snapshot::{Slab, SlabPlace};
use slabyard_abi::region::{GRANULE, descriptor};
use std::collections::BTreeMap;

/// Descriptors in one read: 256 KiB.
const CHUNK: u64 = 4096;
/// Most slabs that are reported one by one.
pub(crate) const MOST_SLABS: usize = 100_000;

/// What a walk needs to know of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Slot of its main sheaves.
    pub(crate) slot: usize,
    /// Objects in a slab.
    pub(crate) objects: u32,
    /// A slab is 2^order granules.
    pub(crate) order: u32,
}

/// What the descriptors of a cache show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheSlabs {
    pub(crate) slabs: u64,
    /// On the partial list.
    pub(crate) listed: u64,
    /// Of these, slabs without a used object.
    pub(crate) empty: u64,
    /// Free objects in slabs, and those of them in slabs that are on no partial list.
    pub(crate) free: u64,
    pub(crate) free_unlisted: u64,
    /// Objects in use in slabs on the partial list, and how many such slabs.
    pub(crate) fullness: BTreeMap<u32, u64>,
    /// Slabs on the partial list, where they were requested.
    pub(crate) each: Vec<Slab>,
    /// By memory node.
    pub(crate) nodes: BTreeMap<u32, NodeSlabs>,
}

/// The slabs of one cache at one memory node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSlabs {
    pub(crate) slabs: u64,
    /// On the partial list, without a used object.
    pub(crate) empty: u64,
    /// Free objects in slabs.
    pub(crate) free: u64,
    /// Objects in use in slabs on the partial list.
    pub(crate) used: u64,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// By slot.
    pub(crate) caches: BTreeMap<usize, CacheSlabs>,
    /// Not every slab is in the lists of slabs.
    pub(crate) cut: bool,
}

/// Walks the granules below `top`.
pub(crate) fn walk(
    memory: &dyn Memory,
    front: &Front,
    top: u64,
    shapes: &[Shape],
    one_by_one: bool,
) -> Result<Walk, Fault> {
    let mut walk = Walk::default();
    let mut told = 0;
    each(memory, front, top, shapes, &mut |at, head, shape| {
        let slab = slab(front, at, head, shape);
        let slabs = walk.caches.entry(shape.slot).or_default();
        slabs.slabs += 1;
        slabs.free += u64::from(slab.free());
        let node = slabs.nodes.entry(front.node_of(at)).or_default();
        node.slabs += 1;
        node.free += u64::from(slab.free());
        if memory::half(head, descriptor::LISTED) == 1 {
            slabs.listed += 1;
            slabs.empty += u64::from(slab.inuse == 0);
            node.empty += u64::from(slab.inuse == 0);
            node.used += u64::from(slab.inuse);
            *slabs.fullness.entry(slab.inuse).or_default() += 1;
            if one_by_one && told < MOST_SLABS {
                told += 1;
                slabs.each.push(slab);
            } else if one_by_one {
                walk.cut = true;
            }
        } else {
            slabs.free_unlisted += u64::from(slab.free());
        }
    })?;
    Ok(walk)
}

/// Calls `f` with each slab of these shapes below `top`: its granule, its descriptor, its shape.
pub(crate) fn each(
    memory: &dyn Memory,
    front: &Front,
    top: u64,
    shapes: &[Shape],
    f: &mut dyn FnMut(u64, &[u8], &Shape),
) -> Result<(), Fault> {
    blocks(memory, front, top, shapes, &mut |block| {
        if let Some(shape) = block.slab {
            f(block.at, block.head, shape);
        }
    })
}

/// What begins at a granule: a slab, a run, a free block, or nothing that is known.
pub(crate) struct Block<'a> {
    /// Its first granule.
    pub(crate) at: u64,
    /// How far it reaches.
    pub(crate) granules: u64,
    /// Its descriptor.
    pub(crate) head: &'a [u8],
    /// The shape of the cache, if it is a slab of one that is known.
    pub(crate) slab: Option<&'a Shape>,
}

impl Block<'_> {
    /// What it is, as a kind of `slabyard_abi::region::descriptor`.
    pub(crate) fn kind(&self) -> u8 {
        memory::half(self.head, descriptor::HEAD) as u8
    }
}

/// Calls `f` with each block below `top`, in the order of their addresses.
pub(crate) fn blocks(
    memory: &dyn Memory,
    front: &Front,
    top: u64,
    shapes: &[Shape],
    f: &mut dyn FnMut(Block<'_>),
) -> Result<(), Fault> {
    let shapes: BTreeMap<usize, &Shape> = shapes.iter().map(|s| (s.slot, s)).collect();
    let top = top.min(front.granules);
    let mut at = front.unit();
    while at < top {
        let first = at;
        let descriptors = CHUNK.min(top - first);
        let part = MemoryPart {
            address: front.descriptors + first * descriptor::BYTES as u64,
            bytes: descriptors as usize * descriptor::BYTES,
        };
        let bytes = memory::read(memory, &[part])?;
        while at < first + descriptors {
            let head = &bytes[(at - first) as usize * descriptor::BYTES..][..descriptor::BYTES];
            let slab = slab_of(head, &shapes);
            let granules = granules(head, slab);
            f(Block { at, granules, head, slab });
            at += granules;
        }
    }
    Ok(())
}

/// The shape of the slab that begins here, if one does.
fn slab_of<'a>(head: &[u8], shapes: &BTreeMap<usize, &'a Shape>) -> Option<&'a Shape> {
    let word = memory::half(head, descriptor::HEAD);
    let slot = (word >> 16) as usize;
    (word as u8 == descriptor::SLAB).then(|| shapes.get(&slot).copied())?
}

fn slab(front: &Front, at: u64, head: &[u8], shape: &Shape) -> Slab {
    let free = memory::half(head, descriptor::WORD) & descriptor::word::FREE as u32;
    Slab {
        page: front.region + at * GRANULE as u64,
        order: shape.order.saturating_sub(front.page_order()),
        objects: shape.objects,
        inuse: shape.objects.saturating_sub(free),
        place: SlabPlace::Node(front.node_of(at)),
        ..Slab::default()
    }
}

/// Granules of what begins here; 1 where nothing does, as inside of a block that was
/// just joined or cut.
fn granules(head: &[u8], slab: Option<&Shape>) -> u64 {
    let word = memory::half(head, descriptor::HEAD);
    let order = word >> 8 & 0xff;
    let granules = match word as u8 {
        descriptor::SLAB => slab.and_then(|shape| 1u64.checked_shl(shape.order)),
        descriptor::PARKED if (word >> 16) as u16 == descriptor::BANKED => {
            Some(u64::from(memory::half(head, descriptor::GRANULES)))
        }
        descriptor::FREE | descriptor::PARKED | descriptor::PURGING | descriptor::HELD => {
            1u64.checked_shl(order)
        }
        descriptor::RUN | descriptor::FREED => {
            Some(u64::from(memory::half(head, descriptor::GRANULES)))
        }
        _ => None,
    };
    // A block is 2^20 granules at most: what claims more is none.
    granules.filter(|n| (1..=1 << 20).contains(n)).unwrap_or(1)
}
