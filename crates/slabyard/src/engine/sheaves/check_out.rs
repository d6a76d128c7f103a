//! A CPU's main and spare sheaf: a slow path checks one out of its stack, works on it in
//! private, and checks it in.
//!
//! While a sheaf is checked out, its entry looks both empty and full: another thread on the CPU
//! takes the slow path too, and may check in a sheaf first. The sheaf that the first thread then
//! finds in the entry is surplus, and moves to the barn.

use super::NodeSheaves;
use crate::engine::slabs::{Held, Stacks};
use crate::platform::{Slot, Stopped};

/// Objects, at most, that a full sheaf gives an empty one in exchange for its place. A program whose
/// use swings by fewer around the boundary of two sheaves then takes no slow path: 32 objects that
/// were allocated and freed again and again took two per swing.
const SWING: u32 = 128;

impl<C> NodeSheaves<C> {
    /// Checks this CPU's sheaf out; none if it has another node's objects, which go there.
    ///
    /// # Errors
    /// [`Stopped`] if the stack is stopped, or this thread has none.
    #[inline]
    pub(super) fn check_out<S: Stacks<Chain = C>>(
        on: S,
        slot: Slot,
    ) -> Result<Option<S::Sheaf>, Stopped> {
        Ok(on.check_out(slot)?.and_then(|sheaf| on.near(sheaf)))
    }

    /// Checks a sheaf in to this CPU's entry, with room for pushes up to `capacity`.
    pub(super) fn check_in<S: Stacks<Chain = C>>(
        &self,
        on: S,
        slot: Slot,
        sheaf: S::Sheaf,
        capacity: u32,
    ) {
        // Nothing is pushed to a spare, whose end lies below its objects.
        let tag = on.tag().filter(|_| slot == on.cache().shape().main());
        if let Some(surplus) = on.check_in(slot, sheaf, capacity, tag)
            && let Some(surplus) = on.near(surplus)
        {
            self.put_away(on, surplus);
        }
    }

    /// Checks the spare sheaf in to its entry.
    #[inline(always)]
    pub(super) fn check_in_spare<S: Stacks<Chain = C>>(&self, on: S, sheaf: S::Sheaf) {
        // The fast path never pushes to a spare: its capacity is 0.
        self.check_in(on, on.cache().shape().spare(), sheaf, 0);
    }

    /// Moves top objects of a full sheaf into an empty one, which is to be the main sheaf. False if
    /// none was moved.
    pub(super) fn divide<S: Stacks<Chain = C>>(
        on: S,
        full: &mut S::Sheaf,
        empty: &mut S::Sheaf,
    ) -> bool {
        if !on.rules().adapts || full.len() < on.cache().sheaf_capacity() {
            return false;
        }
        // A sheaf of one object cannot be divided.
        let nr = (full.len() / 2).min(SWING).min(on.room(empty));
        let first = (full.len() - nr) as usize;
        on.elements(full)[first..].iter().for_each(|element| on.push(empty, S::load(element)));
        on.shorten(full, nr);
        nr > 0
    }

    /// Puts a surplus sheaf into the barn.
    #[cold]
    pub(super) fn put_away<S: Stacks<Chain = C>>(&self, on: S, sheaf: S::Sheaf) {
        if sheaf.is_empty() {
            self.barn_put_empty(on, sheaf);
        } else {
            self.barn_keep(on, sheaf);
        }
    }
}
