//! Kicks: a kick makes the next free of each cache on each row take the slow path, by ending the
//! countdowns and marking the stacks ([`Entry::ask`](crate::platform::Entry::ask)).
//!
//! Neighbours: [`super::ticker`] and [`super::drain`] kick; a slow path that was under way during a
//! kick repeats it at its end ([`crate::slow_path`]).

use crate::cache::slots::{number_of, slot_of};
use crate::engine::Engine;
use crate::platform::Platform;
use crate::reclaim::walk::{Stacks, entries};
use crate::sync::Ordering;
use crate::yard::Yard;

/// Makes the next free of each cache on each row take the slow path: ends the countdowns,
/// and kicks the stacks ([`Entry::ask`](crate::platform::Entry::ask)). Either alone may be
/// lost: the first to the owner's concurrent count, the second to a slow path that puts
/// another stack into the entry.
///
/// A slow path under way may have read the interval before it changed, and then restart its
/// row's countdown at the old one. So a slow path kicks again at its end if the count changed
/// meanwhile ([`crate::slow_path`]).
pub(crate) fn kick_all_rows<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    // SeqCst: either our stores below come after those of a slow path under way, or that
    // slow path sees this count: it leaves the gate between its stores and its load
    // ([`kicks`]). On x86-64 each of the two exchanges is a fence.
    yard.kicks.fetch_add(1, Ordering::SeqCst);
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
    (0..yard.platform().rows_used()).for_each(|row| {
        rows.countdown(row).store(0, Ordering::Relaxed);
    });
    for (row, slot) in entries(yard, Stacks::Caches) {
        // A spare stack takes no push.
        if number_of(slot).is_some_and(|number| slot_of(number) == slot) {
            rows.entry(row, slot).ask();
        }
    }
}
