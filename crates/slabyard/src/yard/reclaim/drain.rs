//! Whole drains, on request: every parked object returns to its slab at once.
//!
//! A trim, a request of another process, a page that the system refused, the end of a thread
//! with a private slot, and the rows that a fork left behind cause one. They are exempt from
//! the bound on one call ([`crate::yard::bound`]).
//!
//! Neighbour: [`super::pass`] drains what is idle, without a request, slice by slice.

use crate::cache::slots::number_of;
use crate::engine::Engine;
use crate::pages::{Sheaf, percpu};
use crate::platform::stack::STOPPED;
use crate::platform::{GRANULE, Platform, Slot, Stack};
use crate::sync::Ordering;
use crate::yard::Yard;
use crate::yard::slow_path::LOOK_CALLS;
use crate::yard::stacks::Stacks;

/// Stacks stopped at once: one fence for all. They lie on the stack of a slow path.
pub(crate) const BATCH: usize = 24;

/// Row, slot and top of stacks to stop.
pub(crate) type Stops = [(usize, Slot, u32); BATCH];

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Drains stacks: of all rows, or of the caller's row where the platform cannot stop other
    /// CPUs. Called with the drain lock held.
    pub(crate) fn drain_stacks(&self, stacks: Stacks) {
        if !(self.platform().can_stop() && self.drain_rows(stacks)) {
            self.drain_own_stacks(stacks);
        }
    }

    /// False if the system refused to stop them: some stacks may not be drained. Called with the
    /// drain lock held.
    pub(crate) fn drain_rows(&self, stacks: Stacks) -> bool {
        let (rows, mut n) = (self.platform().rows(), 0);
        let mut stops: Stops = [(0, Slot(0), 0); BATCH];
        for (row, slot) in self.entries(stacks) {
            if self.heap.sheaves.count_of(rows.entry(row, slot).top()).is_none() {
                continue;
            }
            stops[n] = (row, slot, 0);
            n += 1;
            if n == BATCH {
                if !self.drain_stops(&mut stops) {
                    return false;
                }
                n = 0;
            }
        }
        self.drain_stops(&mut stops[..n])
    }

    fn drain_own_stacks(&self, stacks: Stacks) {
        let mut next = 0;
        while let Some(slot) = self.next_stack(stacks, next) {
            self.drain_own(slot);
            next = slot.0 + 1;
        }
    }

    /// Stops these stacks, returns their objects to the slabs, and takes the stacks out of
    /// their rows. False if the system refuses to stop them.
    fn drain_stops(&self, stops: &mut [(usize, Slot, u32)]) -> bool {
        if stops.is_empty() {
            return true;
        }
        if !self.platform().stop(stops) {
            return false;
        }
        self.keep_tops(stops);
        for &(row, slot, top) in &*stops {
            self.flush_stopped(row, slot, top);
        }
        true
    }

    /// Keeps the tops of stacks that were just stopped, for the child of a fork.
    pub(crate) fn keep_tops(&self, stops: &[(usize, Slot, u32)]) {
        for &(row, slot, top) in stops.iter().filter(|(.., top)| *top != STOPPED) {
            self.seen.keep_top(row, slot, top);
        }
    }

    /// Returns the objects of a stopped stack to the slabs (its runs to the buddy), and takes
    /// the stack out of its row.
    pub(crate) fn flush_stopped(&self, row: usize, slot: Slot, top: u32) {
        // From now on other threads may take its objects out of their slabs again: the child of a
        // fork must not return them there.
        self.seen.forget_top(row, slot);
        let stack = Stack { top, end: 0 };
        let empty = self.heap.sheaves.adopt(stack).map(|stack| self.flush_stack(slot, stack));
        self.platform().rows().entry(row, slot).start_without();
        if let Some(empty) = empty {
            self.heap.sheaves.give(self.platform(), empty);
        }
    }

    /// Returns what a stack has that no other thread reaches; returns the array.
    fn flush_stack(&self, slot: Slot, mut stack: Sheaf) -> Sheaf {
        if let Some(number) = number_of(slot) {
            let cache = self.caches.get(number);
            return cache.engine.flush_stopped(cache.on(&self.heap), slot, stack);
        }
        while let Some(run) = self.heap.sheaves.pop(&mut stack) {
            self.heap.free_parked_run(run);
        }
        stack
    }

    /// Drains a stack of the calling thread's own row.
    pub(crate) fn drain_own(&self, slot: Slot) {
        if let Some(number) = number_of(slot) {
            let cache = self.caches.get(number);
            cache.engine.flush_own(cache.on(&self.heap), slot);
        } else if percpu::has_runs(slot) {
            while let Some(address) = self.platform().pop(slot) {
                self.heap.free_parked_run(address);
            }
        }
    }

    /// Drains all stacks and barns and purges all free pages, because the system refused a
    /// page. Returns the granules that went back. The caller is inside a slow path.
    pub(crate) fn drain_all(&self) -> usize {
        let _guard = self.drain.lock(self.platform());
        let cleaned = self.heap.cleaned.load(Ordering::Relaxed);
        self.drain_stacks(Stacks::All);
        for number in self.caches.used.caches() {
            let cache = self.caches.get(number);
            cache.engine.shrink(cache.on(&self.heap));
        }
        // Ended slabs went to this CPU's lists of runs.
        self.drain_stacks(Stacks::All);
        self.look_at_waiting();
        let mut purged = self.heap.purge(0, usize::MAX);
        // With debugging, pages went back as their slabs ended.
        purged += self.heap.cleaned.load(Ordering::Relaxed).wrapping_sub(cleaned);
        self.heap.release_metadata();
        let sheaves = self.heap.sheaves.rest(self.platform());
        self.platform().drained_all(purged * GRANULE + sheaves);
        purged
    }

    /// Drains all stacks and barns, ends empty slabs, and purges free pages. Returns true if
    /// memory went back to the system.
    pub fn trim(&self) -> bool {
        let Some(_slow_path) = self.slow_path(LOOK_CALLS) else {
            return false;
        };
        let purged = self.drain_all() > 0;
        if !self.platform().can_stop() {
            self.request_drains();
        }
        purged
    }

    /// Where the platform cannot stop other CPUs: requests a drain of each row. The next free of
    /// each thread takes the slow path, which sees the request.
    pub(crate) fn request_drains(&self) {
        self.drain_requests.fetch_add(1, Ordering::Relaxed);
        self.ask_all();
    }

    /// In a slow path: drains the caller's row if a drain was requested since its last.
    pub(crate) fn answer_drain(&self) {
        let requests = u64::from(self.drain_requests.load(Ordering::Relaxed));
        if requests == 0 {
            return;
        }
        // No cache uses slot 0: its word holds the last request that the row answered.
        let Some(row) = self.platform().row_hint() else {
            return;
        };
        if self.seen.get(row, Slot(0)).swap(requests, Ordering::Relaxed) != requests {
            self.drain_row();
        }
    }

    /// Drains the caller's row. The runs of the slabs that end go to the buddy at last.
    fn drain_row(&self) {
        let _guard = self.drain.lock(self.platform());
        self.drain_own_stacks(Stacks::Caches);
        self.drain_own_stacks(Stacks::Runs);
    }

    /// Returns to the slabs what rows without an owner hold: the private slots of threads that
    /// do not exist in the child of a fork.
    pub fn adopt_rows(&self, rows: impl Iterator<Item = usize>) {
        let Some(_slow_path) = self.slow_path(LOOK_CALLS) else { return };
        let _guard = self.drain.lock(self.platform());
        for row in rows {
            let mut next = 0;
            while let Some(slot) = self.next_stack(Stacks::All, next) {
                self.take_stack(row, slot);
                next = slot.0 + 1;
            }
        }
    }

    /// Takes a stack as it stands out of an entry that no other thread uses, and returns its
    /// objects to the slabs. Called with the drain lock held.
    pub(crate) fn take_stack(&self, row: usize, slot: Slot) {
        let p = self.platform();
        let Ok(stack) = p.rows().entry(row, slot).replace(Stack::NONE) else {
            return;
        };
        if let Some(stack) = self.heap.sheaves.adopt(stack) {
            self.heap.sheaves.give(p, self.flush_stack(slot, stack));
        }
    }

    /// Drains the calling thread's own row: for a thread that ends with a
    /// private slot.
    pub fn drain_thread(&self) {
        let Some(_slow_path) = self.slow_path(LOOK_CALLS) else { return };
        self.drain_row();
    }
}
