//! A CPU's main and spare sheaf: taken out of their entries whole, worked on in
//! private, put back whole.
//!
//! While a sheaf is out, its entry is empty and full at once: another thread on
//! the CPU takes the slow path too, and may have put a sheaf there before we
//! come back. The one that is found then is surplus.

use super::Cache;
use crate::pages::{PageHeap, Sheaf};
use crate::platform::{Platform, Slot, Stack, Stopped};

impl Cache {
    /// Takes the sheaf out of this CPU's entry.
    pub(super) fn check_out<P: Platform>(
        &self,
        g: &PageHeap<P>,
        slot: Slot,
    ) -> Result<Option<Sheaf>, Stopped> {
        let stack = g.platform.exchange(slot, Stack::NONE)?;
        Ok(g.sheaves.adopt(stack))
    }

    /// Objects in this CPU's sheaf, as it looks without taking it out; `None` if
    /// there is no sheaf. The thread may move: a hint.
    pub(super) fn peek<P: Platform>(&self, g: &PageHeap<P>, slot: Slot) -> Option<u32> {
        g.sheaves.count_of(g.platform.rows().entry(g.platform.row_hint()?, slot).top())
    }

    /// Puts a sheaf into this CPU's entry, with room for pushes up to `capacity`.
    pub(super) fn check_in<P: Platform>(
        &self,
        g: &PageHeap<P>,
        slot: Slot,
        sheaf: Sheaf,
        capacity: u32,
    ) {
        let new = g.sheaves.publish(sheaf, capacity);
        let surplus = match g.platform.exchange(slot, new) {
            Ok(old) => g.sheaves.adopt(old),
            // Stopped: nobody has seen the new one, it is ours again.
            Err(Stopped) => g.sheaves.adopt(new),
        };
        if let Some(sheaf) = surplus {
            self.put_away(g, sheaf);
        }
    }

    /// Puts the spare sheaf into its entry.
    pub(super) fn check_in_spare<P: Platform>(&self, g: &PageHeap<P>, sheaf: Sheaf) {
        // Nobody pushes to a spare: its capacity is 0.
        self.check_in(g, self.shape().spare(), sheaf, 0);
    }

    /// Puts a surplus sheaf into the barn.
    #[cold]
    pub(super) fn put_away<P: Platform>(&self, g: &PageHeap<P>, sheaf: Sheaf) {
        if sheaf.is_empty() {
            self.barn_put_empty(g, sheaf);
        } else {
            self.barn_keep(g, sheaf);
        }
    }
}
