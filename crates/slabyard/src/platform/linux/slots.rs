//! Private slots: rows that belong to a thread each, where there are no restartable sequences.
//!
//! A slot is a thread's, as its block is, whatever the number of yards: it is the same row of
//! each. So the slots are of the process.
//!
//! Neighbour: [`super`] gives a thread its slot at its first slow path.

use super::{Counting, Mode, OnLinux};
use crate::platform::rseq::{self, flags};
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

impl<C: Counting> OnLinux<C> {
    /// Sets the function to call when a thread got a private slot.
    pub fn on_slot(&self, call: fn()) {
        self.on_slot.store(call as usize, Ordering::Relaxed);
    }

    /// Gives this thread's private slot back, whose row was drained if that was possible: the
    /// next owner has what is left. The thread takes slow paths from now on.
    pub fn give_slot_back(&self) {
        let thread = rseq::thread();
        if self.mode() != Mode::Slots {
            return;
        }
        let slot = thread.cpu_id.swap(u32::MAX, Ordering::Relaxed);
        thread.flags.fetch_or(flags::TRIED | flags::EXITED, Ordering::Relaxed);
        self.free_slot(slot as usize);
    }

    /// In the child of a fork: the slots of threads that do not exist there, or that ended
    /// during the fork and could not drain their rows. Their rows keep their objects until
    /// [`Yard::adopt_rows`](crate::yard::Yard::adopt_rows) drains them, which comes before
    /// [`OnLinux::free_slot`].
    pub fn foreign_slots(&self) -> impl Iterator<Item = usize> + '_ {
        let mine = rseq::thread().cpu_id.load(Ordering::Relaxed) as usize;
        let is_slots = self.mode() == Mode::Slots;
        (0..given()).filter(move |slot| is_slots && *slot != mine)
    }

    /// Frees the slot `slot` of a thread that is gone.
    pub fn free_slot(&self, slot: usize) {
        if let Some(word) = SLOTS.used.get(slot / 64) {
            // Release: the next owner's Acquire sees the row as it was left.
            word.fetch_and(!(1 << (slot % 64)), Ordering::Release);
        }
    }

    /// Frees those of [`OnLinux::foreign_slots`], whose rows were adopted.
    pub fn free_foreign_slots(&self) {
        self.foreign_slots().for_each(|slot| self.free_slot(slot));
    }

    pub(super) fn take_slot(&self) -> Option<u32> {
        for (i, word) in SLOTS.used.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != u64::MAX {
                let bit = bits.trailing_ones();
                if i * 64 + bit as usize >= SLOTS.most.load(Ordering::Relaxed) {
                    return None;
                }
                // Acquire pairs with the Release in `free_slot`.
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
}
