//! The buddy: free blocks of 2^order granules, aligned to their size, split and
//! joined (Knowlton, "A fast storage allocator", CACM 1965).
//!
//! A run may be any number of granules: it is cut from the block that covers it, or from
//! blocks that follow each other, and the rest stays free. Runs are whole pages of the
//! machine.
//!
//! Each order has two lists: blocks with a dirty granule, newest first, and
//! clean ones. Dirty blocks are handed out before clean ones, of higher orders too:
//! their pages are there already.
//!
//! Equation (checked by `verify`): granules in the lists = `free_granules`; set
//! dirty bits in them = `dirty_granules`.

use super::frame::{Kind, NIL};
use super::region::{HUGE, HUGE_ORDER, Region};
use super::{Ground, decay};
use crate::platform::Platform;
use crate::sync::{AtomicUsize, Lock, Ordering, Rank};
use core::mem::offset_of;

/// Orders of free blocks: up to 2^20 granules, 4 GiB.
pub const ORDERS: usize = 21;

/// A run that is looked for.
#[derive(Clone, Copy)]
struct Wanted {
    granules: usize,
    /// As many as it may grow to: that many are to be free.
    room: usize,
    /// Order of a block that holds them.
    order: u32,
    /// Order of the alignment that it needs; a block of it may begin the run.
    align: u32,
    /// First granule that new pages of it may have.
    above: usize,
}

impl Wanted {
    fn new(granules: usize, room: usize, align: usize) -> Self {
        let order = room.max(align).next_power_of_two().ilog2();
        // What a run in its own block is aligned to, or a place that may begin anywhere.
        let below = if room > HUGE {
            HUGE_ORDER
        } else if room > SMALL {
            SMALL.ilog2()
        } else {
            order
        };
        Wanted { granules, room, order, align: below.max(align.ilog2()), above: 0 }
    }
}

/// Runs of up to so many granules, 64 KiB, lie in one block: they would leave no room for
/// slabs, which are blocks of that size.
const SMALL: usize = 16;

/// Blocks of an order looked at for a place.
const LOOKS: usize = 16;

/// Blocks looked at for the lowest one.
const LOWEST_LOOKS: usize = 64;

#[derive(Clone, Copy)]
pub(super) struct List {
    pub head: u32,
    pub tail: u32,
}

impl List {
    const NEW: List = List { head: NIL, tail: NIL };
}

pub(super) struct Lists {
    /// By order; [0] clean, [1] dirty.
    lists: [[List; 2]; ORDERS],
    pub free_granules: usize,
    pub dirty_granules: usize,
}

/// All free blocks.
pub struct Buddy {
    pub(super) lists: Lock<Lists>,
    /// Free and dirty: a copy of the number under the lock, for a quick look.
    dirty: AtomicUsize,
    pub(super) run_granules: AtomicUsize,
    pub(super) nr_runs: AtomicUsize,
}

/// Free blocks in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeCount {
    /// Free granules.
    pub free: usize,
    /// Of these, granules not given back to the system.
    pub dirty: usize,
}

impl Buddy {
    pub(super) const fn new() -> Self {
        Buddy {
            lists: Lock::new(
                Rank::Pages,
                Lists { lists: [[List::NEW; 2]; ORDERS], free_granules: 0, dirty_granules: 0 },
            ),
            dirty: AtomicUsize::new(0),
            run_granules: AtomicUsize::new(0),
            nr_runs: AtomicUsize::new(0),
        }
    }

    /// Dirty free granules, as of a moment ago.
    #[inline]
    pub fn dirty_hint(&self) -> usize {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Addresses of: free granules, the dirty ones of them, live runs, their granules.
    pub(super) fn words_at(&self) -> [usize; 4] {
        let lists = self.lists.as_ptr() as usize;
        [
            lists + offset_of!(Lists, free_granules),
            lists + offset_of!(Lists, dirty_granules),
            self.nr_runs.as_ptr() as usize,
            self.run_granules.as_ptr() as usize,
        ]
    }

    /// Live runs: number and granules.
    pub fn runs(&self) -> (usize, usize) {
        (self.nr_runs.load(Ordering::Relaxed), self.run_granules.load(Ordering::Relaxed))
    }
}

impl Lists {
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
        let frame = region.frame(index);
        frame.time.store(time, Ordering::Relaxed);
        frame.granules.store(0, Ordering::Relaxed);
        frame.set(Kind::Free, order, u16::from(dirty));
        let list = self.list(order, dirty);
        let old = if young { list.head } else { list.tail };
        if young {
            list.head = index;
        } else {
            list.tail = index;
        }
        let (next, prev) = if young { (old, NIL) } else { (NIL, old) };
        frame.next.store(next, Ordering::Relaxed);
        frame.prev.store(prev, Ordering::Relaxed);
        if old == NIL {
            *list = List { head: index, tail: index };
        } else if young {
            region.frame(old).prev.store(index, Ordering::Relaxed);
        } else {
            region.frame(old).next.store(index, Ordering::Relaxed);
        }
        self.free_granules += 1 << order;
    }

    /// Takes a block out of its list; it begins nothing any more.
    pub(super) fn remove(&mut self, region: &Region, index: u32) -> (u32, bool) {
        let frame = region.frame(index);
        let (order, dirty) = (frame.order(), frame.slot() != 0);
        let next = frame.next.load(Ordering::Relaxed);
        let prev = frame.prev.load(Ordering::Relaxed);
        let list = self.list(order, dirty);
        if prev == NIL {
            list.head = next;
        }
        if next == NIL {
            list.tail = prev;
        }
        if prev != NIL {
            region.frame(prev).next.store(next, Ordering::Relaxed);
        }
        if next != NIL {
            region.frame(next).prev.store(prev, Ordering::Relaxed);
        }
        frame.set(Kind::None, 0, 0);
        self.free_granules -= 1 << order;
        (order, dirty)
    }

    /// Takes a range of free granules out; `block` is the free one in which it begins.
    pub(super) fn cut(&mut self, region: &Region, block: usize, start: usize, end: usize) {
        // One block, or several that follow each other.
        let (mut at, mut any_dirty) = (block, false);
        while at < end {
            let time = region.frame(at as u32).time.load(Ordering::Relaxed);
            let (found, dirty) = self.remove(region, at as u32);
            let mut leave = |from, to| {
                each_block(from, to, |i, o| {
                    let dirty = dirty && region.dirty_in(i as usize, 1 << o) > 0;
                    self.insert(region, i, o, dirty, time, true);
                });
            };
            // Before the range something is left of the first, and behind it of the last.
            leave(at, start);
            at += 1 << found;
            any_dirty |= dirty;
            leave(end, at);
        }
        if any_dirty {
            self.dirty_granules -= region.dirty_in(start, end - start);
        }
    }

    /// Frees an aligned block, joining it with its buddies.
    fn join(
        &mut self,
        region: &Region,
        mut index: u32,
        mut order: u32,
        mut dirty: bool,
        mut time: u32,
    ) {
        let now = time;
        while (order as usize) < ORDERS - 1 {
            let buddy = index ^ (1 << order);
            if buddy as usize + (1 << order) > region.top() {
                break;
            }
            let frame = region.frame(buddy);
            if frame.kind() != Kind::Free || frame.order() != order {
                break;
            }
            // The joined block is as old as its older dirty part.
            let other = frame.time.load(Ordering::Relaxed);
            time = match (dirty, frame.slot() != 0) {
                (true, true) => other.min(time),
                (true, false) => time,
                (false, true) => other,
                (false, false) => other.max(time),
            };
            dirty |= self.remove(region, buddy).1;
            index &= !(1 << order);
            order += 1;
        }
        let young = !dirty || now.wrapping_sub(time) < decay::YOUNG_MS;
        self.insert(region, index, order, dirty, time, young);
    }

    /// Frees a range: as aligned blocks, each joined.
    pub(super) fn free_range(
        &mut self,
        region: &Region,
        start: usize,
        end: usize,
        dirty: bool,
        time: u32,
    ) {
        each_block(start, end, |index, order| self.join(region, index, order, dirty, time));
    }

    /// The oldest dirty block of each order.
    pub(super) fn oldest_of(&self, order: usize) -> Option<u32> {
        Some(self.lists[order][1].tail).filter(|i| *i != NIL)
    }

    /// The first of the clean blocks of an order, `most` looked at, that `wanted`
    /// says yes to.
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
            at = region.frame(at).next.load(Ordering::Relaxed);
        }
        Some(at).filter(|at| *at != NIL && wanted(*at))
    }

    /// The block in which the free granules begin that a run is cut from, and where: dirty
    /// ones before clean ones. To split a block costs less than to touch new pages, and
    /// keeps the peak low.
    fn find(&self, region: &Region, wanted: Wanted) -> Option<(usize, usize)> {
        [1, 0].into_iter().find_map(|dirty| {
            if wanted.room > SMALL {
                return self.find_place(region, wanted, dirty);
            }
            let blocks = &self.lists[wanted.order as usize..];
            let head = blocks.iter().map(|pair| pair[dirty].head).find(|at| *at != NIL)?;
            let block = Self::lowest(region, head) as usize;
            Some((block, block))
        })
    }

    /// The lowest block among the first of a list, from `at` on. Where low blocks fill up
    /// first, high ones stay free and join.
    fn lowest(region: &Region, mut at: u32) -> u32 {
        let mut lowest = at;
        for _ in 1..LOWEST_LOOKS {
            at = region.frame(at).next.load(Ordering::Relaxed);
            if at == NIL {
                break;
            }
            lowest = lowest.min(at);
        }
        lowest
    }

    /// Of the places in blocks of a list, and in free ones behind them, the one with the
    /// most dirty granules, and of these the first. A place is aligned to the least that
    /// it must be, and not to the run's size: so a run finds the place of one of its size
    /// again, and free memory between two runs is of use for a third.
    fn find_place(&self, region: &Region, wanted: Wanted, dirty: usize) -> Option<(usize, usize)> {
        let (mut best, mut most) = (None, 0);
        for (order, pair) in self.lists.iter().enumerate().skip(wanted.align as usize) {
            let mut at = pair[dirty].head;
            for _ in 0..LOOKS {
                if at == NIL {
                    break;
                }
                let block = at as usize;
                at = region.frame(at).next.load(Ordering::Relaxed);
                if dirty == 0 && block < wanted.above {
                    continue;
                }
                let mut start = block;
                if dirty == 1
                    && let Some(first) = region.first_dirty(block, 1 << order)
                {
                    start = first >> wanted.align << wanted.align;
                }
                let before = start - block;
                let room = free_from(region, block, before + wanted.room).saturating_sub(before);
                // Of dirty pages less room is better than none.
                if room >= if dirty == 1 { wanted.granules } else { wanted.room } {
                    let found = region.dirty_in(start, room.min(wanted.room));
                    let place = (block, start);
                    if found == wanted.room && found < HUGE {
                        return Some(place);
                    }
                    if best.is_none_or(|best| (found, best) > (most, place)) {
                        (best, most) = (Some(place), found);
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
                    at = region.frame(at).next.load(Ordering::Relaxed);
                }
            }
        }
    }
}

/// Granules that are free from a granule on, where a block begins or nothing free does: as
/// many as asked for, or all that there are.
pub(super) fn free_from(region: &Region, start: usize, most: usize) -> usize {
    let mut n = 0;
    while n < most && start + n < region.top() {
        let frame = region.frame((start + n) as u32);
        if frame.kind() != Kind::Free {
            break;
        }
        n += 1 << frame.order();
    }
    n
}

/// Cuts a range into the largest blocks that are aligned to their size.
fn each_block(start: usize, end: usize, mut f: impl FnMut(u32, u32)) {
    let mut at = start;
    while at < end {
        let order = at.trailing_zeros().min((end - at).ilog2()).min(ORDERS as u32 - 1);
        f(at as u32, order);
        at += 1 << order;
    }
}

impl<P: Platform> Ground<P> {
    /// A run of granules aligned to `align` granules (a power of two): its first
    /// index. It begins nothing yet; the caller names its kind. `None` if the
    /// system refuses.
    pub fn take_run(&self, granules: usize, align: usize) -> Option<u32> {
        self.take_run_in(granules, granules, align)
    }

    /// As [`Ground::take_run`], where it has room to grow to so many granules; where it
    /// finds dirty ones, perhaps to fewer.
    fn take_run_in(&self, room: usize, granules: usize, align: usize) -> Option<u32> {
        let unit = self.platform.page_bytes() / super::GRANULE;
        let [room, granules] = [room, granules].map(|n| n.next_multiple_of(unit));
        let mut wanted = Wanted::new(granules, room, align.max(unit));
        if wanted.order as usize >= ORDERS {
            return None;
        }
        if room >= HUGE {
            wanted.above = self.region.small_pages();
        }
        if let Some(index) = self.take_free(wanted) {
            return Some(index);
        }
        let spare = spare_for(self.region.top());
        let align = 1 << wanted.align;
        let Some((old, start, new)) = self.region.grow(&self.platform, room, align, spare) else {
            // Small pages are better than none.
            return self.take_free(Wanted { above: 0, ..wanted });
        };
        let now = self.platform.now_ms() as u32;
        let mut lists = self.buddy.lists.lock(&self.platform);
        lists.free_range(&self.region, old, start, false, now);
        lists.free_range(&self.region, start + granules, new, false, now);
        Some(start as u32)
    }

    fn take_free(&self, wanted: Wanted) -> Option<u32> {
        let mut lists = self.buddy.lists.lock(&self.platform);
        let (block, start) = lists.find(&self.region, wanted)?;
        lists.cut(&self.region, block, start, start + wanted.granules);
        self.set_dirty_hint(lists.dirty_granules);
        Some(start as u32)
    }

    /// Frees a run that begins nothing any more. Its granules are dirty.
    pub fn free_run(&self, index: u32, granules: usize) {
        let now = self.platform.now_ms() as u32;
        let granules = self.granules_for(granules * super::GRANULE);
        // The frames that are looked at and written under the lock, at once.
        each_block(index as usize, index as usize + granules, |index, order| {
            self.region.fetch_frame_ahead(index);
            self.region.fetch_frame_ahead(index ^ (1 << order));
        });
        self.region.set_dirty(index as usize, granules, true);
        let mut lists = self.buddy.lists.lock(&self.platform);
        lists.dirty_granules += granules;
        let start = index as usize;
        lists.free_range(&self.region, start, start + granules, true, now);
        self.buddy.dirty.store(lists.dirty_granules, Ordering::Relaxed);
    }

    /// A live run for `bytes`, aligned to `align` bytes: its address.
    pub fn alloc_run(&self, bytes: usize, align: usize) -> Option<usize> {
        self.alloc_run_in(bytes, bytes, align)
    }

    /// As [`Ground::alloc_run`], where it has room to grow to so many bytes.
    pub fn alloc_run_in(&self, room: usize, bytes: usize, align: usize) -> Option<usize> {
        let [room, granules] = [room, bytes].map(|bytes| self.granules_for(bytes));
        let align = align.div_ceil(super::GRANULE).max(1);
        let index = self.take_run_in(room.max(granules), granules, align)?;
        let frame = self.region.frame(index);
        frame.granules.store(granules as u32, Ordering::Relaxed);
        frame.set(Kind::Run, 0, 0);
        self.buddy.nr_runs.fetch_add(1, Ordering::Relaxed);
        self.buddy.run_granules.fetch_add(granules, Ordering::Relaxed);
        Some(self.region.address(index))
    }

    /// Bytes of the live run that begins at `address`, if one does.
    pub fn run_bytes(&self, address: usize) -> Option<usize> {
        let index = self.region.granule_of(address)?;
        let frame = self.region.frame(index);
        (self.region.address(index) == address && frame.kind() == Kind::Run)
            .then(|| frame.granules.load(Ordering::Relaxed) as usize * super::GRANULE)
    }

    /// Frees the live run that begins at `address`: its bytes, or `None` if none does.
    pub fn free_live_run(&self, address: usize) -> Option<usize> {
        let bytes = self.run_bytes(address)?;
        let index = self.region.granule_of(address)?;
        // Of two threads that free the same run, one gets it.
        if !self.region.frame(index).change(Kind::Run, Kind::None) {
            return None;
        }
        let granules = bytes / super::GRANULE;
        self.buddy.nr_runs.fetch_sub(1, Ordering::Relaxed);
        self.buddy.run_granules.fetch_sub(granules, Ordering::Relaxed);
        self.free_run(index, granules);
        Some(bytes)
    }

    /// Cuts the tail off a live run, down to `bytes`.
    pub fn shrink_run(&self, address: usize, bytes: usize) {
        let (Some(old), Some(index)) = (self.run_bytes(address), self.region.granule_of(address))
        else {
            return;
        };
        let (old, new) = (old / super::GRANULE, self.granules_for(bytes.max(1)));
        if new < old {
            self.region.frame(index).granules.store(new as u32, Ordering::Relaxed);
            self.buddy.run_granules.fetch_sub(old - new, Ordering::Relaxed);
            self.free_run(index + new as u32, old - new);
        }
    }

    /// Free granules, and the dirty ones among them.
    pub fn free_count(&self) -> FreeCount {
        let lists = self.buddy.lists.lock(&self.platform);
        FreeCount { free: lists.free_granules, dirty: lists.dirty_granules }
    }

    /// Calls `f` with first granule and order of each free block.
    pub fn each_free_block(&self, mut f: impl FnMut(u32, u32)) {
        let lists = self.buddy.lists.lock(&self.platform);
        lists.each(&self.region, |index, order, _| f(index, order));
    }

    pub(super) fn set_dirty_hint(&self, dirty: usize) {
        self.buddy.dirty.store(dirty, Ordering::Relaxed);
    }
}

/// How far ahead of need the region is committed: little while it is small, because a
/// process may need no more; an eighth later, so that system calls become rare.
pub(super) fn spare_for(top: usize) -> usize {
    const LEAST: usize = (256 << 10) / super::GRANULE;
    const MOST: usize = (8 << 20) / super::GRANULE;
    (top / 8).clamp(LEAST, MOST)
}
