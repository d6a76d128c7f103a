//! The slabs of a cache, and its node's partial list.
//!
//! A refill takes slabs from the head, and a free appends them at the tail, as in SLUB: a
//! slab that just got its first free object waits there for more of them.
//!
//! Neighbours: engines take objects here; [`super::flush`] returns them, and relists their
//! slabs; reclaim ends the empty ones.
//!
//! # States of a slab
//!
//! | state | free objects | listed | who may take bits |
//! |---|---|---|---|
//! | new | all | no | the thread that made it |
//! | partial | 1 to all - 1 | yes | holder of the list lock |
//! | full | 0 | no | no thread: there are none |
//! | empty, kept | all | yes | holder of the list lock |
//! | passing | 1 to all | no | no thread: the one whose `put` changed it is about to list or end it |
//!
//! A slab that is empty with `min_partial` slabs on the list ends under the list
//! lock; its run is freed to the page heap after the lock is released.
//!
//! # Equations (asserted by `verify`)
//!
//! For each cache: slabs that begin in the region = `nr_slabs`; listed slabs = `nr_partial`;
//! `out` = objects - free.

use super::PageSlabs;
use crate::pages::descriptor::NIL;
use crate::pages::{PageHeap, Sheaf};
use crate::platform::Platform;
use crate::slab::{Geometry, Version, Word};
use crate::sync::Ordering;

pub(super) struct Partial {
    head: u32,
    tail: u32,
    nr_partial: u32,
}

impl Partial {
    pub(super) const fn new() -> Self {
        Partial { head: NIL, tail: NIL, nr_partial: 0 }
    }

    fn append<P: Platform>(&mut self, g: &PageHeap<P>, slab: u32) {
        let descriptor = g.region.descriptor(slab);
        descriptor.time.store(LISTED, Ordering::Relaxed);
        descriptor.next.store(NIL, Ordering::Relaxed);
        descriptor.prev.store(self.tail, Ordering::Relaxed);
        if self.tail == NIL {
            self.head = slab;
        } else {
            g.region.descriptor(self.tail).next.store(slab, Ordering::Relaxed);
        }
        self.tail = slab;
        self.nr_partial += 1;
    }

    fn unlink<P: Platform>(&mut self, g: &PageHeap<P>, slab: u32) {
        let descriptor = g.region.descriptor(slab);
        let next = descriptor.next.load(Ordering::Relaxed);
        let prev = descriptor.prev.load(Ordering::Relaxed);
        if prev == NIL {
            self.head = next;
        } else {
            g.region.descriptor(prev).next.store(next, Ordering::Relaxed);
        }
        if next == NIL {
            self.tail = prev;
        } else {
            g.region.descriptor(next).prev.store(prev, Ordering::Relaxed);
        }
        descriptor.time.store(0, Ordering::Relaxed);
        self.nr_partial -= 1;
    }
}

/// Most empty slabs that end under one hold of the lock.
const ENDED_AT_ONCE: u32 = 16;
/// Value of a slab descriptor's `time` while the slab is on the partial list.
const LISTED: u32 = 1;

impl<P: Platform> PageSlabs<'_, P> {
    /// Fills a sheaf up to `want` objects: from partial slabs, and if these give
    /// nothing, from a new slab. Returns false if the sheaf is still empty.
    pub(super) fn refill(self, sheaf: &mut Sheaf, want: u32) -> bool {
        let room = want.min(self.heap.sheaves.room(sheaf)).saturating_sub(sheaf.len());
        let mut filling = self.heap.sheaves.filling(sheaf);
        self.take_objects(room, |begin, stride, mask| filling.push_each(begin, stride, mask));
        !sheaf.is_empty()
    }

    /// Takes up to `most` objects out of slabs, fewer where many slabs have one each; `f`
    /// gets the address of the first object of a bitmap word, the stride, and the bits of
    /// those that were taken. A cache that has few slabs makes one at most, and none while
    /// it has free objects: the caller may need a single one.
    ///
    /// If `most` is a word's objects or more, it takes whole words, and leaves the last word
    /// where that would be too many.
    pub(super) fn take_objects(self, most: u32, mut f: impl FnMut(usize, usize, u64)) {
        if most == 0 {
            return;
        }
        let whole = most >= Word::OBJECTS;
        let (mut missing, more) = self.take_partial(most, whole, &mut f);
        let least = if whole { Word::OBJECTS } else { 1 };
        while missing == most || missing >= least && !more && self.cache.is_busy() {
            match self.take_new(missing, whole, &mut f) {
                0 => break,
                taken => missing -= taken,
            }
        }
        self.cache.shown.out.fetch_add((most - missing).into(), Ordering::Relaxed);
    }

    /// Takes from the slabs on the partial list, one piece of work; returns how many objects
    /// are still missing, and whether the list may have more.
    fn take_partial(
        self,
        most: u32,
        whole: bool,
        f: &mut impl FnMut(usize, usize, u64),
    ) -> (u32, bool) {
        let geometry = &self.cache.shape().geometry;
        let mut missing = most;
        let mut looks = self.cache.shape().piece;
        let mut list = self.cache.partial.lock(&self.heap.platform);
        while missing > 0 && looks > 0 && list.head != NIL {
            looks -= 1;
            let slab = list.head;
            self.heap.region.fetch_descriptor_ahead(
                self.heap.region.descriptor(slab).next.load(Ordering::Relaxed),
            );
            let (taken, left) = take(self.heap, geometry, slab, missing, whole, &mut *f);
            missing -= taken;
            if left > 0 {
                return (missing, true);
            }
            list.unlink(self.heap, slab);
            self.publish_list(&list);
        }
        (missing, looks == 0)
    }

    /// Takes objects from a new slab; returns how many.
    fn take_new(self, most: u32, whole: bool, mut f: impl FnMut(usize, usize, u64)) -> u32 {
        let shape = self.cache.shape();
        let geometry = &shape.geometry;
        let Some(slab) = self.heap.take_block(geometry.order) else { return 0 };
        if let Some(constructor) = &shape.constructor {
            self.heap.construct(slab, geometry, constructor);
        }
        self.heap.begin_slab(slab, geometry, shape.slot);
        self.cache.shown.nr_slabs.fetch_add(1, Ordering::Relaxed);
        let (version, _) = self.heap.free_of(slab);
        let (taken, left) = take(self.heap, geometry, slab, most, whole, &mut f);
        if left > 0 {
            self.relist(slab, version);
        }
        taken
    }

    /// Allocates one object from the slabs and bypasses what is parked: for an engine without
    /// stacks, a CPU whose stack is stopped, and a thread that has no row.
    pub(super) fn alloc_direct(self) -> Option<usize> {
        let mut one = None;
        self.take_objects(1, |begin, stride, mask| {
            one = Some(begin + mask.trailing_zeros() as usize * stride);
        });
        one
    }

    /// Publishes the list's head and length to readers outside. Under its lock.
    fn publish_list(&self, list: &Partial) {
        self.cache.shown.nr_partial.store(list.nr_partial.into(), Ordering::Relaxed);
        self.cache.shown.partial_head.store(list.head.into(), Ordering::Relaxed);
    }

    /// True if the published words are those of the list (for `verify`).
    pub(crate) fn is_list_published(self) -> bool {
        let published = [&self.cache.shown.nr_partial, &self.cache.shown.partial_head];
        let list = self.cache.partial.lock(&self.heap.platform);
        published.map(|word| word.load(Ordering::Relaxed))
            == [u64::from(list.nr_partial), list.head.into()]
    }

    /// Lists a slab that has free objects, or ends one that is empty. Called whenever a slab
    /// stopped being full or became empty; checks under the lock that this is still so.
    pub(super) fn relist(self, slab: u32, version: Version) {
        let geometry = &self.cache.shape().geometry;
        let mut list = self.cache.partial.lock(&self.heap.platform);
        let (now, free) = self.heap.free_of(slab);
        if now != version || free == 0 {
            return;
        }
        let listed = self.heap.region.descriptor(slab).time.load(Ordering::Relaxed) == LISTED;
        let others = list.nr_partial - u32::from(listed);
        if free == geometry.objects && others >= self.cache.min_partial() {
            if listed {
                list.unlink(self.heap, slab);
                self.publish_list(&list);
            }
            self.heap.end_slab(slab, geometry);
            drop(list);
            self.cache.shown.nr_slabs.fetch_sub(1, Ordering::Relaxed);
            self.heap.free_block(slab, geometry.order);
        } else if !listed {
            list.append(self.heap, slab);
            self.publish_list(&list);
        }
    }

    /// Ends empty slabs, at most [`ENDED_AT_ONCE`], among the first `looks` slabs of the list;
    /// returns how many.
    fn discard_empty(self, looks: u32) -> u32 {
        let geometry = &self.cache.shape().geometry;
        let mut batch = [0u32; ENDED_AT_ONCE as usize];
        let (mut n, mut looked) = (0, 0);
        let mut list = self.cache.partial.lock(&self.heap.platform);
        let mut at = list.head;
        while at != NIL && n < batch.len() && looked < looks {
            let next = self.heap.region.descriptor(at).next.load(Ordering::Relaxed);
            if self.heap.free_of(at).1 == geometry.objects {
                list.unlink(self.heap, at);
                self.heap.end_slab(at, geometry);
                batch[n] = at;
                n += 1;
            }
            at = next;
            looked += 1;
        }
        self.publish_list(&list);
        drop(list);
        for slab in &batch[..n] {
            self.cache.shown.nr_slabs.fetch_sub(1, Ordering::Relaxed);
            self.heap.free_block(*slab, geometry.order);
        }
        n as u32
    }

    /// Ends some of the empty slabs that the list kept for the next allocations, at most
    /// [`ENDED_AT_ONCE`]. Returns how many.
    pub(super) fn discard_some_empty(self) -> u32 {
        if self.cache.nr_slabs() == 0 {
            return 0;
        }
        // An empty slab stays only while fewer than `min_partial` others are listed, and is
        // appended at the tail: the slabs behind these were not empty when they came.
        self.discard_empty(self.cache.min_partial().saturating_add(ENDED_AT_ONCE))
    }

    /// Ends all empty slabs.
    pub(super) fn discard_all_empty(self) {
        while self.discard_empty(u32::MAX) == ENDED_AT_ONCE {}
    }

    /// Calls `f` with each slab on the partial list and its free objects.
    pub fn each_partial(self, mut f: impl FnMut(u32, u32)) {
        let list = self.cache.partial.lock(&self.heap.platform);
        let mut at = list.head;
        while at != NIL {
            f(at, self.heap.free_of(at).1);
            at = self.heap.region.descriptor(at).next.load(Ordering::Relaxed);
        }
    }

    /// Slabs on the partial list, as counted.
    pub fn nr_partial(self) -> u32 {
        self.cache.partial.lock(&self.heap.platform).nr_partial
    }
}

/// As [`PageHeap::take`]; `f` gets the address of the word's first object, the stride and
/// the bits that were taken.
fn take<P: Platform>(
    g: &PageHeap<P>,
    geometry: &Geometry,
    slab: u32,
    most: u32,
    whole: bool,
    f: &mut impl FnMut(usize, usize, u64),
) -> (u32, u32) {
    let begin = g.region.address(slab);
    let first = |word: Word| geometry.address_of(begin, word.index_of(0));
    g.take(slab, most, whole, |word, mask| f(first(word), geometry.size as usize, mask))
}
