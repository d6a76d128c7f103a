//! Allocates and frees page runs through this CPU's banks of free runs, without a slow path.
//!
//! Neighbour: [`crate::pages::bank`] implements the restartable sequences.

use crate::engine::Engine;
use crate::large::{SMALLEST_FAULTING, note_freed};
use crate::pages::bank::{self, Banked};
use crate::platform::Platform;
use crate::reclaim::countdown::is_over;
use crate::slow_path::{Background, enter_with};
use crate::sync::Ordering;
use crate::yard::Yard;
use crate::yard::depth::{RUN_CALLS, is_inside};

/// The largest block that a bank may have.
const LARGEST_BANKED: usize = 512 << 10;

/// Takes a run out of this CPU's bank, outside of a slow path. Not in a handler that interrupted
/// one.
#[inline(never)]
pub(crate) fn take_banked<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    let need = bytes.max(align);
    if need > LARGEST_BANKED || must_pass_banks(yard) || may_be_to_fault(yard, need) {
        return None;
    }
    match bank::take(&yard.heap, bytes.max(1), align) {
        Banked::Run(address) => Some(address),
        Banked::Nothing => None,
        Banked::Other(address) => {
            // Without background work, and without what the free of a large run gives back: the slow
            // path that serves the request does its share. (The thread is in none, so it enters.)
            if let Some(_slow_path) = enter_with(yard, RUN_CALLS, Background::None) {
                yard.heap.free_parked_run(address);
            }
            None
        }
    }
}

/// Puts a run into the bank of this CPU, outside of a slow path: false if the slow path must free
/// it, as one that found its row's countdown over must. While frees are checked closely each
/// finds it over; that of a run is checked by its descriptor anyway.
#[inline(never)]
pub(crate) fn bank<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> bool {
    let Some(row) = yard.platform().row_hint() else { return false };
    if is_over(yard, row, yard.checks.are_close()) || must_pass_banks(yard) {
        return false;
    }
    let Some(bytes) = bank::put(&yard.heap, address, row) else { return false };
    yard.growth.forget(&yard.heap, address);
    note_freed(yard, bytes);
    true
}

/// True where each call about a run is a slow path: with debugging, where slices must be made, or
/// deferred frees; and inside of one, where a handler that interrupted it changes nothing that
/// it may be about.
#[inline(always)]
fn must_pass_banks<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.is_guarded()
        || yard.wants_every_call()
        || yard.deferred.load(Ordering::Relaxed) != 0
        || is_inside(yard.platform())
}

/// True if [`crate::large`] may make it a mapping that faults after its free: by the last tick
/// instead of the clock, which is no later.
#[inline(always)]
fn may_be_to_fault<P: Platform, E: Engine>(yard: &Yard<P, E>, need: usize) -> bool {
    need >= SMALLEST_FAULTING
        && yard.checks.began()
        && yard.large.has_paid(yard.last_tick.load(Ordering::Relaxed), need)
}
