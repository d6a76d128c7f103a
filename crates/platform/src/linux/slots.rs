//! Private slots: rows that belong to one thread each, for processes without restartable sequences.
//!
//! A thread has one slot, whatever the number of yards: the slot selects the same row in each. So
//! the slots belong to the process.
//!
//! Neighbour: [`super::own_slot`] takes and frees them.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Rows kept for private slots; further threads take slow paths only. Fewer where address
/// space is limited: a page of a row may take this part of it.
const MAX_SLOTS: usize = 256;
const SLOTS_PART: usize = 256;

/// The slots of all threads.
struct Slots {
    /// As many as the first yard has rows for: 0 before it is made.
    most: AtomicUsize,
    /// All slots below this number were given out at least once.
    given: AtomicUsize,
    /// Those in use, one bit each.
    used: [AtomicU64; MAX_SLOTS / 64],
}

static SLOTS: Slots = Slots {
    most: AtomicUsize::new(0),
    given: AtomicUsize::new(0),
    used: [const { AtomicU64::new(0) }; MAX_SLOTS / 64],
};

/// Rows that a yard needs for private slots, where address space has this limit: all have as
/// many as the first.
pub(super) fn nr_rows(limit: Option<usize>, page_bytes: usize) -> usize {
    let limit = limit.unwrap_or(usize::MAX);
    let wanted = (limit / SLOTS_PART / page_bytes).clamp(1, MAX_SLOTS);
    match SLOTS.most.compare_exchange(0, wanted, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => wanted,
        Err(most) => most,
    }
}

/// Slots given out until now.
pub(super) fn given() -> usize {
    SLOTS.given.load(Ordering::Relaxed)
}

/// Frees the slot of a thread that is gone.
pub(super) fn free(slot: usize) {
    if let Some(word) = SLOTS.used.get(slot / 64) {
        // Release: the next owner's Acquire sees the row as it was left.
        word.fetch_and(!(1 << (slot % 64)), Ordering::Release);
    }
}

/// Takes a free slot.
pub(super) fn take() -> Option<u32> {
    for (i, word) in SLOTS.used.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != u64::MAX {
            let bit = bits.trailing_ones();
            if i * 64 + bit as usize >= SLOTS.most.load(Ordering::Relaxed) {
                return None;
            }
            // Acquire pairs with the Release in `free`.
            match word.compare_exchange_weak(
                bits,
                bits | 1 << bit,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    let slot = i as u32 * 64 + bit;
                    SLOTS.given.fetch_max(slot as usize + 1, Ordering::Relaxed);
                    return Some(slot);
                }
                Err(seen) => bits = seen,
            }
        }
    }
    None
}
