//! A CPU's main and spare sheaf: a slow path checks one out of its entry, works on it in
//! private, and checks it in.
//!
//! While a sheaf is checked out, its entry is empty and full at once: another thread on
//! the CPU takes the slow path too, and may check in a sheaf before we do. The sheaf that
//! we then find in the entry is surplus, and goes to the barn.

use super::Sheaves;
use crate::engine::PageSlabs;
use crate::pages::Sheaf;
use crate::platform::{Platform, Slot, Stack, Stopped};

impl Sheaves {
    /// Checks the sheaf out of this CPU's entry.
    pub(super) fn check_out<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        slot: Slot,
    ) -> Result<Option<Sheaf>, Stopped> {
        let stack = on.heap.platform.exchange(slot, Stack::NONE)?;
        Ok(on.heap.sheaves.adopt(stack))
    }

    /// Objects in this CPU's sheaf, without checking it out; `None` if there is no sheaf. A
    /// hint: the thread may move to another CPU.
    pub(super) fn peek<P: Platform>(&self, on: PageSlabs<'_, P>, slot: Slot) -> Option<u32> {
        on.heap
            .sheaves
            .count_of(on.heap.platform.rows().entry(on.heap.platform.row_hint()?, slot).top())
    }

    /// Checks a sheaf in to this CPU's entry, with room for pushes up to `capacity`.
    pub(super) fn check_in<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        slot: Slot,
        sheaf: Sheaf,
        capacity: u32,
    ) {
        let new = on.heap.sheaves.publish(sheaf, capacity);
        let surplus = match on.heap.platform.exchange(slot, new) {
            Ok(old) => on.heap.sheaves.adopt(old),
            // Stopped: no other thread has seen the new one, it is ours again.
            Err(Stopped) => on.heap.sheaves.adopt(new),
        };
        if let Some(sheaf) = surplus {
            self.put_away(on, sheaf);
        }
    }

    /// Checks the spare sheaf in to its entry.
    pub(super) fn check_in_spare<P: Platform>(&self, on: PageSlabs<'_, P>, sheaf: Sheaf) {
        // The fast path never pushes to a spare: its capacity is 0.
        self.check_in(on, on.cache.shape().spare(), sheaf, 0);
    }

    /// Puts a surplus sheaf into the barn.
    #[cold]
    pub(super) fn put_away<P: Platform>(&self, on: PageSlabs<'_, P>, sheaf: Sheaf) {
        if sheaf.is_empty() {
            self.barn_put_empty(on, sheaf);
        } else {
            self.barn_keep(on, sheaf);
        }
    }
}
