//! The slabs of a cache, and its node's partial list.
//!
//! A refill takes slabs from the head, and a free appends them at the tail, as in SLUB: there a
//! slab that just got its first free object waits for more.
//!
//! Neighbours: engines take objects here; [`super::flush`] returns them, and relists their slabs;
//! reclaim discards empty slabs.
//!
//! # States of a slab
//!
//! | state | free objects | listed | who may take bits |
//! |---|---|---|---|
//! | new | all | no | the thread that allocated it |
//! | partial | 1 to all - 1 | yes | holder of the list lock |
//! | full | 0 | no | no thread: there are none |
//! | empty, kept | all | yes | holder of the list lock |
//! | off the list, in the lab | 1 to all | no | the refill that took it off |
//! | passing | 1 to all | no | no thread: the thread whose `put` changed it is about to list or discard it |
//!
//! A slab that becomes empty while `min_partial` slabs are on the list is discarded under the list
//! lock; its run is freed to the page heap after the lock is released.
//!
//! # Equations (asserted by `verify`)
//!
//! For each cache: slabs that start in the region = `nr_slabs`; listed slabs = `nr_partial`; `out`
//! = objects - free.

use super::slabs::{Counted, Links, Refill, Slabs};
use super::{Counter, Header, Shape};
use crate::engine::partial_list::{End, Partial};
use crate::pages::descriptor::NIL;
use crate::slab::{Put, Version, Word};
use crate::sync::{Guard, Lock, Ordering};

/// Most empty slabs that are discarded under one hold of the lock.
const ENDED_AT_ONCE: u32 = 16;

/// Takes the list's lock.
pub(super) fn lock<S: Slabs>(on: &S) -> Guard<'_, Partial, S::Park> {
    on.count(Counter::ListLock, 1);
    let list = on.list();
    if let Some(begun) = on.clock() {
        return lock_timed(on, list, begun);
    }
    list.lock(on.park())
}

/// Takes the list's lock, and counts how long it waited.
#[cold]
fn lock_timed<'a, S: Slabs>(
    on: &'a S,
    list: &'a Lock<Partial>,
    begun: u64,
) -> Guard<'a, Partial, S::Park> {
    if let Some(guard) = list.try_lock(on.park()) {
        return guard;
    }
    let guard = list.lock(on.park());
    let waited = on.clock().unwrap_or(begun) - begun;
    on.count(Counter::ListLockWaited, 1);
    on.count(Counter::ListLockWaitNs, u32::try_from(waited).unwrap_or(u32::MAX));
    guard
}

/// Takes up to `most` objects out of slabs, fewer where many slabs have one each; `f` gets
/// those of one bitmap word at a time. A cache that has few slabs makes one at most, and none
/// while it has free objects: the caller may need a single one.
///
/// If `most` is a word's objects or more, it takes whole words, and leaves the last word
/// where that would be too many. A [whole](Refill::Whole) refill takes all, from other nodes too.
pub fn take_objects<S: Slabs>(on: S, most: u32, f: &mut dyn FnMut(S::Taken)) {
    if most == 0 {
        return;
    }
    let fills = S::MAY_DETACH && on.rules().refill == Refill::Whole;
    let whole = !fills && most >= Word::OBJECTS;
    let (mut missing, more) = if fills {
        (take_detached(on, most, &mut *f), false)
    } else {
        take_partial(on, most, whole, &mut *f)
    };
    // A node that is not looked at is not passed over.
    let mut remotes = if fills { Some(on.remotes()) } else { None };
    while let Some(remote) = remotes.as_mut().filter(|_| missing > 0).and_then(Iterator::next) {
        missing = take_detached(remote, missing, &mut *f);
    }
    let least = if whole { Word::OBJECTS } else { 1 };
    let cache = on.cache();
    while missing == most || missing >= least && (fills || !more && cache.is_busy()) {
        match take_new(on, missing, whole, &mut *f) {
            0 => break,
            taken => missing -= taken,
        }
    }
    cache.shown.out.fetch_add((most - missing).into(), Ordering::Relaxed);
}

/// Takes from the slabs on the partial list, one piece of work; returns how many objects
/// are still missing, and whether the list may have more.
pub fn take_partial<S: Slabs>(
    on: S,
    most: u32,
    whole: bool,
    mut f: impl FnMut(S::Taken),
) -> (u32, bool) {
    let cache = on.cache();
    let shape = cache.shape();
    let mut missing = most;
    let mut looks = shape.piece;
    let mut list = lock(&on);
    while missing > 0 && looks > 0 && list.head != NIL {
        looks -= 1;
        let slab = list.head;
        on.fetch_ahead(on.links(slab).next());
        let (taken, left) = on.take(shape, slab, missing, whole, &mut f);
        on.count(Counter::CmpxchgSlab, 1);
        missing -= taken;
        if left > 0 {
            return (missing, true);
        }
        list.unlink(on, slab);
        on.publish(&list);
    }
    (missing, looks == 0)
}

/// Takes slabs off the list, as many as give enough, and all their objects, each slab's by one
/// exchange; the last one's surplus goes back, at the list's tail. Returns how many are missing.
fn take_detached<S: Slabs>(on: S, most: u32, mut f: impl FnMut(S::Taken)) -> u32 {
    let (mut first, mut last, mut free) = (NIL, NIL, 0);
    let mut list = lock(&on);
    while free < most && list.head != NIL {
        let slab = list.head;
        list.unlink(on, slab);
        free += on.free_of(slab).1;
        on.links(slab).set_next(NIL);
        match first {
            NIL => first = slab,
            _ => on.links(last).set_next(slab),
        }
        last = slab;
    }
    on.publish(&list);
    drop(list);
    let shape = on.cache().shape();
    let mut missing = most;
    while first != NIL {
        let slab = first;
        first = on.links(slab).next();
        let (taken, left) = on.take(shape, slab, missing, false, &mut f);
        on.count(Counter::CmpxchgSlab, 1);
        missing -= taken;
        if left > 0 {
            on.count(Counter::CmpxchgSlab, 1);
            on.count(Counter::CmpxchgUnderLock, 1);
            on.count(Counter::FreeAddPartial, on.rules().counts_surplus.into());
            let mut list = lock(&on);
            list.add(on, slab, End::Tail);
            on.publish(&list);
        }
    }
    missing
}

/// Takes one object of a slab on the list.
pub(super) fn take_one_listed<S: Slabs>(on: S) -> Option<S::Object> {
    let mut one = None;
    let (missing, _) = take_partial(on, 1, false, |taken| one = Some(S::first(taken)));
    on.cache().shown.out.fetch_add((1 - missing).into(), Ordering::Relaxed);
    one
}

/// Begins a slab, on no list; `None` without memory.
pub(super) fn begin<S: Slabs>(on: S, shape: &Shape) -> Option<u32> {
    let slab = on.begin(shape)?;
    let on = on.of_slab(slab);
    on.count(Counter::AllocSlab, 1);
    on.cache().shown.nr_slabs.fetch_add(1, Ordering::Relaxed);
    Some(slab)
}

/// Takes objects from a new slab; returns how many.
fn take_new<S: Slabs>(on: S, most: u32, whole: bool, f: impl FnMut(S::Taken)) -> u32 {
    let cache = on.cache();
    let shape = cache.shape();
    let Some(slab) = begin(on, shape) else { return 0 };
    let on = on.of_slab(slab);
    let (version, _) = on.free_of(slab);
    let (taken, left) = on.take(shape, slab, most, whole, f);
    if left > 0 {
        relist(on, slab, version, RelistReason::Rest);
    }
    taken
}

/// Allocates one object from the slabs and bypasses what is parked: for an engine without
/// stacks, a CPU whose stack is stopped, and a thread that has no row.
pub fn alloc_direct<S: Slabs>(on: S) -> Option<S::Object> {
    on.count(Counter::AllocSlowpath, 1);
    let mut one = None;
    take_objects(on, 1, &mut |taken| one = Some(S::first(taken)));
    one
}

/// True if the published words are those of the list (for `verify`).
pub(crate) fn is_list_published<S: Slabs>(on: S) -> bool {
    let list = on.list().lock(on.park());
    if let Some(node) = on.shown_node() {
        return node.own().nr_partial.load(Ordering::Relaxed) == list.nr_partial.into();
    }
    on.cache().listed() == (list.head, list.nr_partial)
}

/// Why a slab is relisted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RelistReason {
    /// Objects were freed.
    Freed,
    /// Objects were freed to a slab that had free ones: if it is on no list, a CPU has it, and
    /// nothing is to be done.
    Emptied,
    /// A refill left some.
    Rest,
}

/// Relists a slab that objects were put into, if it was full or is empty now.
#[inline]
pub fn freed<S: Slabs>(on: S, shape: &Shape, slab: u32, put: &Put) {
    let free = put.before + put.added;
    if put.added > 0 && (put.before == 0 || free == on.objects_in(shape, slab)) {
        relist(on, slab, put.version, RelistReason::Freed);
    }
}

/// Lists a slab that has free objects, or ends one that is empty. Called whenever a slab
/// stopped being full or became empty; checks under the lock that this is still so.
pub(super) fn relist<S: Slabs>(on: S, slab: u32, version: Version, why: RelistReason) {
    let cache = on.cache();
    let shape = cache.shape();
    let mut list = lock(&on);
    let (now, free) = on.free_of(slab);
    if now != version || free == 0 {
        return;
    }
    let listed = on.links(slab).is_listed();
    if why == RelistReason::Emptied && !listed {
        on.count(Counter::ListLockVain, 1);
        return;
    }
    if ends(on, (shape, slab), list.nr_partial, free, listed) {
        if listed {
            list.unlink(on, slab);
            on.publish(&list);
            on.count(Counter::FreeRemovePartial, 1);
        }
        on.end(shape, slab);
        drop(list);
        ended(on, shape, slab);
        return;
    }
    if !listed {
        let end = match (why, on.rules().refill) {
            (RelistReason::Rest, Refill::Whole) => End::Head,
            _ => End::Tail,
        };
        list.add(on, slab, end);
        on.publish(&list);
        on.count(Counter::FreeAddPartial, (why != RelistReason::Rest).into());
    }
}

/// True if a slab with this many free objects is empty, and the list of this many slabs is long
/// enough without it.
pub(super) fn ends<S: Slabs>(
    on: S,
    (shape, slab): (&Shape, u32),
    nr_partial: u32,
    free: u32,
    listed: bool,
) -> bool {
    if free < on.objects_in(shape, slab) {
        return false;
    }
    let counted = match on.rules().counted {
        Counted::Others => nr_partial - u32::from(listed),
        Counted::All => nr_partial,
    };
    let ends = counted >= on.cache().min_partial();
    on.count(Counter::EmptyKept, (!ends).into());
    ends
}

/// Ends an empty slab that is on no list and that no other thread can put on one.
pub(super) fn end<S: Slabs>(on: S, shape: &Shape, slab: u32) {
    on.end(shape, slab);
    ended(on, shape, slab);
}

/// Counts a discarded slab, and gives its pages back.
pub(super) fn ended<S: Slabs>(on: S, shape: &Shape, slab: u32) {
    count_ended(on);
    on.give_back(shape, slab);
}

#[inline(always)]
fn count_ended<S: Slabs>(on: S) {
    on.count(Counter::FreeSlab, 1);
    on.cache().shown.nr_slabs.fetch_sub(1, Ordering::Relaxed);
}

/// Ends empty slabs, at most [`ENDED_AT_ONCE`], among the first `looks` slabs of the list;
/// returns how many.
fn discard_empty<S: Slabs>(on: S, looks: u32) -> u32 {
    let cache = on.cache();
    let shape = cache.shape();
    let mut batch = [0u32; ENDED_AT_ONCE as usize];
    let (mut n, mut looked) = (0, 0);
    let mut list = lock(&on);
    let mut at = list.head;
    while at != NIL && n < batch.len() && looked < looks {
        let next = on.links(at).next();
        if on.free_of(at).1 == on.objects_in(shape, at) {
            list.unlink(on, at);
            on.end(shape, at);
            batch[n] = at;
            n += 1;
        }
        at = next;
        looked += 1;
    }
    on.publish(&list);
    drop(list);
    for slab in &batch[..n] {
        count_ended(on);
        on.give_back_cold(shape, *slab);
    }
    n as u32
}

/// Ends some of the empty slabs that the list kept for the next allocations, at most
/// [`ENDED_AT_ONCE`]. Returns how many.
pub(super) fn discard_some_empty<S: Slabs>(on: S) -> u32 {
    if on.cache().nr_slabs() == 0 {
        return 0;
    }
    // An empty slab stays only while fewer than `min_partial` others are listed, and is
    // appended at the tail: the slabs behind these were not empty when they came.
    discard_empty(on, on.cache().min_partial().saturating_add(ENDED_AT_ONCE))
}

/// Ends all empty slabs.
#[inline(never)]
pub fn discard_all_empty<S: Slabs>(on: S) {
    while discard_empty(on, u32::MAX) == ENDED_AT_ONCE {}
}

/// Calls `f` with each slab on the partial list and its free objects.
pub fn each_partial<S: Slabs>(on: S, mut f: impl FnMut(u32, u32)) {
    let list = on.list().lock(on.park());
    let mut at = list.head;
    while at != NIL {
        f(at, on.free_of(at).1);
        at = on.links(at).next();
    }
}

/// Slabs on the partial list, as counted.
pub fn nr_partial<S: Slabs>(on: S) -> u32 {
    on.list().lock(on.park()).nr_partial
}

impl Partial {
    pub(super) const fn new() -> Self {
        Partial { head: NIL, tail: NIL, nr_partial: 0 }
    }

    /// Slabs on it.
    pub(super) fn len(&self) -> u32 {
        self.nr_partial
    }

    /// The slab at the head.
    pub fn first(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// The slab at the tail.
    pub(super) fn last(&self) -> Option<u32> {
        (self.tail != NIL).then_some(self.tail)
    }

    /// Lists a slab that is on no list.
    pub fn add<S: Slabs>(&mut self, on: S, slab: u32, end: End) {
        let (prev, next) = match end {
            End::Head => (NIL, self.head),
            End::Tail => (self.tail, NIL),
        };
        self.link(on, slab, prev, next);
    }

    /// As [`Partial::add`], in front of a slab that is on the list.
    pub(super) fn add_before<S: Slabs>(&mut self, on: S, slab: u32, next: u32) {
        self.link(on, slab, on.links(next).prev(), next);
    }

    #[inline(always)]
    pub(super) fn link<S: Slabs>(&mut self, on: S, slab: u32, prev: u32, next: u32) {
        let links = on.links(slab);
        links.set_listed(true);
        links.set_next(next);
        links.set_prev(prev);
        if prev == NIL {
            self.head = slab;
        } else {
            on.links(prev).set_next(slab);
        }
        if next == NIL {
            self.tail = slab;
        } else {
            on.links(next).set_prev(slab);
        }
        self.nr_partial += 1;
        on.count(Counter::ListLockSlabs, 1);
    }

    pub fn unlink<S: Slabs>(&mut self, on: S, slab: u32) {
        let links = on.links(slab);
        let (next, prev) = (links.next(), links.prev());
        if prev == NIL {
            self.head = next;
        } else {
            on.links(prev).set_next(next);
        }
        if next == NIL {
            self.tail = prev;
        } else {
            on.links(next).set_prev(prev);
        }
        links.set_listed(false);
        self.nr_partial -= 1;
        on.count(Counter::ListLockSlabs, 1);
    }

    /// Says what the list is: an engine whose lists are parts of it keeps them itself.
    pub(super) fn set(&mut self, (head, tail): (u32, u32), nr_partial: u32) {
        *self = Partial { head, tail, nr_partial };
    }

    /// Publishes the list's head and length to readers outside. Under its lock.
    pub fn publish(&self, cache: &Header) {
        cache.shown.nr_partial.store(self.nr_partial.into(), Ordering::Relaxed);
        cache.shown.partial_head.store(self.head.into(), Ordering::Relaxed);
    }
}
