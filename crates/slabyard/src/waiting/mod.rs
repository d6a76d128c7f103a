//! Floor 7: frees that wait for readers ([`crate::rcu`]), and discarded slabs that wait likewise.
//!
//! None of this needs a thread of its own: the end of each slow path ([`batches::serve_waiting`])
//! advances the grace period and frees one batch of objects and some slabs; [`Yard::rcu_barrier`]
//! frees all that are waiting.
//!
//! Neighbours: [`crate::calls::readers`] has the functions for programs; [`batches`] frees the
//! objects; [`deferred`] has the frees that wait for the end of a slow path. Invariant: in a yard
//! without readers, this module adds only the read of one word to a call.

pub(crate) mod batches;
pub(crate) mod deferred;

use crate::cache::CacheId;
use crate::cache::slots::{number_of, slot_of};
use crate::engine::Engine;
use crate::pages::held;
use crate::platform::Platform;
use crate::waiting::batches::serve_waiting;
use crate::yard::Yard;
pub use crate::yard::waiting::BATCH;
use crate::yard::waiting::{Calls, OnObject};
pub use batches::{MOST_BYTES, NotTaken};

/// True if a slab that a cache had waits for readers.
pub(crate) fn holds_slabs<P: Platform, E: Engine>(yard: &Yard<P, E>, id: CacheId) -> bool {
    let mut holds = false;
    if held::nr(&yard.heap) > 0 {
        held::each(&yard.heap, |slot| holds |= number_of(slot) == Some(id.number()));
    }
    holds
}

/// From now on the end of each slow path looks at what waits.
pub(crate) fn begin_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if yard.waiting.on_some.try_get().is_none() {
        let forget = |yard: &Yard<P, E>| yard.heap.rcu.forget_others(yard.platform());
        yard.waiting.on_some.set(Calls {
            serve: serve_waiting,
            forget,
            each_object,
            count_held: count_list,
        });
        yard.heap.on_held.set(held::hold);
    }
}

/// At the end of a slow path, which holds no lock.
#[inline(always)]
pub(crate) fn look_at_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if let Some(calls) = yard.waiting.on_some.try_get() {
        (calls.serve)(yard);
    }
}

/// In the child of a fork: readers that do not exist there are no more.
pub(crate) fn forget_readers<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if let Some(calls) = yard.waiting.on_some.try_get() {
        (calls.forget)(yard);
    }
}

/// Calls `f` with slot and address of each object of a cache that waits for readers (for `verify`).
pub(crate) fn each_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>, f: OnObject<'_>) {
    if let Some(calls) = yard.waiting.on_some.try_get() {
        (calls.each_object)(yard, f);
    }
}

fn each_object<P: Platform, E: Engine>(yard: &Yard<P, E>, f: OnObject<'_>) {
    yard.waiting.batches.each_object(&yard.heap, |address| {
        if let Some(number) = yard.heap.class_at(address) {
            f(slot_of(number), address);
        }
    });
}

/// Slabs on the list of those that wait for readers (for `verify`).
pub(crate) fn count_held<P: Platform, E: Engine>(yard: &Yard<P, E>) -> u64 {
    yard.waiting.on_some.try_get().map_or(0, |calls| (calls.count_held)(yard))
}

fn count_list<P: Platform, E: Engine>(yard: &Yard<P, E>) -> u64 {
    let mut slabs = 0;
    held::each(&yard.heap, |_| slabs += 1);
    slabs
}
