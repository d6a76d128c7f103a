//! Reclaim of a cache with sheaves: flushes full sheaves that stay unused in the barn, and discards
//! the empty slabs of idle caches.
//!
//! Neighbours: the yard's reclaim pass calls this; [`crate::engine::flush`] flushes. The caller
//! holds the drain lock.

use super::NodeSheaves;
use crate::engine::slabs::{Held, Stacks};
use crate::engine::{Found, Moving, partial};
use crate::platform::Slot;

impl<C> NodeSheaves<C> {
    /// Flushes a piece of an unused sheaf, else ends some empty slabs of an idle cache; true
    /// if it did either.
    pub fn reclaim_piece<S: Stacks<Chain = C>>(
        &self,
        on: S,
        found: &mut Option<Found>,
        most: u32,
    ) -> bool {
        let mut left = found.take().unwrap_or_else(|| self.look(on));
        if left.unused > 0 {
            let flushed = self.flush_piece(on, most);
            left.unused = left.unused.saturating_sub(flushed);
            if flushed > 0 {
                *found = Some(left);
                return true;
            }
        }
        left.idle && self.end_empties(on)
    }

    /// Ends some empty slabs, and gives the barn's empty sheaves away. False if there were none.
    pub(super) fn end_empties<S: Stacks<Chain = C>>(&self, on: S) -> bool {
        self.barn_forget_empty(on);
        partial::discard_some_empty(on) > 0
    }

    /// What a pass has to do.
    pub fn look<S: Stacks<Chain = C>>(&self, on: S) -> Found {
        self.find(on, on.cache().is_idle())
    }

    /// As [`NodeSheaves::look`], where the cache is known to be idle or not.
    pub(super) fn find<S: Stacks<Chain = C>>(&self, on: S, idle: bool) -> Found {
        let unused = self.barn_unused(on) * on.cache().sheaf_capacity();
        Found { unused, idle, node: 0 }
    }

    /// Flushes one of this CPU's own stacks.
    pub fn flush_stack<S: Stacks<Chain = C>>(&self, on: S, slot: Slot) {
        let _moving = Moving::aside(on);
        if let Ok(Some(mut sheaf)) = on.check_out(slot) {
            self.flush(on, &mut sheaf, u32::MAX);
            self.barn_put_empty(on, sheaf);
        }
    }

    /// Returns all that is parked in the barn to the slabs, and ends the empty ones.
    pub fn shrink_node<S: Stacks<Chain = C>>(&self, on: S) {
        self.flush_barn_above(on, 0);
        self.barn_forget_empty(on);
        partial::discard_all_empty(on);
    }

    /// Flushes full sheaves of the barn until this many are left.
    pub fn flush_barn_above<S: Stacks<Chain = C>>(&self, on: S, sheaves: u32) {
        while self.nr_full(on) > sheaves && self.flush_piece(on, u32::MAX) > 0 {}
    }

    /// Flushes a full sheaf of the barn, or as much of it as this many slab operations return
    /// to slabs; returns how many objects.
    pub(super) fn flush_piece<S: Stacks<Chain = C>>(&self, on: S, most: u32) -> u32 {
        let _moving = Moving::aside(on);
        let Some(mut sheaf) = self.barn_take_full(on) else {
            return 0;
        };
        let flushed = self.flush(on, &mut sheaf, most);
        if sheaf.is_empty() {
            self.barn_put_empty(on, sheaf);
        } else {
            self.barn_put_rest(on, sheaf);
        }
        flushed
    }
}
