//! How many frees a CPU's row has left until its next slow path.
//!
//! A program may go on without a slow path: one allocation and one free in a loop. So
//! each row counts its frees down ([`crate::platform::stack::Rows::countdown`]), and who
//! finds none left takes the slow path, for the clock: its sheaf is left as it is. During
//! the reclaim ticker a row is granted a step of them at a time, else as many as are counted.
//!
//! Neighbours: [`crate::yard::slow_path`] grants, whoever comes by, and asks again if the reclaim ticker
//! changed since it did; [`super::ticker`] sets the step.
//! Invariant: the word is a hint. It is changed without a lock, and a store may be lost;
//! who must be heard asks the stacks ([`crate::platform::Entry::ask`]).

use super::rate::LONGEST_INTERVAL;
use crate::platform::Platform;
use crate::sync::{AtomicU32, Ordering};
use crate::yard::Yard;

fn left(word: &AtomicU32) -> i32 {
    word.load(Ordering::Relaxed).cast_signed()
}

impl<P: Platform> Yard<P> {
    /// True if this CPU's row has no free left until the next slow path.
    #[inline]
    pub(in crate::yard) fn is_countdown_over(&self) -> bool {
        let p = self.platform();
        p.row_hint().is_some_and(|row| left(p.rows().countdown(row)) < 0)
    }

    /// In a slow path: this CPU's row has a step of frees until the next, or, without a
    /// reclaim ticker, as many as are counted. The longest step is granted at each: who comes by
    /// need not be made to. A shorter one is counted through, because it tells the rate.
    pub(in crate::yard) fn restart_countdown(&self) {
        let p = self.platform();
        let interval = self.interval.load(Ordering::Relaxed);
        p.step();
        let most = match interval {
            0 => i32::MAX,
            step => step as i32 - 1,
        };
        if let Some(row) = p.row_hint() {
            let word = p.rows().countdown(row);
            let before = left(word);
            if before < 0 || before > most || interval == LONGEST_INTERVAL {
                let most = if self.checks.are_close() { 0 } else { most };
                word.store(most as u32, Ordering::Relaxed);
            }
            if before < 0 {
                self.mark_row(row);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn mark_row(&self, row: usize) {
        self.checks.mark(row);
    }

    /// The next free of this CPU's row takes the slow path. Returns how many it made since
    /// it was granted a step of the reclaim ticker.
    pub(in crate::yard) fn shorten_countdown(&self) -> u32 {
        let p = self.platform();
        let Some(row) = p.row_hint() else { return 0 };
        let word = p.rows().countdown(row);
        let granted = self.interval.load(Ordering::Relaxed).saturating_sub(1);
        let left = left(word).max(0).cast_unsigned();
        word.store(0, Ordering::Relaxed);
        granted.saturating_sub(left)
    }

    /// Takes one off this CPU's row's frees; false if there was none. What the sequences
    /// of `free` do themselves.
    #[inline]
    pub(in crate::yard) fn count_down(&self) -> bool {
        let p = self.platform();
        p.row_hint().is_some_and(|row| {
            let word = p.rows().countdown(row);
            let after = left(word).wrapping_sub(1);
            word.store(after as u32, Ordering::Relaxed);
            after >= 0
        })
    }
}
