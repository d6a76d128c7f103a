//! The slabs of a node: its partial slabs, followed by its free ones.
//!
//! One list holds both: a refill takes objects from the list's first slab: a partial slab if there
//! is one, else the slab that became free last. A free moves its slab behind the last partial one,
//! whether the slab was full or partial. So the slab's other objects have the longest time to be
//! freed, too (kernel commit 69e7493958, 2002). A slab that becomes empty becomes the first of the
//! free ones; slabs are discarded from the tail.
//!
//! Neighbours: [`super::array`] refills and flushes arrays; [`crate::engine::partial`] implements
//! the list.

use super::policy::{Emptied, Placed};
use super::{Arrays, Limits};
use crate::engine::array_cache::node::Empties;
use crate::engine::partial::{self};
use crate::engine::partial_list::{End, Partial};
use crate::engine::slabs::Links;
use crate::engine::{Counter, Shape, orphans};
use crate::pages::descriptor::NIL;
use crate::slab::{Put, Version};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Most slabs that are discarded under one hold of the lock.
const ENDED_AT_ONCE: u32 = 16;

/// Free objects in slabs that a node may have before free slabs are discarded.
pub fn free_limit<S: Arrays>(on: S) -> u32 {
    let cache = on.cache();
    (1 + on.nr_cpus()) * Limits::of_cache(cache).batchcount + cache.shape().geometry.objects
}

/// Free objects in the node's slabs, as of a moment ago.
fn free_objects<S: Arrays>(on: S) -> u64 {
    // Above the half it is below 0.
    on.node().empties.objects.load(Ordering::Relaxed).cast_signed().max(0).cast_unsigned()
}

/// Free objects came to the node's slabs, or left them: then `more` wraps.
fn count_free<S: Arrays>(on: S, more: u64) {
    on.node().empties.objects.fetch_add(more, Ordering::Relaxed);
}

/// Takes up to `most` objects out of the listed slabs, from the list's head; returns how many.
fn take_listed<S: Arrays>(on: S, most: u32, f: &mut impl FnMut(S::Taken)) -> u32 {
    let cache = on.cache();
    let (shape, empties) = (cache.shape(), &on.node().empties);
    let mut missing = most;
    let mut list = partial::lock(&on);
    while missing > 0
        && let Some(slab) = list.first()
    {
        on.fetch_ahead(on.links(slab).next());
        if on.links(slab).is_apart() {
            // No slab is in front of it: it is the first partial one now.
            empties.leaves(on, slab);
            empties.touched.store(1, Ordering::Relaxed);
        }
        let (taken, left) = on.take(shape, slab, missing, false, &mut *f);
        on.count(Counter::CmpxchgSlab, 1);
        missing -= taken;
        if left == 0 {
            list.unlink(on, slab);
        }
    }
    on.publish(&list);
    most - missing
}

/// Takes up to `most` objects out of slabs, of a new one only if no other has any; `f` gets
/// those of one bitmap word at a time. Returns how many.
pub(super) fn take_objects<S: Arrays>(on: S, most: u32, mut f: impl FnMut(S::Taken)) -> u32 {
    let mut taken = take_listed(on, most, &mut f);
    if taken == 0 {
        taken = grow(on, most, f);
    }
    count_taken(on, taken);
    taken
}

/// As [`take_objects`], of one object, and of a listed slab alone.
pub(super) fn take_one_listed<S: Arrays>(on: S) -> Option<S::Object> {
    let mut one = None;
    count_taken(on, take_listed(on, 1, &mut |taken| one = Some(S::first(taken))));
    one
}

fn count_taken<S: Arrays>(on: S, taken: u32) {
    count_free(on, u64::from(taken).wrapping_neg());
    on.cache().shown.out.fetch_add(taken.into(), Ordering::Relaxed);
}

/// Begins a slab and takes objects from it; returns how many. What is left of it is at the
/// list's head.
fn grow<S: Arrays>(on: S, most: u32, f: impl FnMut(S::Taken)) -> u32 {
    let cache = on.cache();
    let shape = cache.shape();
    // The clock passes over a cache that grows.
    on.node().growing.fetch_add(1, Ordering::Relaxed);
    on.node().grown.store(1, Ordering::Relaxed);
    let begun = partial::begin(on, shape);
    on.node().growing.fetch_sub(1, Ordering::Relaxed);
    let Some(slab) = begun else { return 0 };
    count_free(on, shape.geometry.objects.into());
    let (taken, left) = on.take(shape, slab, most, false, f);
    if left > 0 {
        let mut list = partial::lock(&on);
        on.links(slab).set_apart(false);
        list.add(on, slab, End::Head);
        on.publish(&list);
    }
    taken
}

/// Objects were put into a slab.
pub fn freed<S: Arrays>(on: S, slab: u32, put: &Put) {
    if put.added > 0 {
        count_free(on, put.added.into());
        relist(on, slab, put.version);
    }
}

/// Lists a slab that objects were put into, where the [policy](super::policy) says: as a partial
/// slab, or as the first free one. Ends it, if it is free and the policy keeps no more.
fn relist<S: Arrays>(on: S, slab: u32, version: Version) {
    let cache = on.cache();
    let (empties, policy) = (&on.node().empties, on.node().policy());
    let mut list = partial::lock(&on);
    let (now, free) = on.free_of(slab);
    if now != version || free == 0 {
        return;
    }
    let is_free = free == cache.shape().geometry.objects;
    let is_listed = on.links(slab).is_listed();
    if is_listed {
        if on.links(slab).is_apart() || !is_free && policy.placed == Placed::First {
            return;
        }
        empties.unlist(on, &mut list, slab);
    }
    if is_free && policy.emptied == Emptied::EndsBesideOthers && list.first().is_some() {
        on.count(Counter::FreeRemovePartial, is_listed.into());
        on.publish(&list);
        on.end(cache.shape(), slab);
        count_free(on, u64::from(free).wrapping_neg());
        drop(list);
        return partial::ended(on, cache.shape(), slab);
    }
    on.count(Counter::FreeAddPartial, (!is_listed).into());
    empties.list(on, &mut list, slab, is_free);
    on.publish(&list);
}

/// Discards free slabs from the list's end, as long as the node has too many free objects.
pub fn trim<S: Arrays>(on: S) {
    if on.node().policy().emptied != Emptied::StaysWithinLimit {
        return;
    }
    let limit = u64::from(free_limit(on));
    let is_over = || on.node().empties.len() > 0 && free_objects(on) > limit;
    while is_over() && end_while(on, ENDED_AT_ONCE, is_over) > 0 {}
}

/// Ends up to `most` free slabs from the list's end; returns how many.
pub fn end_free<S: Arrays>(on: S, most: u32) -> u32 {
    let mut ended = 0;
    while ended < most {
        match end_while(on, ENDED_AT_ONCE.min(most - ended), || true) {
            0 => break,
            n => ended += n,
        }
    }
    ended
}

/// Ends up to `most` free slabs, no more than [`ENDED_AT_ONCE`], as long as there is reason to;
/// returns how many.
fn end_while<S: Arrays>(on: S, most: u32, more: impl Fn() -> bool) -> u32 {
    let cache = on.cache();
    let (shape, empties): (&Shape, _) = (cache.shape(), &on.node().empties);
    let mut batch = [0u32; ENDED_AT_ONCE as usize];
    let mut n = 0;
    let mut list = partial::lock(&on);
    while n < most as usize
        && empties.len() > 0
        && more()
        && let Some(slab) = list.last()
    {
        empties.unlist(on, &mut list, slab);
        on.end(shape, slab);
        cache.shown.nr_slabs.fetch_sub(1, Ordering::Relaxed);
        count_free(on, u64::from(shape.geometry.objects).wrapping_neg());
        on.count(Counter::FreeSlab, 1);
        batch[n] = slab;
        n += 1;
    }
    on.publish(&list);
    drop(list);
    for slab in &batch[..n] {
        on.give_back(shape, *slab);
    }
    n as u32
}

/// In the child of a fork: the node's list is empty.
pub(super) fn begin_child<S: Arrays>(on: S) {
    let empties = &on.node().empties;
    empties.set(NIL, 0);
    empties.objects.store(0, Ordering::Relaxed);
    orphans::empty_list(on);
}

/// Lists a slab with so many free objects that is on no list, in the child of a fork, or in a yard
/// that is repaired.
pub fn adopt<S: Arrays>(on: S, slab: u32, free: u32) {
    let links = on.links(slab);
    if links.is_apart() {
        links.set_apart(false);
    }
    if free > 0 {
        let is_free = free == on.cache().shape().geometry.objects;
        let mut list = partial::lock(&on);
        on.node().empties.list(on, &mut list, slab, is_free);
        on.publish(&list);
        count_free(on, free.into());
    }
}

/// After that: ends free slabs that the policy does not keep beside others.
pub(super) fn end_begin_child<S: Arrays>(on: S) {
    if on.node().policy().emptied == Emptied::EndsBesideOthers {
        end_free(on, u32::MAX);
    }
}

/// True if the free objects of the node's slabs are as many as are counted (for `verify`).
pub(super) fn are_counted<S: Arrays>(on: S) -> bool {
    let mut objects = 0;
    partial::each_partial(on, |_, free| objects += u64::from(free));
    on.node().empties.objects.load(Ordering::Relaxed) == objects
}

/// True if the free slabs are those at the list's end, and all are the node's (for `verify`).
pub(super) fn are_apart<S: Arrays>(on: S, is_of_node: impl Fn(u32) -> bool) -> bool {
    let empties = &on.node().empties;
    let objects = on.cache().shape().geometry.objects;
    let (mut first, mut nr, mut is_sound) = (NIL, 0, true);
    partial::each_partial(on, |slab, free| {
        let is_apart = on.links(slab).is_apart();
        if is_apart && first == NIL {
            first = slab;
        }
        nr += u32::from(is_apart);
        is_sound &= is_of_node(slab);
        is_sound &= is_apart == (free == objects) && is_apart == (first != NIL);
    });
    let keeps_one = on.node().policy().emptied == Emptied::EndsBesideOthers;
    is_sound && (first, nr) == (empties.first(), empties.len()) && !(keeps_one && nr > 1)
}

impl Empties {
    pub(super) const fn new() -> Self {
        Empties {
            first: AtomicU32::new(NIL),
            nr: AtomicU32::new(0),
            objects: AtomicU64::new(0),
            touched: AtomicU32::new(0),
        }
    }

    pub(super) fn first(&self) -> u32 {
        self.first.load(Ordering::Relaxed)
    }

    /// Free slabs; without the lock as of a moment ago.
    pub(super) fn len(&self) -> u32 {
        self.nr.load(Ordering::Relaxed)
    }

    /// Clears the mark that says that one was used; returns it.
    pub(super) fn clear_touched(&self) -> bool {
        self.touched.swap(0, Ordering::Relaxed) != 0
    }

    pub(super) fn set(&self, first: u32, nr: u32) {
        self.first.store(first, Ordering::Relaxed);
        self.nr.store(nr, Ordering::Relaxed);
    }

    /// A listed slab is no longer one of them.
    pub(super) fn leaves<S: Arrays>(&self, on: S, slab: u32) {
        let links = on.links(slab);
        links.set_apart(false);
        let first = if self.first() == slab { links.next() } else { self.first() };
        self.set(first, self.len() - 1);
    }

    /// Lists a slab, which is on no list: as a partial one, or as the first free one.
    pub(super) fn list<S: Arrays>(&self, on: S, list: &mut Partial, slab: u32, is_free: bool) {
        match self.first() {
            _ if !is_free && on.node().policy().placed == Placed::First => {
                list.add(on, slab, End::Head);
            }
            NIL => list.add(on, slab, End::Tail),
            first => list.add_before(on, slab, first),
        }
        on.links(slab).set_apart(is_free);
        if is_free {
            self.set(slab, self.len() + 1);
        }
    }

    pub(super) fn unlist<S: Arrays>(&self, on: S, list: &mut Partial, slab: u32) {
        if on.links(slab).is_apart() {
            self.leaves(on, slab);
        }
        list.unlink(on, slab);
    }
}
