//! Read-side sections of threads that have no place, counted by locked instructions.
//!
//! Each section is counted in one of two counters, chosen by the last bit of the epoch in which it
//! began; a grace period increments the epoch and waits until the old epoch's counter is 0
//! (McKenney, "Sleepable read-copy update", LWN, 2006). New sections are counted in the new epoch's
//! counter, so they do not delay the grace period.
//!
//! ```text
//! thread's second word | yard:51 | nest:12 | parity:1 |     0: no such section
//! ```
//!
//! The word records the yard to which the thread's section belongs. If a thread in such a section
//! opens another in a second yard, where it has no place either, that section is counted in both
//! counters of the second yard: it may also delay grace periods that begin later.

use super::grace::EPOCH_SHIFT;
use super::readers::Rcu;
use crate::platform::Platform;
use crate::sync::{AtomicU64, Ordering, compiler_fence};

const PARITY: usize = 1;
const ONE: usize = 1 << 1;
const YARD_SHIFT: u32 = 13;
const NEST: usize = (1 << YARD_SHIFT) - ONE;

impl Rcu {
    /// The yard's number in a thread's word: an address has 57 bits, and the last six are as good
    /// as none.
    fn number(&self) -> usize {
        (core::ptr::from_ref(self) as usize >> 6) << YARD_SHIFT
    }

    fn is_mine(&self, word: usize) -> bool {
        word & NEST != 0 && word >> YARD_SHIFT == self.number() >> YARD_SHIFT
    }

    pub(super) fn is_in_slow_section<P: Platform>(&self, p: &P) -> bool {
        self.is_mine(p.thread().reader[1].load(Ordering::Relaxed))
    }

    pub(super) fn count_section<P: Platform>(&self, p: &P) {
        let own = &p.thread().reader[1];
        let word = own.load(Ordering::Relaxed);
        if self.is_mine(word) {
            debug_assert!(word & NEST != NEST, "sections nested too deep");
            own.store(word + ONE, Ordering::Relaxed);
            return;
        }
        if word & NEST != 0 {
            // SeqCst, here and below: before the section's loads, in one order with the raise of
            // the epoch and the look at the counters.
            self.slow.iter().for_each(|counter| _ = counter.fetch_add(1, Ordering::SeqCst));
            return;
        }
        let parity = loop {
            let epoch = self.epoch.load(Ordering::SeqCst) >> EPOCH_SHIFT;
            let parity = epoch as usize & PARITY;
            self.slow[parity].fetch_add(1, Ordering::SeqCst);
            p.step();
            // A grace period that did not see the count raised the epoch before.
            if self.epoch.load(Ordering::SeqCst) >> EPOCH_SHIFT == epoch {
                break parity;
            }
            self.slow[parity].fetch_sub(1, Ordering::SeqCst);
        };
        own.store(self.number() | ONE | parity, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    pub(super) fn uncount_section<P: Platform>(&self, p: &P) {
        let own = &p.thread().reader[1];
        let word = own.load(Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if !self.is_mine(word) {
            self.slow.iter().for_each(take_one);
        } else if word & NEST == ONE {
            own.store(0, Ordering::Relaxed);
            take_one(&self.slow[word & PARITY]);
        } else {
            own.store(word - ONE, Ordering::Relaxed);
        }
    }

    /// In the child of a fork: its one thread's sections alone are left.
    pub(super) fn forget_others_sections<P: Platform>(&self, p: &P) {
        let word = p.thread().reader[1].load(Ordering::Relaxed);
        for (parity, counter) in self.slow.iter().enumerate() {
            let mine = self.is_mine(word) && word & PARITY == parity;
            counter.store(mine.into(), Ordering::SeqCst);
        }
    }

    /// True if no section is counted of an epoch with this last bit.
    pub(super) fn is_uncounted(&self, epoch: u64) -> bool {
        self.slow[epoch as usize & PARITY].load(Ordering::SeqCst) == 0
    }
}

/// An end without a begin takes nothing.
fn take_one(counter: &AtomicU64) {
    let one_less = |count: u64| count.checked_sub(1);
    let taken = counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    debug_assert!(taken.is_ok(), "a section ends that was not opened");
}
