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
    /// The spare serves allocations; the main sheaf takes at most `step` frees
    /// until the next slow path.
    On {
        /// Frees until the next slow path.
        step: u32,
    },
}

impl Beat {
    /// Capacity for a main sheaf that holds `len` objects.
    pub(super) fn capacity(self, len: u32, capacity: u32) -> u32 {
        match self {
            Beat::Off => capacity,
            Beat::On { step } => capacity.min(len + step),
        }
    }
}

impl Cache {
    /// Allocates an object: its address; `None` if there is no memory.
    pub fn alloc_slow<P: Platform>(&self, g: &Ground<P>, beat: Beat) -> Option<usize> {
        self.visit();
        let shape = self.shape();
        let (from, other) = match beat {
            Beat::Off => (shape.main(), shape.spare()),
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
            let capacity = beat.capacity(sheaf.len(), self.shape().sheaf_capacity);
            self.check_in(g, slot, sheaf, capacity);
        }
    }

    /// A sheaf with objects in place of an empty one (or none).
    fn fill<P: Platform>(
        &self,
        g: &Ground<P>,
        empty: Option<Sheaf>,
        other: Slot,
        beat: Beat,
    ) -> Option<Sheaf> {
        let want = self.shape().sheaf_capacity;
        let mut empty = empty;
        match self.check_out(g, other).ok().flatten() {
            Some(mut sheaf) if !sheaf.is_empty() => {
                if beat != Beat::Off && sheaf.len() < want / 4 {
                    // Few objects go round: without more, each call would be slow.
                    self.refill(g, &mut sheaf, want / 2);
                }
                if let Some(empty) = empty {
                    self.check_in_as(g, other, empty, beat);
                }
                return Some(sheaf);
            }
            Some(second) => match empty {
                None => empty = Some(second),
                Some(_) => self.check_in_as(g, other, second, beat),
            },
            None => {}
        }
        if let Some(full) = self.barn_take_full(g) {
            if let Some(empty) = empty {
                self.barn_put_empty(g, empty);
            }
            return Some(full);
        }
        let mut sheaf = empty.or_else(|| self.barn_take_empty(g))?;
        if self.refill(g, &mut sheaf, want) {
            return Some(sheaf);
        }
        self.barn_put_empty(g, sheaf);
        None
    }

    /// One object from the slabs, past the sheaves: for a CPU whose stack is
    /// stopped and a thread that has no row.
    pub fn alloc_direct<P: Platform>(&self, g: &Ground<P>) -> Option<usize> {
        let mut one = [0usize; 1];
        (self.take_objects(g, &mut one) == 1).then_some(one[0])
    }
}
