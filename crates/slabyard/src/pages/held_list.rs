//! The list of discarded slabs that wait for readers, linked through their descriptors, in the
//! order in which they were discarded.
//!
//! Neighbour: [`super::held`] adds and removes them.
//! Invariant: epochs never decrease from the head to the tail.

use super::descriptor::NIL;
use crate::sync::{AtomicUsize, Lock, Once, Ordering, Rank};

/// The slabs that wait.
pub struct HeldSlabs<H> {
    pub(super) list: Lock<HeldList>,
    pub(super) nr: AtomicUsize,
    /// Takes over slabs that end and must wait for readers: set with the first cache of such slabs,
    /// so that a yard without one has no code for it.
    pub(crate) on_ended: Once<H>,
}

/// The ends of their list.
pub(super) struct HeldList {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl<H: Copy> HeldSlabs<H> {
    pub(super) const fn new() -> Self {
        let list = HeldList { head: NIL, tail: NIL };
        HeldSlabs {
            list: Lock::new(Rank::Waiting, list),
            nr: AtomicUsize::new(0),
            on_ended: Once::new(),
        }
    }

    /// How many wait.
    #[inline(always)]
    pub(crate) fn nr(&self) -> usize {
        self.nr.load(Ordering::Relaxed)
    }
}
