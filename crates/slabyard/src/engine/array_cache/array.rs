//! A CPU's array: the slow path of an allocation that found the array empty, and of a free that
//! found it full.
//!
//! A slow path checks the array out of its stack, works on it in private, and checks it in. If
//! another thread on the CPU checked an array in meanwhile, one of the two arrays is surplus: its
//! objects are flushed.

use super::limits::UNTOUCHED_BATCH;
use super::{Arrays, Limits, lists};
use crate::engine::slabs::{Flush, Held};
use crate::engine::{Counter, Moving, flush};

/// Allocates an object; `None` if there is no memory.
pub fn alloc_slow<S: Arrays>(on: S) -> Option<S::Object> {
    let _moving = Moving::new(on);
    let limits = Limits::of_cache(on.cache());
    if limits.limit == 0 {
        return on.alloc_below();
    }
    let Ok(found) = on.check_out(on.cache().shape().main()) else {
        return on.alloc_below();
    };
    let refills_whole = on.touch(found.as_ref()) || !on.node().policy().refills_few;
    // Without memory for an array, a slab may still have an object.
    let near = found.and_then(|array| on.near(array));
    let Some(mut array) = near.or_else(|| on.new_sheaf(limits.limit)) else {
        return on.alloc_below();
    };
    let mut elsewhere = None;
    if array.is_empty() {
        // A cache that is hardly used has few objects parked.
        let most = if refills_whole { u32::MAX } else { UNTOUCHED_BATCH };
        elsewhere = refill(on, &mut array, limits.batchcount.min(most));
    }
    let object = elsewhere.or_else(|| on.pop(&mut array));
    check_in(on, array, limits.limit);
    object
}

/// Refills an array: from the shared array, else from slabs. If there are neither free objects at
/// the node nor must it have new ones, the array stays empty, and an object of another node is
/// returned.
fn refill<S: Arrays>(on: S, array: &mut S::Sheaf, batch: u32) -> Option<S::Object> {
    let batch = batch.min(on.room(array));
    if on.node().take_shared(on, array, batch) > 0 {
        return None;
    }
    if let Some(object) = on.alloc_elsewhere() {
        return Some(object);
    }
    let taken = lists::take_objects(on, batch, on.filling(array));
    on.count(Counter::SheafRefill, taken);
    None
}

/// Frees an object. Called when the fast path found this CPU's array full, stopped or asked to
/// drain, or found the object on its top.
pub fn free_slow<S: Arrays>(on: S, object: S::Object) {
    let _moving = Moving::new(on);
    let limits = Limits::of_cache(on.cache());
    if limits.limit == 0 {
        return on.free_below(object);
    }
    let Ok(found) = on.check_out(on.cache().shape().main()) else {
        return on.free_below(object);
    };
    if found.as_ref().is_some_and(|array| on.is_top(array, object)) {
        on.report_double_free(object);
        return found.into_iter().for_each(|array| check_in(on, array, limits.limit));
    }
    let near = found.and_then(|array| on.near(array));
    let Some(mut array) = near.or_else(|| on.new_sheaf(limits.limit)) else {
        return on.free_below(object);
    };
    if array.len() >= limits.limit.min(on.room(&array)) {
        flush_oldest(on, &mut array, limits.batchcount);
    }
    on.push(&mut array, object);
    check_in(on, array, limits.limit);
}

/// Moves the oldest objects of an array, this many at most, to the shared array; to their slabs, if
/// it has no room.
fn flush_oldest<S: Arrays>(on: S, array: &mut S::Sheaf, batch: u32) {
    let batch = batch.min(array.len());
    if on.node().put_shared(on, array, batch) == 0 {
        return_oldest(on, array, batch);
    }
}

/// Returns the oldest objects of an array, this many, to their slabs.
pub fn return_oldest<S: Arrays>(on: S, array: &mut S::Sheaf, objects: u32) {
    let oldest = &on.elements(array)[..objects as usize];
    match on.rules().flush {
        Flush::Piece => _ = flush::return_to_slabs(on, oldest, u32::MAX),
        // One after the other: so slabs come to lie on the list as a kernel's do.
        Flush::Spare => oldest.iter().for_each(|object| on.free_below(S::load(object))),
    }
    on.drop_oldest(array, objects);
    on.count(Counter::SheafFlush, objects);
    lists::trim(on);
}

/// Returns all objects of an array to their slabs.
pub fn return_all<S: Arrays>(on: S, array: &mut S::Sheaf) {
    return_oldest(on, array, array.len());
}

/// Allocates one object from the slabs: for a CPU whose stack is stopped, and a thread that has
/// no row.
pub fn alloc_direct<S: Arrays>(on: S) -> Option<S::Object> {
    on.count(Counter::AllocSlowpath, 1);
    let mut one = None;
    lists::take_objects(on, 1, |taken| one = Some(S::first(taken)));
    one
}

/// Checks an array in to this CPU's entry, with room for pushes up to `limit`.
pub fn check_in<S: Arrays>(on: S, array: S::Sheaf, limit: u32) {
    let tag = on.tag();
    if let Some(surplus) = on.check_in(on.cache().shape().main(), array, limit, tag)
        && let Some(surplus) = on.near(surplus)
    {
        keep(on, surplus);
    }
}

/// Takes a surplus array: its objects go to the node's shared array as far as that has room, and
/// to their slabs.
pub(in crate::engine) fn keep<S: Arrays>(on: S, mut array: S::Sheaf) {
    let len = array.len();
    on.node().put_shared(on, &mut array, len);
    return_all(on, &mut array);
    on.give_sheaf(array);
}
