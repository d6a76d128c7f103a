//! The slow path of an allocation. Called when the fast path found this CPU's
//! stack empty or stopped.
//!
//! Normally the main sheaf serves both ways. While pages wait to go back (the
//! heartbeat, `yard`), allocations are served from the spare sheaf and frees go
//! to the main one, so that even a loop of one allocation and one free comes by
//! here once in a sheaf.

use super::Cache;
use crate::page::{Ground, Sheaf};
use crate::platform::{Platform, Slot};

/// Which sheaf serves allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The main sheaf serves allocations and takes frees.
    Off,
    /// The spare serves allocations; of `step` frees to the main sheaf, one takes the
    /// slow path.
    On {
        /// Frees from one slow path to the next; with 1, allocations take it too.
        step: u32,
    },
}

impl Beat {
    /// Capacity for a main sheaf that holds `len` objects.
    pub(super) fn capacity(self, len: u32, capacity: u32) -> u32 {
        match self {
            Beat::Off => capacity,
            Beat::On { step } => capacity.min(len + step.saturating_sub(1)),
        }
    }

    /// Room that a spare has at least which is to become the main sheaf. During the
    /// heartbeat it lost as many objects as the main one got: with less room than for a
    /// step, the two would change places more and more often until both are full.
    pub(super) fn least_room(self, capacity: u32) -> u32 {
        match self {
            Beat::Off => 1,
            Beat::On { step } => step.min(capacity.div_ceil(2)),
        }
    }
}

/// Objects that a cache of few slabs puts into a sheaf.
const FIRST_OBJECTS: u32 = 64;

impl Cache {
    /// Allocates an object: its address; `None` if there is no memory.
    pub fn alloc_slow<P: Platform>(&self, g: &Ground<P>, beat: Beat) -> Option<usize> {
        let _moving = self.moving();
        let shape = self.shape();
        let (from, other) = match beat {
            // With a step of one, the spare stays empty: allocations come by too.
            Beat::Off | Beat::On { step: 1 } => (shape.main(), shape.spare()),
            Beat::On { .. } => (shape.spare(), shape.main()),
        };
        let Ok(first) = self.check_out(g, from) else {
            return self.alloc_direct(g);
        };
        let full = match first {
            // The thread moved to another CPU, or a push came between.
            Some(sheaf) if !sheaf.is_empty() => Some(sheaf),
            first => self.fill(g, first, other, beat),
        };
        let mut full = full?;
        let object = g.sheaves.pop(&mut full);
        self.check_in_as(g, from, full, beat);
        object
    }

    fn check_in_as<P: Platform>(&self, g: &Ground<P>, slot: Slot, sheaf: Sheaf, beat: Beat) {
        if slot == self.shape().spare() {
            self.check_in_spare(g, sheaf);
        } else {
            let capacity = beat.capacity(sheaf.len(), self.sheaf_capacity());
            self.check_in(g, slot, sheaf, capacity);
        }
    }

    /// A sheaf with objects in place of an empty one (or none): this CPU's other
    /// one, else one from the barn, else half filled from slabs. Half, because
    /// frees come too: a full one would have to be put away with the next of them.
    /// Fewer in a cache of few slabs: most caches of a small process stay so, and the
    /// places of each sheaf would be two pages.
    fn fill<P: Platform>(
        &self,
        g: &Ground<P>,
        empty: Option<Sheaf>,
        other: Slot,
        beat: Beat,
    ) -> Option<Sheaf> {
        let half = self.sheaf_capacity().div_ceil(2);
        let want = if self.is_busy() { half } else { half.min(FIRST_OBJECTS) };
        if self.peek(g, other).is_some_and(|n| n > 0) {
            match self.check_out(g, other).ok().flatten() {
                Some(mut sheaf) if !sheaf.is_empty() => {
                    if beat != Beat::Off && sheaf.len() < want / 2 {
                        // Few objects go round: without more, each call would be slow.
                        self.refill(g, &mut sheaf, want);
                    }
                    if let Some(empty) = empty {
                        self.check_in_as(g, other, empty, beat);
                    }
                    return Some(sheaf);
                }
                Some(second) => self.check_in_as(g, other, second, beat),
                None => {}
            }
        }
        let empty = empty.or_else(|| self.barn_take_empty(g))?;
        let mut empty = match self.barn_swap(g, empty) {
            Ok(full) => return Some(full),
            Err(empty) => empty,
        };
        if self.refill(g, &mut empty, want) {
            self.took_out(g, empty.len());
            return Some(empty);
        }
        self.barn_put_empty(g, empty);
        None
    }

    /// One object from the slabs, past the sheaves: for a CPU whose stack is
    /// stopped and a thread that has no row.
    pub fn alloc_direct<P: Platform>(&self, g: &Ground<P>) -> Option<usize> {
        let mut one = None;
        self.take_objects(g, 1, |address| one = Some(address));
        one
    }
}
