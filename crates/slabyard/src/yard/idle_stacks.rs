//! One word per stack of each row: the top that the last pass read, and for how many passes it has
//! stayed the same. While a stack is stopped, the word holds its top: the child of a fork finds it
//! there, although the thread that stopped the stack is gone. Slot 0 has no stack; its word holds
//! the last drain request that the row has served.
//!
//! Neighbours: [`crate::reclaim::pass`] and [`crate::observe`] write the words, under the drain
//! lock. Invariant: a row's words lie together, so that rows without stacks need no memory. Those of
//! created caches' slots are in a separate table, which most processes do not reserve, in blocks of
//! slots: those without a cache need none.

use crate::cache::classes::CLASSES;
use crate::cache::slots::slot_of;
use crate::platform::stack::SLOTS;
use crate::platform::{Platform, Slot};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::table::Table;

/// Slots of the lists of runs and of malloc's classes, and those in front of them.
const FIRST_SLOTS: usize = slot_of(CLASSES).0 as usize;

/// Created caches' slots of a block, whose words of one row lie together: four lines.
const BLOCK: usize = 32;

/// In a word: the rest is the top of a stopped stack.
const KEPT: u64 = 1 << 63;

/// A word for each entry of each row.
pub(crate) struct IdleStacks {
    rows: AtomicUsize,
    first: Table<AtomicU64>,
    created: Table<AtomicU64>,
}

impl IdleStacks {
    pub(crate) const fn new() -> Self {
        IdleStacks { rows: AtomicUsize::new(0), first: Table::new(), created: Table::new() }
    }

    /// Makes the words of the first slots. False without memory.
    pub(crate) fn init<P: Platform>(&self, p: &P) -> bool {
        let rows = p.rows().len();
        self.rows.store(rows, Ordering::Relaxed);
        self.first.reserve(p, FIRST_SLOTS * rows) && self.first.ensure(p, FIRST_SLOTS * rows)
    }

    /// Makes the words of a created cache's slots, up to its last one. False without memory.
    /// Called with the drain lock held.
    pub(crate) fn ensure<P: Platform>(&self, p: &P, last: Slot) -> bool {
        let rows = self.rows.load(Ordering::Relaxed);
        (self.created.is_reserved()
            || self.created.reserve(p, (SLOTS - FIRST_SLOTS).next_multiple_of(BLOCK) * rows))
            && self
                .created
                .ensure(p, (usize::from(last.0) + 1 - FIRST_SLOTS).next_multiple_of(BLOCK) * rows)
    }

    /// The word of an entry. Not inlined, as the text of the preload library has a limit.
    #[inline(never)]
    pub(crate) fn get(&self, row: usize, slot: Slot) -> &AtomicU64 {
        let (slot, rows) = (usize::from(slot.0), self.rows.load(Ordering::Relaxed));
        match slot.checked_sub(FIRST_SLOTS) {
            None => self.first.get(row * FIRST_SLOTS + slot),
            Some(slot) => self.created.get((slot / BLOCK * rows + row) * BLOCK + slot % BLOCK),
        }
    }

    /// Keeps the top that a stack had as it was marked as stopped; of `None` nothing is known.
    pub(crate) fn keep_top(&self, row: usize, slot: Slot, top: Option<u32>) {
        let word = top.map_or(0, |top| KEPT | u64::from(top));
        self.get(row, slot).store(word, Ordering::Relaxed);
    }

    /// Nothing is known of an entry's top.
    pub(crate) fn forget_top(&self, row: usize, slot: Slot) {
        self.keep_top(row, slot, None);
    }

    /// The top that was kept, if one is.
    pub(crate) fn kept_top(&self, row: usize, slot: Slot) -> Option<u32> {
        let word = self.get(row, slot).load(Ordering::Relaxed);
        (word & KEPT != 0).then_some(word as u32)
    }

    pub(crate) fn committed_bytes(&self) -> usize {
        self.first.committed_bytes() + self.created.committed_bytes()
    }

    /// Addresses of the numbers of bytes committed.
    pub(crate) fn committed_at(&self) -> [usize; 2] {
        [self.first.committed_at(), self.created.committed_at()]
    }
}
