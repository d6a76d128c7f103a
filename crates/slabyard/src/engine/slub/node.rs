//! The node's partial list, and the slabs on it.
//!
//! A refill takes slabs from the head, and a free appends them at the tail, as in SLUB: a
//! slab that just got its first free object waits there for more of them.
//!
//! Neighbours: [`super::alloc`] refills from here, [`super::flush`] relists slabs, and
//! [`super::age`] ends the empty ones.

use super::Cache;
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
pub const ENDED_AT_ONCE: u32 = 16;
/// Value of a slab descriptor's `time` while the slab is on the partial list.
const LISTED: u32 = 1;

impl Cache {
    /// Fills a sheaf up to `want` objects: from partial slabs, and if these give
    /// nothing, from a new slab. Returns false if the sheaf is still empty.
    pub(super) fn refill<P: Platform>(
        &self,
        g: &PageHeap<P>,
        sheaf: &mut Sheaf,
        want: u32,
    ) -> bool {
        let room = want.min(g.sheaves.room(sheaf)).saturating_sub(sheaf.len());
        let mut filling = g.sheaves.filling(sheaf);
        self.take_objects(g, room, |begin, stride, mask| filling.push_each(begin, stride, mask));
        !sheaf.is_empty()
    }

    /// Takes up to `most` objects out of slabs, fewer where many slabs have one each; `f`
    /// gets the address of the first object of a bitmap word, the stride, and the bits of
    /// those that were taken. A cache that has few slabs makes one at most, and none while
    /// it has free objects: the caller may need a single one.
    ///
    /// If `most` is a word's objects or more, it takes whole words, and leaves the last word
    /// where that would be too many.
    pub(super) fn take_objects<P: Platform>(
        &self,
        g: &PageHeap<P>,
        most: u32,
        mut f: impl FnMut(usize, usize, u64),
    ) {
        if most == 0 {
            return;
        }
        let whole = most >= Word::OBJECTS;
        let (mut missing, more) = self.take_partial(g, most, whole, &mut f);
        let least = if whole { Word::OBJECTS } else { 1 };
        while missing == most || missing >= least && !more && self.is_busy() {
            match self.take_new(g, missing, whole, &mut f) {
                0 => break,
                taken => missing -= taken,
            }
        }
        self.shown.out.fetch_add((most - missing).into(), Ordering::Relaxed);
    }

    /// Takes from the slabs on the partial list, one piece of work; returns how many objects
    /// are still missing, and whether the list may have more.
    fn take_partial<P: Platform>(
        &self,
        g: &PageHeap<P>,
        most: u32,
        whole: bool,
        f: &mut impl FnMut(usize, usize, u64),
    ) -> (u32, bool) {
        let geometry = &self.shape().geometry;
        let mut missing = most;
        let mut looks = self.shape().piece;
        let mut list = self.partial.lock(&g.platform);
        while missing > 0 && looks > 0 && list.head != NIL {
            looks -= 1;
            let slab = list.head;
            g.region.fetch_descriptor_ahead(g.region.descriptor(slab).next.load(Ordering::Relaxed));
            let (taken, left) = take(g, geometry, slab, missing, whole, &mut *f);
            missing -= taken;
            if left > 0 {
                return (missing, true);
            }
            list.unlink(g, slab);
            self.publish_list(&list);
        }
        (missing, looks == 0)
    }

    /// Takes objects from a new slab; returns how many.
    fn take_new<P: Platform>(
        &self,
        g: &PageHeap<P>,
        most: u32,
        whole: bool,
        mut f: impl FnMut(usize, usize, u64),
    ) -> u32 {
        let shape = self.shape();
        let geometry = &shape.geometry;
        let Some(slab) = g.take_block(geometry.order) else { return 0 };
        g.begin_slab(slab, geometry, shape.slot);
        self.shown.nr_slabs.fetch_add(1, Ordering::Relaxed);
        let (version, _) = g.free_of(slab);
        let (taken, left) = take(g, geometry, slab, most, whole, &mut f);
        if left > 0 {
            self.relist(g, slab, version);
        }
        taken
    }

    /// Publishes the list's head and length to readers outside. Under its lock.
    fn publish_list(&self, list: &Partial) {
        self.shown.nr_partial.store(list.nr_partial.into(), Ordering::Relaxed);
        self.shown.partial_head.store(list.head.into(), Ordering::Relaxed);
    }

    /// True if the published words are those of the list and the barn (for `verify`).
    pub fn is_published<P: Platform>(&self, g: &PageHeap<P>) -> bool {
        let published = [&self.shown.nr_partial, &self.shown.partial_head];
        let list = {
            let list = self.partial.lock(&g.platform);
            [u64::from(list.nr_partial), list.head.into()]
        };
        published.map(|word| word.load(Ordering::Relaxed)) == list && self.is_barn_published(g)
    }

    /// Lists a slab that has free objects, or ends one that is empty. Called whenever a slab
    /// stopped being full or became empty; checks under the lock that this is still so.
    pub(super) fn relist<P: Platform>(&self, g: &PageHeap<P>, slab: u32, version: Version) {
        let geometry = &self.shape().geometry;
        let mut list = self.partial.lock(&g.platform);
        let (now, free) = g.free_of(slab);
        if now != version || free == 0 {
            return;
        }
        let listed = g.region.descriptor(slab).time.load(Ordering::Relaxed) == LISTED;
        let others = list.nr_partial - u32::from(listed);
        if free == geometry.objects && others >= self.min_partial() {
            if listed {
                list.unlink(g, slab);
                self.publish_list(&list);
            }
            g.end_slab(slab, geometry);
            drop(list);
            self.shown.nr_slabs.fetch_sub(1, Ordering::Relaxed);
            g.free_block(slab, geometry.order);
        } else if !listed {
            list.append(g, slab);
            self.publish_list(&list);
        }
    }

    /// Ends empty slabs, at most [`ENDED_AT_ONCE`], among the first `looks` slabs of the list;
    /// returns how many.
    pub(super) fn discard_empty<P: Platform>(&self, g: &PageHeap<P>, looks: u32) -> u32 {
        let geometry = &self.shape().geometry;
        let mut batch = [0u32; ENDED_AT_ONCE as usize];
        let (mut n, mut looked) = (0, 0);
        let mut list = self.partial.lock(&g.platform);
        let mut at = list.head;
        while at != NIL && n < batch.len() && looked < looks {
            let next = g.region.descriptor(at).next.load(Ordering::Relaxed);
            if g.free_of(at).1 == geometry.objects {
                list.unlink(g, at);
                g.end_slab(at, geometry);
                batch[n] = at;
                n += 1;
            }
            at = next;
            looked += 1;
        }
        self.publish_list(&list);
        drop(list);
        for slab in &batch[..n] {
            self.shown.nr_slabs.fetch_sub(1, Ordering::Relaxed);
            g.free_block(*slab, geometry.order);
        }
        n as u32
    }

    /// Calls `f` with each slab on the partial list and its free objects.
    pub fn each_partial<P: Platform>(&self, g: &PageHeap<P>, mut f: impl FnMut(u32, u32)) {
        let list = self.partial.lock(&g.platform);
        let mut at = list.head;
        while at != NIL {
            f(at, g.free_of(at).1);
            at = g.region.descriptor(at).next.load(Ordering::Relaxed);
        }
    }

    /// Slabs on the partial list, as counted.
    pub fn nr_partial<P: Platform>(&self, g: &PageHeap<P>) -> u32 {
        self.partial.lock(&g.platform).nr_partial
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
