//! The caches that comparisons leave out, because their frees or allocations are missing from the
//! trace.
//!
//! `kfree_rcu()`, bulk frees and sheaves leave no event. Which caches' objects are freed that way
//! depends on the kernel and the load. No list of names can say it, but the trace can: an object
//! that is allocated while live was freed in between. A complete trace of a cache whose frees all
//! leave events has almost no such object (0.05 % at most in nine traces). In caches whose frees
//! leave no events, 46 to 100 % of all frees are missing. Likewise, an object that is freed while
//! free was allocated in between, as the maple tree's nodes are by bulk allocation.
//!
//! [`super::matching`] inserts the missing frees; [`super::doubts`] counts them as missing events,
//! except in caches that are left out.

use super::frames::Slab;
use super::input::CacheNumber;
use super::prepared::Prepared;
use super::tally::Frees;

/// A cache loses frees if more of them than this are missing, in percent.
const LOST_PERCENT: u64 = 5;
/// The same of allocations: up to 34 % are missing where some tasks are not traced. Of a cache
/// that is allocated from in bulk 49 % and more are.
const UNTOLD_PERCENT: u64 = 40;
/// And no fewer than these.
const LEAST_LOST: u64 = 16;

/// What the caches left out are.
pub const FREES: &str = "many of its frees leave no event (kfree_rcu(), in bulk, or by sheaves)";
/// The others.
pub const ALLOCATIONS: &str = "many of its allocations leave no event (in bulk)";

/// Those that the trace shows, and the modelled release does not have.
pub const GONE: &str = "the modelled release has no such cache";

/// Per cache: why it is left out, if it is. `unallocated` has the frees of objects that no event
/// had allocated, which are no steps.
#[must_use]
pub fn reasons(unallocated: &[u64], frees: &[Frees]) -> Vec<Option<&'static str>> {
    let loses = |all, lost, percent| lost >= LEAST_LOST && lost * 100 > all * percent;
    let reason = |(Frees { all, missed }, unallocated): (&Frees, &u64)| {
        let by_allocations =
            loses(all + unallocated, *unallocated, UNTOLD_PERCENT).then_some(ALLOCATIONS);
        loses(*all, *missed, LOST_PERCENT).then_some(FREES).or(by_allocations)
    };
    frees.iter().zip(unallocated).map(reason).collect()
}

/// True if a cache made half of the kernel's slabs or more: what is left of the total without it
/// says little. Comparisons leave it out only if its frees cannot be [placed](super::replaced).
pub(super) fn makes_most(slabs: &[Slab], cache: CacheNumber) -> bool {
    let made = || slabs.iter().filter(|slab| !slab.initial);
    made().filter(|slab| slab.cache == cache).count() * 2 >= made().count()
}

/// The share of the slabs that the kernel made during the trace that are of caches left out.
#[must_use]
pub fn share_of_made(prepared: &Prepared) -> f64 {
    let is_out = |cache: CacheNumber| prepared.caches[cache as usize].left_out.is_some();
    let made = &prepared.slabs[prepared.initial_slabs().len()..];
    let out = made.iter().filter(|slab| is_out(slab.cache)).count();
    if made.is_empty() { 0.0 } else { out as f64 / made.len() as f64 }
}
