//! The region: one reservation of address space, divided into granules of 4096 bytes and in use up
//! to `top`. Three tables describe the granules: descriptors, the page map (granule to slot, which
//! `free` reads), and the dirty bits.
//!
//! Memory is committed in larger steps than those in which `top` moves. When the region grows for a
//! large run, `top` moves only to the run's end: descriptors of a free block after it would be
//! resident, even if the program never touches its large blocks. If a program frees and allocates
//! large runs in turn, free memory after a run lets a larger one take its place.
//!
//! Granule 0 is never allocated: index 0 terminates lists.
//!
//! The dirty bit of a free granule is set if it may contain nonzero bytes: freeing a run sets its
//! granules' bits, a purge clears them.
//!
//! Neighbours: [`super::buddy`] grows the region and allocates from it; [`super::huge`]
//! decides which page sizes a new part may have.

use super::descriptor::Descriptor;
use super::huge::{ALWAYS_SMALL, DECIDED, HUGE, PageSizes, is_dense};
use crate::platform::{GRANULE, Platform, Use};
use crate::sync::{AtomicU16, AtomicU64, AtomicUsize, Guard, Lock, Once, Ordering, Rank};
use crate::table::Table;

/// The smallest reservation, in bytes.
const SMALLEST: usize = 16 << 20;

/// What the region has behind the run that it grows for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    Nothing,
    /// Free granules, for further runs: what is committed, but at most [`MOST_FREE`].
    Free,
    /// All that is committed.
    All,
}

/// Most granules that are committed ahead of need: 8 MiB.
pub(super) const MOST_AHEAD: usize = (8 << 20) / GRANULE;

/// 1 MiB: of more than that, large runs would take most.
const MOST_FREE: usize = (1 << 20) / GRANULE;

/// Held by the one thread that may grow the region.
pub(super) type Growing<'a, P> = Guard<'a, (), P>;

/// Reserved address space and its tables.
pub struct Region {
    base: AtomicUsize,
    granules: AtomicUsize,
    top: AtomicUsize,
    /// Granules committed, not less than `top`; who holds `grow` changes it.
    committed: AtomicUsize,
    /// Granules whose entries of the page map are readable: a power of two.
    reach: AtomicUsize,
    on_reach: Once<fn()>,
    pub(super) descriptors: Table<Descriptor>,
    pub(super) map: Table<AtomicU16>,
    dirty: Table<AtomicU64>,
    grow: Lock<()>,
    page_sizes: PageSizes,
    /// Memory nodes ([`super::nodes`]).
    pub(super) nodes: AtomicUsize,
}

impl Region {
    pub(super) const fn new() -> Self {
        Region {
            base: AtomicUsize::new(0),
            granules: AtomicUsize::new(0),
            top: AtomicUsize::new(0),
            committed: AtomicUsize::new(0),
            reach: AtomicUsize::new(0),
            on_reach: Once::new(),
            descriptors: Table::new(),
            map: Table::new(),
            dirty: Table::new(),
            grow: Lock::new(Rank::Grow, ()),
            page_sizes: PageSizes::new(),
            nodes: AtomicUsize::new(1),
        }
    }

    pub(super) fn init<P: Platform>(&self, p: &P, want: usize) -> bool {
        let want = want.next_power_of_two().max(SMALLEST);
        let Some((base, bytes)) = self.reserve_parts(p, want).or_else(|| reserve(p, want, 0))
        else {
            return false;
        };
        let granules = bytes / GRANULE;
        let unit = p.page_bytes() / GRANULE;
        self.base.store(base, Ordering::Relaxed);
        self.granules.store(granules, Ordering::Relaxed);
        self.top.store(unit, Ordering::Relaxed);
        self.committed.store(unit, Ordering::Relaxed);
        let ready = self.descriptors.reserve(p, granules)
            // `free` reads the entry of any distance below a power of two.
            && self.map.reserve(p, granules.next_power_of_two())
            && self.dirty.reserve(p, granules.div_ceil(64))
            && self.ensure_tables(p, unit);
        if ready {
            // Written before it is read: a page that is read first faults twice.
            self.descriptor(0).time.store(0, Ordering::Relaxed);
        }
        ready
    }

    fn ensure_tables<P: Platform>(&self, p: &P, granules: usize) -> bool {
        let reach = Self::reach_for(granules);
        if reach > self.reach() {
            if !self.map.ensure(p, reach) {
                return false;
            }
            self.set_reach(reach);
        }
        self.descriptors.ensure(p, granules)
            && self.map.ensure(p, granules)
            && self.dirty.ensure(p, granules.div_ceil(64))
    }

    /// The least reach for this many granules.
    fn reach_for(granules: usize) -> usize {
        granules.next_power_of_two().max(SMALLEST / GRANULE)
    }

    fn set_reach(&self, granules: usize) {
        self.reach.store(granules, Ordering::Release);
        if let Some(call) = self.on_reach.try_get() {
            call();
        }
    }

    /// Granules whose entries of the page map may be read: a power of two.
    #[inline]
    pub fn reach(&self) -> usize {
        self.reach.load(Ordering::Acquire)
    }

    /// Sets the function to call when [`Region::reach`] has become larger, before there are
    /// objects in the part that it gained.
    pub fn on_reach(&self, call: fn()) {
        self.on_reach.set(call);
    }

    /// In the child of a fork: nobody grows it.
    pub(super) fn abandon<P: Platform>(&self, p: &P) {
        if self.grow.abandon() {
            self.descriptors.forget_commit(p);
            self.map.forget_commit(p);
            self.dirty.forget_commit(p);
            let end = self.committed();
            p.forget_commit(self.address(end as u32), (self.granules() - end) * GRANULE);
        }
    }

    /// First address.
    #[inline]
    pub fn base(&self) -> usize {
        self.base.load(Ordering::Relaxed)
    }

    /// Most bytes to which a granule's address can be aligned by its index.
    pub fn alignment(&self) -> usize {
        1 << self.base().trailing_zeros()
    }

    /// Granules reserved.
    #[inline]
    pub fn granules(&self) -> usize {
        self.granules.load(Ordering::Relaxed)
    }

    /// Granules in use or free; the first page of the machine among them is never used.
    #[inline]
    pub fn top(&self) -> usize {
        self.top.load(Ordering::Acquire)
    }

    /// Granules committed beyond [`Region::top`].
    pub fn ahead(&self) -> usize {
        self.committed() - self.top()
    }

    fn committed(&self) -> usize {
        self.committed.load(Ordering::Relaxed)
    }

    /// Address of the page map's first entry: one u16 for each granule, the
    /// slot's offset in a row, 0 where there is no slab.
    pub fn map_base(&self) -> usize {
        self.map.base()
    }

    /// Address of the number of granules below the top.
    pub(super) fn top_at(&self) -> usize {
        self.top.as_ptr() as usize
    }

    /// Addresses of the numbers of bytes committed for descriptors, page map, dirty bits.
    pub(super) fn metadata_at(&self) -> [usize; 3] {
        [self.descriptors.committed_at(), self.map.committed_at(), self.dirty.committed_at()]
    }

    /// Address of the first descriptor.
    pub(super) fn descriptors_base(&self) -> usize {
        self.descriptors.base()
    }

    /// Bytes of the tables.
    pub fn metadata_bytes(&self) -> usize {
        self.descriptors.committed_bytes()
            + self.map.committed_bytes()
            + self.dirty.committed_bytes()
    }

    /// The descriptor of a granule below [`Region::top`].
    #[inline]
    pub fn descriptor(&self, index: u32) -> &Descriptor {
        self.descriptors.get(index as usize)
    }

    /// Prefetches the descriptor of a granule, to be written soon.
    #[inline]
    pub fn fetch_descriptor_ahead(&self, index: u32) {
        self.descriptors.fetch_ahead(index as usize);
    }

    /// The granule that an address is in, if it is committed.
    #[inline]
    pub fn granule_of(&self, address: usize) -> Option<u32> {
        let index = address.wrapping_sub(self.base()) / GRANULE;
        (index < self.top()).then_some(index as u32)
    }

    /// The first address of a granule.
    #[inline]
    pub fn address(&self, index: u32) -> usize {
        self.base() + index as usize * GRANULE
    }

    /// Writes the page map for a slab (its slot's offset) or its end (0).
    pub fn set_map(&self, first: u32, granules: u32, value: u16) {
        for i in first..first + granules {
            self.map.get(i as usize).store(value, Ordering::Relaxed);
        }
    }

    /// Slot offset in the page map.
    #[inline]
    pub fn map_value(&self, index: u32) -> u16 {
        self.map.get(index as usize).load(Ordering::Relaxed)
    }

    /// Granules at the start that have huge pages only where the heap is dense; few if the
    /// reserve is small.
    #[inline]
    pub fn small_pages(&self) -> usize {
        DECIDED.min(self.granules() / 16 / HUGE * HUGE)
    }

    /// True if the region decided, as it grew, that this extent of a huge page has small ones.
    pub(super) fn has_small_pages(&self, nth: usize) -> bool {
        self.page_sizes.are_small(nth)
    }

    /// Locks the growth of the region. The holder keeps the lock until the new granules are
    /// on the lists: a thread that found nothing free and waited for it looks there again.
    /// Before, 64 threads that found nothing free each grew the region, and a fifth of 44 MiB was
    /// never touched (325e7eb).
    pub(super) fn growing<'a, P: Platform>(&'a self, p: &'a P) -> Growing<'a, P> {
        self.grow.lock(p)
    }

    /// Moves the top so that `granules` from an index aligned to `align` (power of two), of a node
    /// if one is named, are below it, and as many behind them as `ahead` says. Returns the old
    /// top, the aligned index, and the new top. The new part belongs to the caller.
    /// `None` if the kernel refuses or the reserve is used up.
    /// Before, the free memory behind each run was in blocks, whose descriptors lay on every page
    /// of their table: 30,000 blocks of 1.1 MB with one page written were resident with 550 MB, and
    /// are with 225 (4234533).
    pub(super) fn grow<P: Platform>(
        &self,
        p: &P,
        _held: &Growing<'_, P>,
        granules: usize,
        align: usize,
        ahead: Ahead,
        node: Option<usize>,
    ) -> Option<(usize, usize, usize)> {
        let (old, have) = (self.top(), self.committed());
        let unit = p.page_bytes() / GRANULE;
        let small = self.small_pages();
        // A large run begins where it may have huge pages; the granules before it are free.
        let large = granules >= HUGE;
        let beyond = (large && old < small).then_some(small);
        let may_be_dense = (ALWAYS_SMALL..small).contains(&old) && p.has_huge_pages();
        for from in beyond.into_iter().chain([old]) {
            let start = if P::MOST_NODES == 1 {
                from.next_multiple_of(align)
            } else {
                self.place(from, granules, align, node)
            };
            let least = start.checked_add(granules)?.next_multiple_of(unit);
            // Granules before a large run get small pages: any run may use them.
            let may_be_huge = may_be_dense
                && from == old
                && least > have
                && is_dense(p, self.address(old as u32));
            // Where huge pages may be, what is committed ends with a whole one.
            let whole = large || small > 0 && least > small || may_be_huge;
            let step = if whole { unit.max(HUGE) } else { unit };
            let wished = if least <= have {
                have
            } else {
                least.max(old + spare_for(old)).next_multiple_of(step).min(self.granules())
            };
            for end in [wished, least] {
                if end < least || end > self.granules() || !self.commit(p, end, small, may_be_huge)
                {
                    continue;
                }
                let new = match ahead {
                    Ahead::Nothing => least,
                    Ahead::Free => end.min(least + MOST_FREE),
                    Ahead::All => end,
                };
                self.top.store(new, Ordering::Release);
                // Written before the buddy reads its neighbours: see `init`.
                if old < start {
                    self.descriptor(old as u32).time.store(0, Ordering::Relaxed);
                }
                return Some((old, start, new));
            }
        }
        None
    }

    /// Commits up to `end`, and makes the tables as large.
    fn commit<P: Platform>(&self, p: &P, end: usize, small: usize, may_be_huge: bool) -> bool {
        let have = self.committed();
        if end <= have {
            return true;
        }
        if !self.ensure_tables(p, end)
            || !p.commit(self.address(have as u32), (end - have) * GRANULE)
        {
            return false;
        }
        // A region below one huge page has none, and needs no advice.
        if end >= HUGE {
            self.page_sizes.decide(p, self.base(), end, small, may_be_huge);
        }
        self.committed.store(end, Ordering::Relaxed);
        true
    }

    /// Faults in the descriptors of new free granules, which the buddy will soon cut: by one
    /// call instead of a page fault each. Not for few granules: a small process may need
    /// none of them.
    /// Most of the slowest calls of `malloc` waited for these faults: 473 of 800,000 calls, and 46
    /// with this (8a864b3).
    pub(super) fn touch_descriptors<P: Platform>(&self, p: &P, first: usize, end: usize) {
        const LEAST: usize = (1 << 20) / GRANULE;
        if first + LEAST <= end {
            self.descriptors.touch_ahead(p, first, end);
        }
    }

    /// Marks granules as dirty or clean; returns how many changed.
    pub fn set_dirty(&self, first: usize, granules: usize, dirty: bool) -> usize {
        self.dirty_words(first, granules, |word, mask| {
            let old = if dirty {
                word.fetch_or(mask, Ordering::Relaxed)
            } else {
                word.fetch_and(!mask, Ordering::Relaxed)
            };
            (if dirty { mask & !old } else { mask & old }).count_ones() as usize
        })
    }

    /// Number of dirty granules in a range.
    pub fn dirty_in(&self, first: usize, granules: usize) -> usize {
        self.dirty_words(first, granules, |word, mask| {
            (word.load(Ordering::Relaxed) & mask).count_ones() as usize
        })
    }

    /// Number of granules from `first` on, at most `most`, that are all dirty or all clean;
    /// and true if they are dirty.
    pub fn stretch(&self, first: usize, most: usize) -> (usize, bool) {
        let word = |at: usize| self.dirty.get(at / 64).load(Ordering::Relaxed) >> (at % 64);
        let dirty = word(first) & 1 == 1;
        let mut n = 0;
        while n < most {
            let bits = word(first + n);
            let same = if dirty { bits.trailing_ones() } else { bits.trailing_zeros() } as usize;
            // The stretch may go on in the next word.
            let left = 64 - (first + n) % 64;
            n += same.min(left);
            if same < left {
                break;
            }
        }
        (n.min(most), dirty)
    }

    /// The first dirty granule of a range.
    pub(super) fn first_dirty(&self, first: usize, granules: usize) -> Option<usize> {
        let (mut at, end) = (first, first + granules);
        while at < end {
            let word = self.dirty.get(at / 64).load(Ordering::Relaxed) >> (at % 64);
            if word != 0 {
                at += word.trailing_zeros() as usize;
                return Some(at).filter(|at| *at < end);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The last dirty granule of a range.
    pub(super) fn last_dirty(&self, first: usize, granules: usize) -> Option<usize> {
        (first..first + granules).rev().find(|at| self.dirty_in(*at, 1) == 1)
    }

    fn dirty_words(
        &self,
        first: usize,
        granules: usize,
        mut f: impl FnMut(&AtomicU64, u64) -> usize,
    ) -> usize {
        let (mut at, end) = (first, first + granules);
        let mut sum = 0;
        while at < end {
            let bit = at % 64;
            let n = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - n)) << bit;
            sum += f(self.dirty.get(at / 64), mask);
            at += n;
        }
        sum
    }
}

/// Reserves `want` bytes; where the kernel has no room for them, the largest half, quarter
/// and so on that it has room for.
pub(super) fn reserve<P: Platform>(p: &P, want: usize, align: usize) -> Option<(usize, usize)> {
    let align = (HUGE * GRANULE).max(p.page_bytes()).max(align);
    let halves = core::iter::successors(Some(want), |bytes| Some(bytes / 2));
    let mut sizes = halves.take_while(|bytes| *bytes >= SMALLEST);
    sizes.find_map(|bytes| p.reserve(bytes, align, Use::Arena).map(|base| (base, bytes)))
}

/// Granules that the region commits ahead of need: few while it is small, because a process
/// may need no more; an eighth of it later, so that system calls become rare.
fn spare_for(top: usize) -> usize {
    const LEAST: usize = (256 << 10) / GRANULE;
    (top / 8).clamp(LEAST, MOST_AHEAD)
}
