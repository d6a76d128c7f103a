//! Private slots: rows that belong to a thread each, where there are no restartable sequences.
//!
//! Neighbour: [`super`] gives a thread its slot at its first slow path.

use super::{Mode, OnLinux};
use crate::platform::rseq::{self, flags};
use crate::sync::Ordering;

impl<const COUNTS: bool> OnLinux<COUNTS> {
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
        (0..self.slots_given.load(Ordering::Relaxed)).filter(move |slot| is_slots && *slot != mine)
    }

    /// Frees the slot `slot` of a thread that is gone.
    pub fn free_slot(&self, slot: usize) {
        if let Some(word) = self.slots.get(slot / 64) {
            // Release: the next owner's Acquire sees the row as it was left.
            word.fetch_and(!(1 << (slot % 64)), Ordering::Release);
        }
    }

    pub(super) fn take_slot(&self) -> Option<u32> {
        for (i, word) in self.slots.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != u64::MAX {
                let bit = bits.trailing_ones();
                if i * 64 + bit as usize >= self.rows.len() {
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
                        self.slots_given.fetch_max(slot as usize + 1, Ordering::Relaxed);
                        return Some(slot);
                    }
                    Err(seen) => bits = seen,
                }
            }
        }
        None
    }
}
