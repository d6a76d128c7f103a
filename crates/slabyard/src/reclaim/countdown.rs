//! The countdown of a CPU's row: how many frees this CPU makes before a free takes the slow path
//! although its sheaf has room.
//!
//! Otherwise a program that allocates and frees one object in a loop would never enter a slow path.
//! So each free decrements its row's word ([`crate::platform::stack::Rows::countdown`]), and a free
//! that finds it negative takes the periodic slow path, which reads the clock and leaves the sheaf
//! as it is. While the reclaim ticker runs, the countdown starts at the ticker's interval;
//! otherwise at the largest number that fits the word.
//!
//! The decrement costs each free two instructions, 1 to 3 % of the time of a load of small objects.
//! Tried and rejected: allocations popped from the spare sheaf while the ticker ran; this cost no
//! instruction, but the object freed last was not allocated next, and ten loads took 5 % longer
//! with peaks 2.5 % higher (22fc58f).
//!
//! A *kick* makes the next free of each cache on each row take the slow path, by ending the
//! countdowns and marking the stacks ([`Entry::ask`](crate::platform::Entry::ask)). On a row
//! without a stack each call takes the slow path anyway.
//!
//! Neighbours: each slow path ([`crate::slow_path`]) restarts the countdown, and kicks again at its
//! end if there was a kick meanwhile; [`super::ticker`] sets the interval and kicks,
//! [`super::drain`] kicks.
//! Invariant: the word is a hint. Several threads write it without a lock, and a store may be lost.
//! Code that must reach every row also marks the stacks ([`crate::platform::Entry::ask`]).

use crate::cache::slots::{number_of, slot_of};
use crate::engine::Engine;
use crate::platform::Platform;
use crate::reclaim::walk::{Stacks, entries};
use crate::sync::{AtomicU32, Ordering, fence_behind_exchange};
use crate::yard::Yard;
use crate::yard::rate::LONGEST_INTERVAL;

/// Frees that may find a countdown over where frees are checked closely.
const LONG: i32 = LONGEST_INTERVAL as i32;

fn left(word: &AtomicU32) -> i32 {
    word.load(Ordering::Relaxed).cast_signed()
}

/// True if the countdown of this CPU's row ran out: this free takes the slow path.
#[inline]
pub(crate) fn is_countdown_over<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    let p = yard.platform();
    p.row_hint().is_some_and(|row| left(p.rows().countdown(row)) < 0)
}

/// The same of a row, for a free that needs no close check: where frees are checked closely,
/// each finds the countdown over, and one of many must take the slow path.
#[inline]
pub(crate) fn is_over<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    row: usize,
    closely: bool,
) -> bool {
    left(yard.platform().rows().countdown(row)) < if closely { -LONG } else { 0 }
}

/// In a slow path: starts this CPU's countdown at the ticker's interval, or at the largest
/// number without a ticker. The longest interval starts anew at each slow path, which did
/// what the countdown is for. A shorter one runs to its end, because it measures the rate.
pub(crate) fn restart_countdown<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let p = yard.platform();
    let interval = yard.interval.load(Ordering::Relaxed);
    p.step();
    let most = match interval {
        0 => i32::MAX,
        interval => interval as i32 - 1,
    };
    let most = most.min(yard.surplus.sparse.most_frees.load(Ordering::Relaxed));
    if let Some(row) = p.row_hint() {
        let word = p.rows().countdown(row);
        let before = left(word);
        if before < 0 || before > most || interval == LONGEST_INTERVAL {
            let most = if yard.checks.are_close() { 0 } else { most };
            word.store(most as u32, Ordering::Relaxed);
        }
    }
}

/// Makes the next free of each cache on each row take the slow path: ends the countdowns, and kicks
/// the stacks ([`Entry::ask`](crate::platform::Entry::ask)). Either alone may be lost: the first to
/// the owner's concurrent count, the second to a slow path that puts another stack into the entry.
///
/// A slow path under way may have read the interval before it changed, and then restart its
/// row's countdown at the old one. So a slow path kicks again at its end if the count changed
/// meanwhile ([`crate::slow_path`]).
pub(crate) fn kick_all_rows<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    // Either our stores below come after those of a slow path under way, or it sees this count:
    // between its stores and its load ([`kicks`]) are an exchange and a fence, too.
    yard.kicks.fetch_add(1, Ordering::SeqCst);
    fence_behind_exchange();
    kick_rows(yard);
}

/// How often [`kick_all_rows`] kicked all rows so far.
pub(crate) fn kicks<P: Platform, E: Engine>(yard: &Yard<P, E>) -> u32 {
    yard.kicks.load(Ordering::SeqCst)
}

/// As [`kick_all_rows`], for a slow path that was under way then.
#[cold]
#[inline(never)]
pub(crate) fn kick_rows<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let rows = yard.platform().rows();
    rows.used().for_each(|row| rows.countdown(row).store(0, Ordering::Relaxed));
    for (row, slot) in entries(yard, Stacks::Caches) {
        // A spare stack takes no push.
        if number_of(slot).is_some_and(|number| slot_of(number) == slot) {
            rows.entry(row, slot).ask();
        }
    }
}
