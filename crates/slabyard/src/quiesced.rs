//! A quiesced yard: no slow path is under way; stacks are stopped, or only fast paths use them.
//!
//! Neighbours: [`crate::observe`] first closes the gate; [`crate::child`] need not: a forked child
//! has one thread.

use crate::cache::Cache;
use crate::cache::slots::{number_of, slot_of};
use crate::engine::Engine;
use crate::pages::{bank, percpu};
use crate::platform::Platform;
use crate::platform::stack::Slot;
use crate::reclaim::walk::{Entries, Stacks, caches_of, entries};
use crate::slab::freeset;
use crate::sync::Ordering;
use crate::yard::Yard;

/// A quiesced yard.
pub struct Quiesced<'a, P, E> {
    pub(crate) yard: &'a Yard<P, E>,
    /// True if the stacks of other CPUs are stopped too.
    pub stopped: bool,
}

/// Free runs that CPUs hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkedRuns {
    /// Granules in lists of runs.
    pub granules: usize,
    /// Runs in banks: they count among the live ones, too.
    pub banked: usize,
    /// How large those in banks are together.
    pub banked_granules: usize,
}

/// As it is while no other thread is in a slow path: the stacks of other CPUs run on.
pub(crate) fn as_it_is<P: Platform, E: Engine>(yard: &Yard<P, E>) -> Quiesced<'_, P, E> {
    Quiesced { yard, stopped: false }
}

impl<'a, P: Platform, E: Engine> Quiesced<'a, P, E> {
    /// No other thread is in a slow path of it while this value lives.
    #[must_use]
    pub fn yard(&self) -> &'a Yard<P, E> {
        self.yard
    }

    /// Row and slot of each entry that has a stack.
    fn entries(&self) -> Entries<'a, P, E> {
        entries(self.yard, Stacks::All)
    }

    /// False if the kernel refuses: no stack is stopped then.
    pub(crate) fn stop(&self) -> bool {
        let yard = self.yard;
        let rows = yard.platform().rows();
        let mark = |row: usize, slot: Slot| {
            yard.idle_stacks.forget_top(row, slot);
            yard.idle_stacks.keep_top(row, slot, Some(rows.entry(row, slot).mark_stopped()));
        };
        self.entries().for_each(|(row, slot)| mark(row, slot));
        // As in `platform::stop`: it marks again where a committing store overwrote the mark.
        loop {
            if !yard.platform().fence() {
                for (row, slot) in self.entries() {
                    rows.entry(row, slot).unmark(self.marked_top(row, slot));
                }
                return false;
            }
            let mut lost = false;
            for (row, slot) in self.entries() {
                if !rows.entry(row, slot).is_stopped() {
                    mark(row, slot);
                    lost = true;
                }
            }
            if !lost {
                return true;
            }
        }
    }

    pub(crate) fn start(&self) {
        for (row, slot) in self.entries() {
            let entry = self.yard.platform().rows().entry(row, slot);
            entry.start(self.top_of(row, slot));
            self.yard.idle_stacks.forget_top(row, slot);
        }
    }

    /// The top that a stack had when it was marked as stopped.
    fn marked_top(&self, row: usize, slot: Slot) -> u32 {
        self.yard.idle_stacks.kept_top(row, slot).unwrap_or(0)
    }

    fn top_of(&self, row: usize, slot: Slot) -> u32 {
        if self.stopped {
            self.marked_top(row, slot)
        } else {
            self.yard.platform().rows().entry(row, slot).top()
        }
    }

    /// Calls `f` with slot and address of each object and run in these stacks of CPUs.
    pub(crate) fn each_parked_cpu(&self, stacks: Stacks, f: &mut dyn FnMut(Slot, usize)) {
        for (row, slot) in entries(self.yard, stacks) {
            self.each_in_stack(slot, self.top_of(row, slot), f);
        }
    }

    /// Calls `f` with slot and address of each object that the engines of these stacks' caches park
    /// elsewhere.
    pub(crate) fn each_parked_node(&self, stacks: Stacks, f: &mut dyn FnMut(Slot, usize)) {
        for number in caches_of(self.yard, stacks) {
            let cache = self.yard.cache(number);
            let slot = slot_of(number);
            cache.engine.each_parked(cache.on(&self.yard.heap), |address| f(slot, address));
        }
    }

    fn each_in_stack(&self, slot: Slot, top: u32, f: &mut dyn FnMut(Slot, usize)) {
        let cache = number_of(slot).map(|number| self.yard.cache(number));
        let has_objects = |cache: &Cache<E>| {
            slot != cache.shape().spare() || cache.engine.facts().has_objects_in_spare
        };
        if !cache.is_none_or(has_objects) {
            return;
        }
        for object in self.yard.heap.sheaves.objects_of(top) {
            f(slot, object.load(Ordering::Relaxed));
        }
    }

    /// Calls `f` with each slab that a CPU has: it may have free objects and is on no list.
    pub(crate) fn each_slab_of_cpus(&self, f: &mut dyn FnMut(u32)) {
        for (row, slot) in self.entries() {
            self.each_slab_of_stack(row, slot, f);
        }
        if E::HAS_SLABS_BELOW {
            let caches = self.yard.caches().used.caches();
            caches.for_each(|number| self.each_slab_below(number, f));
        }
    }

    fn each_slab_of_stack(&self, row: usize, slot: Slot, f: &mut dyn FnMut(u32)) {
        let Some(cache) = number_of(slot).map(|number| self.yard.cache(number)) else { return };
        let on = cache.on(&self.yard.heap);
        self.yard.heap.sheaves.look_at(self.top_of(row, slot), |stack| {
            cache.engine.each_slab(on, slot, stack, f);
        });
    }

    /// Of a cache, those that are in no stack.
    fn each_slab_below(&self, number: usize, f: &mut dyn FnMut(u32)) {
        let cache = self.yard.cache(number);
        cache.engine.each_slab_below(cache.on(&self.yard.heap), f);
    }

    /// The number of a cache's objects in CPUs' stacks, and of the free ones of slabs that CPUs
    /// have.
    #[must_use]
    pub fn parked_cpu(&self, class: usize) -> usize {
        let mut sum = 0;
        for (row, slot) in entries(self.yard, Stacks::Cache(class)) {
            self.each_in_stack(slot, self.top_of(row, slot), &mut |_, _| sum += 1);
            let mut add_free =
                |slab| sum += freeset::free_of(&self.yard.heap.region, slab).1 as usize;
            self.each_slab_of_stack(row, slot, &mut add_free);
        }
        let mut add_free = |slab| sum += freeset::free_of(&self.yard.heap.region, slab).1 as usize;
        self.each_slab_below(class, &mut add_free);
        sum
    }

    /// What CPUs' lists of runs and banks hold.
    #[must_use]
    pub fn parked_runs(&self) -> ParkedRuns {
        let mut sum = ParkedRuns::default();
        let heap = &self.yard.heap;
        self.each_parked_cpu(Stacks::Runs, &mut |slot, address| {
            if bank::is_bank(slot) {
                sum.banked += 1;
                sum.banked_granules += heap.parked_granules(address);
            } else if percpu::order_of(slot).is_some() {
                sum.granules += heap.parked_granules(address);
            }
        });
        sum
    }

    /// True if the rows are private and only the caller's has a stack. Without a stop, another
    /// thread would pop from its row while we read it.
    fn is_alone(&self) -> bool {
        let p = self.yard.platform();
        let mine = p.row_hint();
        p.rows().are_private() && self.entries().all(|(row, _)| Some(row) == mine)
    }

    /// True if each stack can be read: they are stopped, or the caller has them all.
    pub(crate) fn reaches_all(&self) -> bool {
        self.stopped || self.is_alone()
    }

    /// Rows that have a stack.
    #[must_use]
    pub fn rows_in_use(&self) -> usize {
        let (mut rows, mut last) = (0, None);
        for (row, _) in self.entries() {
            rows += usize::from(last != Some(row));
            last = Some(row);
        }
        rows
    }
}
