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

/// Blocks of an order that the search for a position looks at; fewer for a run below a huge
/// page, which programs ask for more often, and for which a search for the best position
/// takes longer than its page faults.
const LOOKS: usize = 16;
/// An extent that is dirty but for an eighth would do for speed, but leaves gaps: blocks of 1 MiB
/// that had filled 200 MiB no longer fitted there after they were freed. Before a request is
/// refused all blocks are looked at.
const FEW_LOOKS: usize = 5;

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
            most_order: ORDERS as u32 - 1,
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

    /// The first of the clean blocks of an order that `wanted` accepts, among the first
    /// `most`.
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
    /// blocks come before clean ones: to split a block costs less than to touch new pages,
    /// and keeps the peak low.
    pub(super) fn find<P: Platform>(
        &mut self,
        region: &Region,
        wanted: Wanted,
    ) -> Option<(usize, usize)> {
        if !wanted.last
            && let Some(position) = self.find_among::<P>(region, wanted, 1)
        {
            return Some(position);
        }
        let coalesced = self.coalesce_all_freed(region);
        let again = coalesced || wanted.last;
        let dirty = if again { self.find_among::<P>(region, wanted, 1) } else { None };
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

    /// Of the positions in blocks of a list, and in free blocks behind them, the one with the
    /// most dirty granules, and of these the lowest; for a run below a huge page the first that
    /// is all dirty. A position has the least alignment that the run needs, not that of its
    /// size: so a run finds the position of a former one of its size again, and a third run
    /// fits into free memory between two others.
    fn find_position<P: Platform>(
        &self,
        region: &Region,
        wanted: Wanted,
        dirty: usize,
    ) -> Option<(usize, usize)> {
        let (mut best, mut most) = (None, 0);
        let (looks, enough) = match wanted.room {
            _ if wanted.last => (usize::MAX, usize::MAX),
            // The first blocks may all be of other nodes.
            room if P::MOST_NODES > 1 && wanted.node.is_some() => (usize::MAX, room),
            room if room < HUGE => (FEW_LOOKS, room),
            _ => (LOOKS, usize::MAX),
        };
        let lists = || self.lists.iter().enumerate().skip(wanted.align as usize);
        // Prefetches, so that the misses overlap: the first of each list, then what follows
        // these in their list and in memory.
        lists().for_each(|(_, pair)| region.fetch_descriptor_ahead(pair[dirty].head));
        let fetch_neighbours = |at: u32, order: usize| {
            if at != NIL {
                region.fetch_descriptor_ahead(region.descriptor(at).next.load(Ordering::Relaxed));
                region.fetch_descriptor_ahead(at + (1 << order));
            }
        };
        lists().for_each(|(order, pair)| fetch_neighbours(pair[dirty].head, order));
        for (order, pair) in lists() {
            let mut at = pair[dirty].head;
            for _ in 0..looks {
                if at == NIL {
                    break;
                }
                let block = at as usize;
                at = region.descriptor(at).next.load(Ordering::Relaxed);
                fetch_neighbours(at, order);
                if dirty == 0 && block < wanted.above || !wanted.accepts::<P>(region, block as u32)
                {
                    continue;
                }
                // Among dirty pages a run may have less room to grow than it asked for.
                let least = if dirty == 1 { wanted.granules } else { wanted.room };
                if 1 << order < least && free_from(region, block, least) < least {
                    continue;
                }
                let mut start = block;
                if dirty == 1
                    && let Some(first) = region.first_dirty(block, 1 << order)
                {
                    start = first >> wanted.align << wanted.align;
                }
                let before = start - block;
                let mut room =
                    free_from(region, block, before + wanted.room).saturating_sub(before);
                if P::MOST_NODES > 1 {
                    room = room.min(region.stripe_left(block).saturating_sub(before));
                }
                if room >= least {
                    let found = region.dirty_in(start, room.min(wanted.room));
                    let position = (block, start);
                    if found >= enough {
                        return Some(position);
                    }
                    if best.is_none_or(|best| (found, best) > (most, position)) {
                        (best, most) = (Some(position), found);
                    }
                }
            }
        }
        best
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

/// Number of free granules from `start` on, at most `most`. A block begins at `start`, or
/// nothing free does.
pub(super) fn free_from(region: &Region, start: usize, most: usize) -> usize {
    let mut n = 0;
    while n < most && start + n < region.top() {
        let descriptor = region.descriptor((start + n) as u32);
        if descriptor.kind() != GranuleKind::Free {
            break;
        }
        n += 1 << descriptor.order();
    }
    n
}

/// True if a block of at least that order is free which begins at this granule, or around it.
pub(super) fn is_free(region: &Region, start: usize, order: u32) -> bool {
    (order..ORDERS as u32).any(|order| {
        let descriptor = region.descriptor((start >> order << order) as u32);
        descriptor.kind() == GranuleKind::Free && descriptor.order() == order
    })
}

/// Cuts a range into the largest blocks that are aligned to their size.
pub(super) fn each_block(start: usize, end: usize, mut f: impl FnMut(u32, u32)) {
    let mut at = start;
    while at < end {
        let order = at.trailing_zeros().min((end - at).ilog2()).min(ORDERS as u32 - 1);
        f(at as u32, order);
        at += 1 << order;
    }
}
