//! What the yard remembers of each entry of each row: the top that the last pass read, and for
//! how many passes it has been the same. While the yard is quiesced, the top of the stopped
//! stack. In place of slot 0, which has no stack: the last drain that the row answered.
//!
//! Neighbours: [`super::reclaim::pass`] and [`super::quiesce`] write it; each under the drain
//! lock.
//! Invariant: a slot's words follow those of the slot before it, so that slots without a cache
//! need no memory.

use crate::cache::classes::{self, CLASSES};
use crate::pages::table::Table;
use crate::platform::{Platform, Slot};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Slots of the lists of runs and of malloc's classes, and those in front of them.
const FIRST_SLOTS: usize = classes::slot_of(CLASSES).0 as usize;

/// A word for each entry of each row.
pub(super) struct Seen {
    rows: AtomicUsize,
    words: Table<AtomicU64>,
}

impl Seen {
    pub(super) const fn new() -> Self {
        Seen { rows: AtomicUsize::new(0), words: Table::new() }
    }

    /// Makes the words. False without memory.
    pub(super) fn init<P: Platform>(&self, p: &P) -> bool {
        let rows = p.rows().len();
        self.rows.store(rows, Ordering::Relaxed);
        self.words.reserve(p, FIRST_SLOTS * rows) && self.words.ensure(p, FIRST_SLOTS * rows)
    }

    /// The word of an entry.
    #[inline]
    pub(super) fn get(&self, row: usize, slot: Slot) -> &AtomicU64 {
        self.words.get(usize::from(slot.0) * self.rows.load(Ordering::Relaxed) + row)
    }

    pub(super) fn committed_bytes(&self) -> usize {
        self.words.committed_bytes()
    }

    /// Address of the number of bytes committed.
    pub(super) fn committed_at(&self) -> usize {
        self.words.committed_at()
    }
}
