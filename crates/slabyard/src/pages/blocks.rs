//! The lists of free blocks of 2^order granules, aligned to their size, and the search of these
//! lists for a new run's position.
//!
//! Each order has two lists: blocks with a dirty granule, newest first, and clean blocks. The
//! search tries the dirty lists of all orders first, because dirty pages are resident.
//!
//! Neighbours: [`super::buddy`] splits and coalesces the blocks, under the lock of the lists.
//!
//! Equation (checked by `verify`): granules on the lists and in the freed runs that are not
//! coalesced yet ([`super::coalesce`]) = `free_granules`; set dirty bits of these granules =
//! `dirty_granules`.

use super::descriptor::{GranuleKind, NIL};
use super::huge::{HUGE, HUGE_ORDER};
use super::region::Region;
use crate::platform::Platform;
use crate::sync::Ordering;

/// Orders of free blocks: up to 2^20 granules, 4 GiB.
pub const ORDERS: usize = 21;
pub(super) const HIGHEST_ORDER: u32 = ORDERS as u32 - 1;

/// A run to be found.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub granules: usize,
    /// Granules that it may grow to: this many must be free at its position.
    pub room: usize,
    /// Order of a block that holds them.
    pub order: u32,
    /// Order of the alignment that it needs; a block of it may begin the run.
    pub align: u32,
    /// First granule that new pages of it may have.
    pub above: usize,
    /// The kernel has no more memory: the search looks at all blocks.
    pub last: bool,
    /// The node that it must be on, if there are several.
    pub node: Option<usize>,
}

impl Wanted {
    /// With huge pages, a run larger than one begins with one. Without them it need not, so that
    /// it fits into gaps between others.
    pub fn new(granules: usize, room: usize, align: usize, huge_pages: bool) -> Self {
        let order = room.max(align).next_power_of_two().ilog2();
        // The alignment of a run in its own block, or of one that may begin anywhere.
        let below = if huge_pages && room > HUGE {
            HUGE_ORDER
        } else if room > SMALL {
            SMALL.ilog2()
        } else {
            order
        };
        Wanted {
            granules,
            room,
            order,
            align: below.max(align.ilog2()),
            above: 0,
            last: false,
            node: None,
        }
    }

    /// True if a block is on the node.
    #[inline]
    pub fn accepts<P: Platform>(&self, region: &Region, block: u32) -> bool {
        P::MOST_NODES == 1 || self.node.is_none_or(|node| region.node_of(block) == node)
    }

    /// The index of its first granule is a multiple of this.
    pub fn alignment(&self) -> u32 {
        1 << if self.room > SMALL { self.align } else { self.order }
    }
}

/// Runs of up to this many granules, 64 KiB, are in one block: elsewhere they would break up
/// the blocks of that size, which slabs need.
pub(crate) const SMALL: usize = 16;

/// Blocks of an order that the search for a position looks at, however many there are. Before a
/// request is refused all are looked at.
const LOOKS: usize = 8;

/// Blocks of a gap that are looked at in front of one, and behind it: the gap has no more if all
/// are coalesced. Those that the kernel refused to take back are not.
const AROUND: usize = 2 * ORDERS;

/// Blocks that the search for the lowest one looks at: each is a cache miss that waits for
/// the one before.
/// With 64, to find a block took 6800 of the 10,700 cycles of the slowest calls that began a slab,
/// with 16 it takes 900 to 2400, at the same peaks (0262752).
const LOWEST_LOOKS: usize = 16;

#[derive(Clone, Copy)]
pub(super) struct List {
    pub head: u32,
    pub tail: u32,
}

impl List {
    const NEW: List = List { head: NIL, tail: NIL };
}

/// Freed runs that are not coalesced yet: linked through the descriptors' `next`, newest first.
pub(super) struct Freed {
    pub head: u32,
    pub nr: u32,
}

pub(super) struct Lists {
    /// By order; clean, then dirty.
    lists: [[List; 2]; ORDERS],
    pub free_granules: usize,
    pub dirty_granules: usize,
    /// Free, and on no list of blocks yet.
    pub(super) freed: Freed,
    /// The highest order of a block.
    most_order: u32,
}

impl Lists {
    pub(super) const fn new() -> Self {
        Lists {
            lists: [[List::NEW; 2]; ORDERS],
            free_granules: 0,
            dirty_granules: 0,
            freed: Freed { head: NIL, nr: 0 },
            most_order: HIGHEST_ORDER,
        }
    }

    /// Empty lists, of blocks of up to this order.
    pub(super) const fn with_most_order(most_order: u32) -> Self {
        Lists { most_order, ..Self::new() }
    }

    /// The highest order of a block.
    pub(super) fn most_order(&self) -> u32 {
        self.most_order
    }

    /// Sets it, while there is no block.
    pub(super) fn set_most_order(&mut self, order: u32) {
        self.most_order = order;
    }

    fn list(&mut self, order: u32, dirty: bool) -> &mut List {
        &mut self.lists[order as usize][usize::from(dirty)]
    }

    /// Puts a block into its list: at the head when it is young, else at the tail.
    pub(super) fn insert(
        &mut self,
        region: &Region,
        index: u32,
        order: u32,
        dirty: bool,
        time: u32,
        young: bool,
    ) {
        let descriptor = region.descriptor(index);
        descriptor.time.store(time, Ordering::Relaxed);
        descriptor.granules.store(0, Ordering::Relaxed);
        descriptor.set(GranuleKind::Free, order, u16::from(dirty));
        let list = self.list(order, dirty);
        let old = if young { list.head } else { list.tail };
        if young {
            list.head = index;
        } else {
            list.tail = index;
        }
        let (next, prev) = if young { (old, NIL) } else { (NIL, old) };
        descriptor.next.store(next, Ordering::Relaxed);
        descriptor.prev.store(prev, Ordering::Relaxed);
        if old == NIL {
            *list = List { head: index, tail: index };
        } else if young {
            region.descriptor(old).prev.store(index, Ordering::Relaxed);
        } else {
            region.descriptor(old).next.store(index, Ordering::Relaxed);
        }
        self.free_granules += 1 << order;
    }

    /// Takes a block out of its list; its descriptor is then of kind [`GranuleKind::None`].
    pub(super) fn remove(&mut self, region: &Region, index: u32) -> (u32, bool) {
        let descriptor = region.descriptor(index);
        let (order, dirty) = (descriptor.order(), descriptor.slot() != 0);
        let next = descriptor.next.load(Ordering::Relaxed);
        let prev = descriptor.prev.load(Ordering::Relaxed);
        let list = self.list(order, dirty);
        if prev == NIL {
            list.head = next;
        }
        if next == NIL {
            list.tail = prev;
        }
        if prev != NIL {
            region.descriptor(prev).next.store(next, Ordering::Relaxed);
        }
        if next != NIL {
            region.descriptor(next).prev.store(prev, Ordering::Relaxed);
        }
        descriptor.set(GranuleKind::None, 0, 0);
        self.free_granules -= 1 << order;
        (order, dirty)
    }

    /// The oldest dirty block of each order.
    pub(super) fn oldest_of(&self, order: usize) -> Option<u32> {
        Some(self.lists[order][1].tail).filter(|i| *i != NIL)
    }

    /// The first of the clean blocks of an order that `wanted` accepts, among the first `most`.
    pub(super) fn find_clean(
        &self,
        region: &Region,
        order: usize,
        most: usize,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut at = self.lists[order][0].head;
        for _ in 0..most {
            if at == NIL || wanted(at) {
                break;
            }
            at = region.descriptor(at).next.load(Ordering::Relaxed);
        }
        Some(at).filter(|at| *at != NIL && wanted(*at))
    }

    /// The position of a run: the free block in which it begins, and its first granule. Dirty
    /// blocks come before clean ones: that costs less than new pages, and keeps the peak low.
    pub(super) fn find<P: Platform>(
        &mut self,
        region: &Region,
        wanted: Wanted,
    ) -> Option<(usize, usize)> {
        if wanted.room > SMALL {
            // It fits where several of them were.
            self.coalesce_all_freed(region);
        }
        let mut dirty = self.find_among::<P>(region, wanted, 1);
        if dirty.is_none() && self.coalesce_all_freed(region) {
            dirty = self.find_among::<P>(region, wanted, 1);
        }
        dirty.or_else(|| self.find_among::<P>(region, wanted, 0))
    }

    fn find_among<P: Platform>(
        &self,
        region: &Region,
        wanted: Wanted,
        dirty: usize,
    ) -> Option<(usize, usize)> {
        if wanted.room > SMALL {
            return self.find_position::<P>(region, wanted, dirty);
        }
        let accepts = |at| wanted.accepts::<P>(region, at);
        let mut lists = self.lists[wanted.order as usize..].iter();
        let block = lists.find_map(|pair| lowest(region, pair[dirty].head, accepts))?;
        Some((block as usize, block as usize))
    }

    /// Of the positions in gaps, of several blocks or one, that with the most dirty granules, of
    /// these that in the shortest gap, and of these the lowest (best fit: Johnstone and Wilson,
    /// "The memory fragmentation problem: solved?", ISMM 1998). It has the least alignment that
    /// the run needs, so that it finds that of a former one of its size again.
    fn find_position<P: Platform>(
        &self,
        region: &Region,
        wanted: Wanted,
        dirty: usize,
    ) -> Option<(usize, usize)> {
        // Among dirty pages a run may have less room to grow than it asked for, and be anywhere.
        let Wanted { granules, room, align, above, .. } = wanted;
        let (least, above) = if dirty == 1 { (granules, 0) } else { (room, above) };
        // The first blocks may all be of other nodes. A gap that it fits has an aligned block of a
        // quarter of it.
        let all = wanted.last || P::MOST_NODES > 1 && wanted.node.is_some();
        let (quarter, looks) =
            if all { (0, usize::MAX) } else { ((least / 2).max(1).ilog2(), LOOKS) };
        // The dirty granules of the best position; and what is the less the better, inverted: the
        // gap's length, and its first granule.
        let mut best = (0, 0, 0);
        for (order, pair) in self.lists.iter().enumerate().skip(align.max(quarter) as usize) {
            // Gaps of longer blocks fit less well, or little better.
            if best.0 >= room && !best.1 <= 2 << order {
                break;
            }
            let mut at = pair[dirty].head;
            for _ in 0..looks {
                if at == NIL {
                    break;
                }
                let block = at as usize;
                at = region.descriptor(at).next.load(Ordering::Relaxed);
                if !wanted.accepts::<P>(region, block as u32) {
                    continue;
                }
                let (begin, end) = gap_around(region, block, align, least);
                let begin = begin.max(above);
                let length = end.saturating_sub(begin);
                let first = region.first_dirty(begin, length * dirty).unwrap_or(begin);
                // All that is dirty may be at its end.
                let start = first.min(end.saturating_sub(least)) >> align << align;
                if start >= begin {
                    let found = region.dirty_in(start, (end - start).min(room));
                    best = best.max((found, !length, !start));
                }
            }
        }
        let start = Some(!best.2).filter(|start| *start != usize::MAX)?;
        Some((block_around(region, start, 0, HIGHEST_ORDER)?, start))
    }

    /// Calls `f` with index, order and dirtiness of each free block.
    pub(super) fn each(&self, region: &Region, mut f: impl FnMut(u32, u32, bool)) {
        for (order, pair) in self.lists.iter().enumerate() {
            for (dirty, list) in pair.iter().enumerate() {
                let mut at = list.head;
                while at != NIL {
                    f(at, order as u32, dirty == 1);
                    at = region.descriptor(at).next.load(Ordering::Relaxed);
                }
            }
        }
    }
}

/// The lowest of the first blocks of a list that are accepted. Where low blocks fill up first, high
/// ones stay free and coalesce.
fn lowest(region: &Region, head: u32, accepts: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut at, mut lowest, mut looks) = (head, None, 0);
    while at != NIL {
        if accepts(at) {
            lowest = Some(lowest.map_or(at, |lowest: u32| lowest.min(at)));
            looks += 1;
            if looks == LOWEST_LOOKS {
                break;
            }
        }
        at = region.descriptor(at).next.load(Ordering::Relaxed);
    }
    lowest
}

/// Number of free granules from `start` on, at most `most`, in so many blocks. A block begins at
/// `start`, or nothing free does.
pub(super) fn free_from(region: &Region, start: usize, most: usize, blocks: usize) -> usize {
    let mut n = 0;
    for _ in 0..blocks {
        if n >= most || start + n >= region.top() {
            break;
        }
        let descriptor = region.descriptor((start + n) as u32);
        if descriptor.kind() != GranuleKind::Free {
            break;
        }
        n += 1 << descriptor.order();
    }
    n
}

/// What is free around a block, in a stripe if there are several: blocks in front of it that may
/// begin a run; and behind it as many, or as many as the run needs if all are of one granule.
fn gap_around(region: &Region, block: usize, align: u32, least: usize) -> (usize, usize) {
    let mut begin = block;
    for _ in 0..AROUND {
        // The order of the block in front of it divides where it ends.
        match block_around(region, begin - 1, align, begin.trailing_zeros()) {
            Some(before) if region.stripe_left(begin - 1) > 1 => begin = before,
            _ => break,
        }
    }
    (begin, block + free_from(region, block, region.stripe_left(block), AROUND.max(least)))
}

/// Begin of the free block in which a granule is, if it is of one of these orders.
#[inline(never)]
fn block_around(region: &Region, granule: usize, least: u32, most: u32) -> Option<usize> {
    for order in least..=most {
        let block = granule >> order << order;
        if region.descriptor(block as u32).is_free_block(order) {
            return Some(block);
        }
    }
    None
}

/// True if a block of at least that order is free which begins at this granule, or around it.
pub(super) fn is_free(region: &Region, start: usize, order: u32) -> bool {
    block_around(region, start, order, HIGHEST_ORDER).is_some()
}

/// Cuts a range into the largest blocks that are aligned to their size.
pub(super) fn each_block(start: usize, end: usize, mut f: impl FnMut(u32, u32)) {
    let mut at = start;
    while at < end {
        let order = at.trailing_zeros().min((end - at).ilog2()).min(HIGHEST_ORDER);
        f(at as u32, order);
        at += 1 << order;
    }
}
