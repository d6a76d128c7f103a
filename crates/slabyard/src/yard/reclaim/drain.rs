//! Whole drains, for who asked for one: everything parked goes home at once.
//!
//! These are exempt from the bound on one call ([`crate::yard::bound`]): a trim, a request
//! from outside, a page that the system refused, the end of a thread with a private
//! slot, and what a fork left behind.
//!
//! Neighbour: [`super::pass`] does the same step by step, unasked.

use crate::cache::classes;
use crate::pages::percpu;
use crate::platform::stack::SLOTS;
use crate::platform::{Platform, Slot, Stack};
use crate::sync::Ordering;
use crate::yard::Yard;
use crate::yard::slow_path::LOOK_CALLS;

/// Stacks stopped at once: one fence for all.
pub(in crate::yard) const BATCH: usize = 64;

/// Row, slot and top of stacks to stop.
pub(in crate::yard) type Stops = [(usize, Slot, u32); BATCH];

impl<P: Platform> Yard<P> {
    /// Drains the stacks in slots that `wanted` says yes to: of all rows, or where nobody
    /// can be stopped of the caller's. Drain lock held.
    pub(in crate::yard) fn drain_where(&self, wanted: impl Fn(Slot) -> bool) {
        if !(self.platform().can_stop() && self.drain_rows(&wanted)) {
            self.drain_own_where(wanted);
        }
    }

    /// False if the system refused to stop them: some may be as they were.
    fn drain_rows(&self, wanted: impl Fn(Slot) -> bool) -> bool {
        let p = self.platform();
        let mut stops: Stops = [(0, Slot(0), 0); BATCH];
        let mut n = 0;
        for row in 0..p.rows().len() {
            if !p.row_used(row) {
                continue;
            }
            for slot in (1..SLOTS as u16).map(Slot).filter(|slot| wanted(*slot)) {
                if self.heap.sheaves.count_of(p.rows().entry(row, slot).top()).is_none() {
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
        }
        self.drain_stops(&mut stops[..n])
    }

    fn drain_own_where(&self, wanted: impl Fn(Slot) -> bool) {
        (1..SLOTS as u16).map(Slot).filter(|slot| wanted(*slot)).for_each(|s| self.drain_own(s));
    }

    /// Stops these stacks, brings their objects home, and takes them away. False if they
    /// cannot be stopped.
    fn drain_stops(&self, stops: &mut [(usize, Slot, u32)]) -> bool {
        if stops.is_empty() {
            return true;
        }
        if !self.platform().stop(stops) {
            return false;
        }
        for &(row, slot, top) in &*stops {
            self.flush_stopped(row, slot, top);
        }
        true
    }

    /// Brings the objects of a stopped stack home, and takes it away.
    pub(in crate::yard) fn flush_stopped(&self, row: usize, slot: Slot, top: u32) {
        let (p, sheaves) = (self.platform(), &self.heap.sheaves);
        if let Some(class) = classes::class_of(slot) {
            self.caches[class].drain_stopped(&self.heap, top);
        } else if percpu::order_of(slot).is_some() {
            for run in sheaves.objects_of(top) {
                self.heap.free_parked_run(run.load(Ordering::Relaxed));
            }
        }
        p.rows().entry(row, slot).start_without();
        sheaves.give_stopped(p, top);
    }

    /// Drains a stack of the calling thread's own row.
    pub(in crate::yard) fn drain_own(&self, slot: Slot) {
        if let Some(class) = classes::class_of(slot) {
            self.caches[class].drain_own_slot(&self.heap, slot);
        } else if percpu::order_of(slot).is_some() {
            while let Some(address) = self.platform().pop(slot) {
                self.heap.free_parked_run(address);
            }
        }
    }

    /// Everything parked goes home and all free pages go back: for a refused
    /// page. Returns the granules given back. The caller is inside a slow path.
    pub(in crate::yard) fn drain_all(&self) -> usize {
        let _guard = self.drain.lock(self.platform());
        self.drain_where(|_| true);
        for cache in &self.caches {
            cache.shrink_node(&self.heap);
        }
        // Ended slabs went to this CPU's lists of runs.
        self.drain_where(|_| true);
        let went = self.heap.purge(0, usize::MAX);
        self.heap.release_metadata();
        self.heap.sheaves.rest(self.platform());
        went
    }

    /// Everything parked goes home, empty slabs end, free pages go back. Returns
    /// true if memory went back to the system.
    pub fn trim(&self) -> bool {
        let Some(_slow_path) = self.slow_path(LOOK_CALLS) else {
            return false;
        };
        let went = self.drain_all() > 0;
        if !self.platform().can_stop() {
            self.ask_others();
        }
        went
    }

    /// Where nobody can be stopped: the next free of each thread takes the slow
    /// path, and sees that a drain is wanted.
    pub(in crate::yard) fn ask_others(&self) {
        self.wanted_drains.fetch_add(1, Ordering::Relaxed);
        self.ask_all();
    }

    /// In a slow path, where nobody can be stopped: does the drain that was asked for.
    pub(in crate::yard) fn answer_drain(&self) {
        let wanted = u64::from(self.wanted_drains.load(Ordering::Relaxed));
        if wanted == 0 {
            return;
        }
        // The word of slot 0, which is nobody's, holds the last drain answered.
        let Some(row) = self.platform().row_hint() else {
            return;
        };
        if self.seen.get(row * SLOTS).swap(wanted, Ordering::Relaxed) != wanted {
            self.drain_row();
        }
    }

    fn drain_row(&self) {
        for class in 0..classes::CLASSES {
            self.caches[class].drain_own(&self.heap);
        }
        for order in 0..percpu::LISTED_ORDERS {
            self.drain_own(Slot(percpu::FIRST_SLOT + order as u16));
        }
    }

    /// Brings home what rows hold whose owners are gone: private slots of threads
    /// that a fork left behind.
    pub fn adopt_rows(&self, rows: impl Iterator<Item = usize>) {
        let Some(_slow_path) = self.slow_path(LOOK_CALLS) else { return };
        let p = self.platform();
        for row in rows {
            for slot in (1..SLOTS as u16).map(Slot) {
                let entry = p.rows().entry(row, slot);
                let Ok(stack) = entry.replace(Stack::NONE) else {
                    continue;
                };
                let Some(mut sheaf) = self.heap.sheaves.adopt(stack) else {
                    continue;
                };
                let class = classes::class_of(slot);
                let _moving = class.map(|class| self.caches[class].moving());
                while let Some(address) = self.heap.sheaves.pop(&mut sheaf) {
                    match class {
                        Some(class) => self.caches[class].free_direct(&self.heap, address),
                        None => self.heap.free_parked_run(address),
                    }
                }
                self.heap.sheaves.give(p, sheaf);
            }
        }
    }

    /// Drains the calling thread's own row: for a thread that ends with a
    /// private slot.
    pub fn drain_thread(&self) {
        let Some(_slow_path) = self.slow_path(LOOK_CALLS) else { return };
        self.drain_row();
    }
}
