//! How allocations and frees of pages use a CPU's lists, by the [`Rules`] of the chosen kind, in a
//! yard or in the model.
//!
//! A refill appends a batch from the buddy to the list's tail; a give-back returns the list's
//! oldest pages. Each refill or give-back takes the buddy's lock once. Other calls take no lock; an
//! allocation takes the page that was freed last, because its lines may still be in the CPU's
//! caches.
//!
//! Neighbours: [`crate::on_cpus`] implements lists of real runs, the crate `slabyard-model` those
//! of modelled kernels.

use slabyard_abi::stats::Counter;
use slabyard_kernels::page_lists::{Cold, List, Rules, Tuning, Warmth};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where pages are handed out.
    Head,
    /// Where they are given back.
    Tail,
}

/// The lists of a CPU in front of a buddy. A call may find a list emptied, or without room, by
/// another thread since it looked.
pub trait Lists: Copy {
    /// A run of pages.
    type Run: Copy;

    /// The numbers.
    fn rules(&self) -> &Rules;
    /// Runs on a list.
    fn len(self, list: List) -> u32;
    /// Takes a run off an end.
    fn pop(self, list: List, end: End) -> Option<Self::Run>;
    /// Puts a run at an end; false if the list takes none.
    fn push(self, list: List, run: Self::Run, end: End) -> bool;
    /// Takes up to this many runs from the buddy, under one hold of its lock where it has them, to
    /// the list's tail; returns how many.
    fn refill(self, list: List, most: u32) -> u32;
    /// Gives up to this many runs from the list's tail to the buddy, under one hold of its lock;
    /// returns how many.
    fn give_back(self, list: List, most: u32) -> u32;
    /// Takes a run of 2^order pages from the buddy.
    fn take_one(self, order: u32) -> Option<Self::Run>;
    /// Gives a run to the buddy.
    fn give_one(self, order: u32, run: Self::Run);
    /// What the lists have learnt; a hint, of which another thread's change may get lost.
    fn tuning(self) -> Tuning;
    /// Changes it.
    fn set_tuning(self, tuning: Tuning);
    /// Counts something.
    fn count(self, counter: Counter, n: u32);
}

/// A list's counters: hits, refills and their pages, give-backs and their pages.
const fn counters(list: List) -> [Counter; 5] {
    use Counter::{
        PageColdGiveBack, PageColdGivenBack, PageColdHit, PageColdRefill, PageColdRefilled,
        PageGiveBack, PageGivenBack, PageHit, PageRefill, PageRefilled,
    };
    match list {
        List::Of(_) => [PageHit, PageRefill, PageRefilled, PageGiveBack, PageGivenBack],
        List::Cold => {
            [PageColdHit, PageColdRefill, PageColdRefilled, PageColdGiveBack, PageColdGivenBack]
        }
    }
}

/// Allocates a run of 2^order pages.
pub fn alloc<L: Lists>(on: L, order: u32, warmth: Warmth) -> Option<L::Run> {
    let rules = on.rules();
    let Some(list) = rules.list_of(order, warmth) else { return take_one(on, order) };
    let [hit, refill, refilled, ..] = counters(list);
    let end =
        if rules.cold == Cold::Tail && warmth == Warmth::Cold { End::Tail } else { End::Head };
    let missed = on.len(list) <= rules.low_of(list);
    if missed && !rules.is_direct {
        let batch = refill_batch(on, order);
        let runs = on.refill(list, batch);
        on.count(Counter::PageLock, 1);
        on.count(refill, u32::from(runs > 0));
        on.count(refilled, runs << order);
    }
    if let Some(run) = on.pop(list, end) {
        on.count(hit, u32::from(!missed));
        if rules.is_tuned {
            let tuning = on.tuning();
            on.set_tuning(Tuning { free_count: tuning.free_count >> 1, ..tuning });
        }
        return Some(run);
    }
    let run = take_one(on, order)?;
    if rules.is_direct {
        on.count(refill, 1);
        on.count(refilled, 1 << order);
    }
    Some(run)
}

/// Frees a run of 2^order pages.
pub fn free<L: Lists>(on: L, order: u32, run: L::Run, warmth: Warmth) {
    let rules = on.rules();
    let Some(list) = rules.list_of(order, warmth) else { return give_one(on, order, run) };
    if !(rules.is_direct || rules.is_tuned) && on.len(list) >= rules.capacity(list) {
        give_back(on, list, rules.batch);
    }
    let end =
        if rules.cold == Cold::Tail && warmth == Warmth::Cold { End::Tail } else { End::Head };
    if !on.push(list, run, end) {
        if rules.is_direct {
            let [.., give_back, given_back] = counters(list);
            on.count(give_back, 1);
            on.count(given_back, 1 << order);
        }
        return give_one(on, order, run);
    }
    if rules.is_tuned {
        trim(on, order);
    }
}

fn take_one<L: Lists>(on: L, order: u32) -> Option<L::Run> {
    on.count(Counter::PageLock, 1);
    on.take_one(order)
}

fn give_one<L: Lists>(on: L, order: u32, run: L::Run) {
    on.count(Counter::PageLock, 1);
    on.give_one(order, run);
}

/// Returns how many runs went.
fn give_back<L: Lists>(on: L, list: List, most: u32) -> u32 {
    let [.., give_back, given_back] = counters(list);
    let runs = on.give_back(list, most);
    on.count(Counter::PageLock, 1);
    on.count(give_back, u32::from(runs > 0));
    on.count(given_back, runs << list.order());
    runs
}

/// Pages on a CPU's lists together.
fn pages<L: Lists>(on: L) -> u32 {
    (0..on.rules().orders).map(|order| on.len(List::Of(order)) << order).sum()
}

/// Runs of a refill.
fn refill_batch<L: Lists>(on: L, order: u32) -> u32 {
    let rules = on.rules();
    if !rules.is_tuned {
        return rules.batch;
    }
    let (batch, tuning) = rules.tuned_refill(on.tuning(), order, pages(on));
    on.set_tuning(tuning);
    batch
}

/// Gives pages back if a CPU's lists of a tuned kind hold too many after a free: of the list of
/// this order first, then of the others.
fn trim<L: Lists>(on: L, order: u32) {
    let rules = on.rules();
    let (most, tuning) = rules.tuned_free(on.tuning(), order, pages(on));
    on.set_tuning(tuning);
    let mut left = most;
    for nth in 0..rules.orders {
        let order = (order + nth) % rules.orders;
        if left > 0 && on.len(List::Of(order)) > 0 {
            let runs = give_back(on, List::Of(order), left.div_ceil(1 << order));
            left = left.saturating_sub(runs << order);
        }
    }
}
