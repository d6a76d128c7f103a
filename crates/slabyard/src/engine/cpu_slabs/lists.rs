//! CPU partial lists: one per CPU, last in, first out.
//!
//! A free that adds a slab to a full list drains the whole list.

use super::{CpuSlabs, Planted};
use crate::engine::partial::{self};
use crate::engine::partial_list::{End, Partial};
use crate::engine::slabs::Held;
use crate::engine::{Counter, Shape};

/// Slabs that end under one hold of the list lock: more than a list has.
const ENDED_AT_ONCE: usize = 64;

/// Puts a slab that a free found full on this CPU's list, which is drained first if it has no
/// room. Returns how many slabs that were.
pub fn put<S: CpuSlabs>(on: S, slab: u32) -> u32 {
    let rules = on.cpu_rules();
    let Some(mut list) = on.check_out_list() else {
        put_on_node(on, slab);
        return 0;
    };
    let free = on.near(slab).free_of(slab).1;
    let mut drained = 0;
    if rules.is_over(list.len(), on.objects_of(&list), free) {
        on.count(Counter::CpuPartialDrain, 1);
        drained = drain(on, &mut list);
    }
    if !on.park(&mut list, slab, free) {
        put_on_node(on, slab);
    }
    if rules.keeps_nothing() {
        drained += drain(on, &mut list);
    }
    check_in(on, list);
    drained
}

/// Puts a slab on its node's list that has no place on a CPU's.
fn put_on_node<S: CpuSlabs>(on: S, slab: u32) {
    let on = on.near(slab);
    let shape = on.cache().shape();
    let mut list = partial::lock(&on);
    // Others may have freed its last objects.
    let ended = put_back(on, shape, slab, &mut list);
    on.publish(&list);
    drop(list);
    if ended {
        partial::ended(on, shape, slab);
    }
}

/// Checks a list in. What is found there meanwhile is drained.
pub(super) fn check_in<S: CpuSlabs>(on: S, list: S::List) {
    if let Some(mut surplus) = on.check_in_list(list) {
        drain(on, &mut surplus);
        on.give_list(surplus);
    }
}

/// Puts all slabs of a list that is checked out on their nodes' lists, from the last that joined
/// to the first, each to the tail; those that are empty end, if the node's list is long enough.
/// Returns how many slabs.
pub(crate) fn drain<S: CpuSlabs>(on: S, list: &mut S::List) -> u32 {
    drain_each(on, || on.unpark(list))
}

/// Takes the empty slabs off this CPU's list, and leaves the others there. Returns how many.
pub fn drain_own_empties<S: CpuSlabs>(on: S) -> u32 {
    let Some(mut list) = on.check_out_list() else { return 0 };
    let drained = drain_empties(on, &mut list);
    check_in(on, list);
    drained
}

/// As [`drain`], but of the empty slabs alone; the others stay where they are.
pub(crate) fn drain_empties<S: CpuSlabs>(on: S, list: &mut S::List) -> u32 {
    drain_each(on, || on.unpark_empty(list))
}

fn drain_each<S: CpuSlabs>(on: S, mut unpark: impl FnMut() -> Option<u32>) -> u32 {
    let mut drained = 0;
    let mut next = unpark();
    while let Some(first) = next {
        let on = on.near(first);
        let (cache, shape) = (on.cache(), on.cache().shape());
        let mut ended = [0; ENDED_AT_ONCE];
        let mut n = 0;
        // The lock is kept from slab to slab of one node.
        let mut of_node = partial::lock(&on);
        while let Some(slab) = next
            && n < ended.len()
            && core::ptr::eq(on.near(slab).cache(), cache)
        {
            drained += 1;
            if put_back(on, shape, slab, &mut of_node) {
                ended[n] = slab;
                n += 1;
            }
            next = unpark();
        }
        on.publish(&of_node);
        drop(of_node);
        ended[..n].iter().for_each(|slab| partial::ended(on, shape, *slab));
    }
    drained
}

/// Puts a slab from a CPU's list on its node's, which is locked; true if it ended instead: the
/// caller [gives its pages back](partial::ended) without the lock.
#[must_use]
fn put_back<S: CpuSlabs>(on: S, shape: &Shape, slab: u32, list: &mut Partial) -> bool {
    if on.cpu_rules().freezing.freezes_parked() {
        on.count(Counter::CmpxchgSlab, 1);
        on.count(Counter::CmpxchgUnderLock, 1);
        on.thaw(slab);
    }
    if partial::ends(on, (shape, slab), list.len(), on.free_of(slab).1, false) {
        on.count(Counter::DeactivateEmpty, 1);
        on.end(shape, slab);
        return true;
    }
    let end = match on.cpu_rules().planted {
        Planted::DrainToHead => End::Head,
        _ => End::Tail,
    };
    list.add(on, slab, end);
    on.count(Counter::FreeAddPartial, 1);
    false
}
