//! A yard's page lists: per-CPU stacks of page runs, in the slots of [`slabyard::pages::percpu`].
//!
//! The list of an order (in granules) is in that order's slot; cold pages are in the last slot. The
//! list's head is the stack's top. The platform pops and pushes single runs. A refill or give-back
//! takes the whole stack out of its entry by an exchange, changes it in private, and puts it back
//! by a second exchange. Runs that another thread on this CPU pushed meanwhile return to the buddy;
//! so do all runs if the stack was stopped. Drains, reclaim passes and checks treat these lists
//! like the yard's own.
//!
//! Invariant: the page descriptor of a listed run holds [`GranuleKind::Parked`] and the run's
//! order.

use crate::policy::{End, Lists};
use slabyard::pages::percpu::{COLD_SLOT, FIRST_SLOT};
use slabyard::pages::{GranuleKind, PageHeap, Sheaf, runs};
use slabyard::platform::{GRANULE, Platform, Slot, Stack, Takes};
use slabyard::sync::Ordering;
use slabyard_abi::stats::Counter;
use slabyard_kernels::page_lists::{LISTED_ORDERS, List, Rules, Tuning};

/// Most runs of a list: what the largest array of elements has room for.
pub(crate) const MOST_RUNS: u32 = 1022;

/// Orders of a page, in granules.
pub(crate) fn page_order<P: Platform>(p: &P) -> u32 {
    (p.page_bytes() / GRANULE).ilog2()
}

/// The calling thread's lists.
pub(crate) struct CpuPageLists<'a, P> {
    pub(crate) heap: &'a PageHeap<P>,
    pub(crate) rules: &'a Rules,
    pub(crate) count: &'a dyn Fn(Counter, u32),
}

impl<P> Clone for CpuPageLists<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for CpuPageLists<'_, P> {}

impl<P: Platform> CpuPageLists<'_, P> {
    /// The order of a list's runs, in granules.
    fn order(self, list: List) -> u32 {
        list.order() + page_order(&self.heap.platform)
    }

    /// The slot of a list; `None` for pages so large that a row has none.
    fn slot(self, list: List) -> Option<Slot> {
        let order = self.order(list);
        if list == List::Cold {
            return Some(Slot(COLD_SLOT));
        }
        (order < LISTED_ORDERS).then(|| Slot(FIRST_SLOT + order as u16))
    }

    /// Takes a list out of its entry; an empty one if there is none. `None` if it is stopped, this
    /// thread has no row, or there is no memory.
    fn check_out(self, list: List) -> Option<Sheaf> {
        let (heap, slot) = (self.heap, self.slot(list)?);
        let stack = heap.platform.exchange(slot, Stack::NONE).ok()?;
        let most = self.rules.capacity(list);
        heap.sheaves.adopt(stack).or_else(|| heap.sheaves.take(&heap.platform, most))
    }

    fn check_in(self, list: List, sheaf: Sheaf) {
        let heap = self.heap;
        let new = heap.sheaves.publish(sheaf, self.rules.capacity(list));
        let other = match self.slot(list).map(|slot| heap.platform.exchange(slot, new)) {
            Some(Ok(old)) => old,
            // No other thread has seen it.
            Some(Err(_)) | None => new,
        };
        let Some(mut sheaf) = heap.sheaves.adopt(other) else { return };
        self.give_oldest(&mut sheaf, u32::MAX);
        heap.sheaves.give(&heap.platform, sheaf);
    }

    /// Gives this many of the oldest runs to the buddy; returns how many there were.
    fn give_oldest(self, sheaf: &mut Sheaf, most: u32) -> u32 {
        let heap = self.heap;
        let runs = most.min(sheaf.len());
        let oldest = &heap.sheaves.objects(sheaf)[..runs as usize];
        runs::free_parked_runs(heap, oldest.iter().map(|run| run.load(Ordering::Relaxed)));
        heap.sheaves.drop_oldest(sheaf, runs);
        runs
    }

    /// Makes a run one of a list's; returns its address.
    fn park(self, list: List, index: u32) -> usize {
        self.heap.region.descriptor(index).set(GranuleKind::Parked, self.order(list), 0);
        self.heap.region.address(index)
    }

    fn leave(self, address: usize) -> Option<u32> {
        let index = self.heap.region.granule_of(address)?;
        self.heap.region.descriptor(index).set(GranuleKind::None, 0, 0);
        Some(index)
    }
}

impl<P: Platform> Lists for CpuPageLists<'_, P> {
    type Run = u32;

    fn rules(&self) -> &Rules {
        self.rules
    }

    fn len(self, list: List) -> u32 {
        let p = &self.heap.platform;
        let Some((row, slot)) = p.row_hint().zip(self.slot(list)) else { return 0 };
        self.heap.sheaves.count_of(p.rows().entry(row, slot).top()).unwrap_or(0)
    }

    fn pop(self, list: List, end: End) -> Option<u32> {
        if end == End::Head {
            let address = self.heap.platform.pop(self.slot(list)?)?;
            return self.leave(address);
        }
        let mut sheaf = self.check_out(list)?;
        let oldest = (!sheaf.is_empty()).then(|| self.heap.sheaves.remove(&mut sheaf, 0));
        // Off the list before others see the list again.
        let run = oldest.and_then(|address| self.leave(address));
        self.check_in(list, sheaf);
        run
    }

    fn push(self, list: List, run: u32, end: End) -> bool {
        let heap = self.heap;
        let Some(slot) = self.slot(list) else { return false };
        heap.region.set_dirty(run as usize, 1 << self.order(list), true);
        let address = self.park(list, run);
        if end == End::Head && heap.platform.push(slot, address, Takes::Each) {
            return true;
        }
        // There is none yet, it is full, or the tail is wanted.
        let Some(mut sheaf) = self.check_out(list) else {
            heap.region.descriptor(run).set(GranuleKind::None, 0, 0);
            return false;
        };
        let has_room = sheaf.len() < self.rules.capacity(list).min(heap.sheaves.room(&sheaf));
        if has_room {
            heap.sheaves.push(&mut sheaf, address);
            if end == End::Tail {
                heap.sheaves.turn_under(&mut sheaf, 1);
            }
        } else {
            heap.region.descriptor(run).set(GranuleKind::None, 0, 0);
        }
        self.check_in(list, sheaf);
        has_room
    }

    fn refill(self, list: List, most: u32) -> u32 {
        let heap = self.heap;
        let Some(mut sheaf) = self.check_out(list) else { return 0 };
        let room = self.rules.capacity(list).min(heap.sheaves.room(&sheaf));
        let most = most.min(room.saturating_sub(sheaf.len()));
        let runs = runs::take_runs(heap, self.order(list), most, |index| {
            heap.sheaves.push(&mut sheaf, self.park(list, index));
        });
        heap.sheaves.turn_under(&mut sheaf, runs);
        self.check_in(list, sheaf);
        runs
    }

    fn give_back(self, list: List, most: u32) -> u32 {
        let Some(mut sheaf) = self.check_out(list) else { return 0 };
        let runs = self.give_oldest(&mut sheaf, most);
        self.check_in(list, sheaf);
        runs
    }

    fn take_one(self, order: u32) -> Option<u32> {
        let granules = 1 << (order + page_order(&self.heap.platform));
        self.heap.take_run(granules, granules)
    }

    fn give_one(self, order: u32, run: u32) {
        self.heap.free_run(run, 1 << (order + page_order(&self.heap.platform)));
    }

    fn tuning(self) -> Tuning {
        let p = &self.heap.platform;
        let word = p.row_hint().map_or(0, |row| p.rows().note(row).load(Ordering::Relaxed));
        unpack(word)
    }

    fn set_tuning(self, tuning: Tuning) {
        let p = &self.heap.platform;
        if let Some(row) = p.row_hint() {
            p.rows().note(row).store(pack(tuning), Ordering::Relaxed);
        }
    }

    fn count(self, counter: Counter, n: u32) {
        if n > 0 {
            (self.count)(counter, n);
        }
    }
}

/// Bits of each of the first two numbers, in a row's note.
const BITS: u32 = 12;

const _: () = assert!(MOST_RUNS < 1 << BITS);

fn pack(tuning: Tuning) -> u32 {
    let [high, free_count] = [tuning.high, tuning.free_count].map(|n| n.min((1 << BITS) - 1));
    high | free_count << BITS | tuning.doublings << (2 * BITS)
}

fn unpack(word: u32) -> Tuning {
    let part = |nth: u32| word >> (nth * BITS) & ((1 << BITS) - 1);
    Tuning { high: part(0), free_count: part(1), doublings: word >> (2 * BITS) }
}
