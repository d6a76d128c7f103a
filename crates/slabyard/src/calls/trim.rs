//! Calls that drain: a trim; the exit of a thread with a private slot; the drain of rows that a
//! fork left behind; and the drain of everything when the kernel refuses a page.
//!
//! Neighbour: [`crate::reclaim::drain`] drains the stacks.

use crate::engine::Engine;
use crate::platform::Platform;
use crate::reclaim::drain::{
    drain_own_row, drain_stacks, give_back, request_drains, shrink_caches, take_stack,
};
use crate::reclaim::walk::{Stacks, next_stack};
use crate::slow_path::enter_slow_path;
use crate::sync::Ordering;
use crate::waiting::look_at_waiting;
use crate::yard::Yard;
use crate::yard::depth::LOOK_CALLS;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Drains all stacks and barns, ends empty slabs, and purges free pages. Returns true if
    /// memory went back to the kernel.
    pub fn trim(&self) -> bool {
        let Some(_slow_path) = enter_slow_path(self, LOOK_CALLS) else {
            return false;
        };
        let purged = drain_all(self) > 0;
        if !self.platform().can_stop() {
            request_drains(self);
        }
        purged
    }
}

/// Returns to the slabs what rows without an owner hold: the private slots of threads that
/// do not exist in the child of a fork.
pub fn adopt_rows<P: Platform, E: Engine>(yard: &Yard<P, E>, rows: impl Iterator<Item = usize>) {
    let Some(_slow_path) = enter_slow_path(yard, LOOK_CALLS) else { return };
    let _guard = yard.drain.lock(yard.platform());
    for row in rows {
        let mut next = 0;
        while let Some(slot) = next_stack(yard, Stacks::All, next) {
            take_stack(yard, row, slot);
            next = slot.0 + 1;
        }
    }
}

/// Drains the calling thread's own row: for a thread that ends with a private slot.
pub fn drain_thread<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let Some(_slow_path) = enter_slow_path(yard, LOOK_CALLS) else { return };
    let _guard = yard.drain.lock(yard.platform());
    drain_own_row(yard);
}

/// Drains all stacks and barns and purges all free pages, because the kernel refused a
/// page. Returns the bytes of pages that went back. The caller is inside a slow path.
pub(crate) fn drain_all<P: Platform, E: Engine>(yard: &Yard<P, E>) -> usize {
    let _guard = yard.drain.lock(yard.platform());
    let cleaned = yard.heap.cleaned.load(Ordering::Relaxed);
    drain_stacks(yard, Stacks::All);
    shrink_caches(yard, Stacks::All);
    look_at_waiting(yard);
    let [pages, sheaves] = give_back(yard, cleaned);
    yard.platform().drained_all(pages + sheaves);
    pages
}
