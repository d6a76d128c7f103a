//! The barn: one node's full and empty sheaves of a cache, which CPUs exchange whole with it.
//!
//! Neighbours: [`super::alloc`] takes full sheaves, [`super::free`] puts them, [`super::age`]
//! flushes the unused ones; [`super::working_set`] sets the limit.

use super::Sheaves;
use crate::engine::{Header, PageSlabs};
use crate::pages::sheaf::NO_SHEAF;
use crate::pages::{PageHeap, Sheaf};
use crate::platform::Platform;
use crate::sync::{AtomicU64, Ordering};

/// Most full sheaves of a barn until its limit follows use ([`super::working_set`]). SLUB
/// 6.18 has 10 of 32 objects; ours are much larger.
const MOST_FULL: u32 = 2;
/// A barn keeps no objects above this many bytes: there are few of them, and two sheaves
/// may be more than all that live. To return them to their slabs costs little beside
/// their use.
const LARGEST: u32 = 1024;

/// The first limit of full sheaves in the barn, for objects of so many bytes.
pub(super) const fn most_full(size: u32) -> u32 {
    if size <= LARGEST { MOST_FULL } else { 0 }
}

/// Most empty sheaves of a barn, until another number is set.
pub(super) const MOST_EMPTY: u32 = 2;

pub(super) struct Barn {
    full: u32,
    nr_full: u32,
    /// Least `nr_full` since the last reclaim pass: that many sheaves were unused (the
    /// depot's working set of Bonwick and Adams, USENIX 2001).
    least_full: u32,
    /// Objects in the full sheaves.
    objects: u64,
    empty: u32,
    nr_empty: u32,
}

impl Barn {
    pub(super) const fn new() -> Self {
        let (full, empty) = (NO_SHEAF, NO_SHEAF);
        Barn { full, nr_full: 0, least_full: 0, objects: 0, empty, nr_empty: 0 }
    }

    fn take_full<P: Platform>(&mut self, g: &PageHeap<P>) -> Option<Sheaf> {
        let full = g.sheaves.unlink(&mut self.full)?;
        self.nr_full -= 1;
        self.least_full = self.least_full.min(self.nr_full);
        self.objects -= u64::from(full.len());
        Some(full)
    }

    fn put_full<P: Platform>(&mut self, g: &PageHeap<P>, full: Sheaf) {
        self.objects += u64::from(full.len());
        g.sheaves.link(&mut self.full, full);
        self.nr_full += 1;
    }

    fn take_empty<P: Platform>(&mut self, g: &PageHeap<P>) -> Option<Sheaf> {
        let empty = g.sheaves.unlink(&mut self.empty)?;
        self.nr_empty -= 1;
        Some(empty)
    }

    fn put_empty<P: Platform>(&mut self, g: &PageHeap<P>, empty: Sheaf) {
        g.sheaves.link(&mut self.empty, empty);
        self.nr_empty += 1;
    }
}

impl Sheaves {
    fn bytes_of(cache: &Header, sheaf: &Sheaf) -> usize {
        sheaf.len() as usize * cache.shape().geometry.size as usize
    }

    /// Publishes the barn's counts to readers outside. Under its lock.
    fn publish_barn(cache: &Header, barn: &Barn) {
        let shown = &cache.shown;
        shown.barn_objects.store(barn.objects, Ordering::Relaxed);
        shown.barn_full.store(barn.nr_full.into(), Ordering::Relaxed);
        shown.barn_empty.store(barn.nr_empty.into(), Ordering::Relaxed);
        shown.barn_head.store(barn.full.into(), Ordering::Relaxed);
    }

    pub(super) fn is_barn_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let shown = &on.cache.shown;
        let words = [&shown.barn_objects, &shown.barn_full, &shown.barn_empty, &shown.barn_head];
        let published = words.map(|word| word.load(Ordering::Relaxed));
        let mut objects = 0;
        self.each_in_barn(on, |_| objects += 1);
        let barn = self.barn.lock(&on.heap.platform);
        published == [objects, barn.nr_full.into(), barn.nr_empty.into(), barn.full.into()]
    }

    /// Most full and most empty sheaves of the barn.
    pub fn barn_limits(cache: &Header) -> (u32, u32) {
        let limit = |word: &AtomicU64| word.load(Ordering::Relaxed) as u32;
        (limit(&cache.shown.barn_full_limit), limit(&cache.shown.barn_empty_limit))
    }

    /// Sets the limit of full sheaves, which no longer follows use; the next shrink or
    /// reclaim pass flushes what is above it.
    pub fn set_barn_full_limit<P: Platform>(&self, on: PageSlabs<'_, P>, sheaves: u32) {
        let _barn = self.barn.lock(&on.heap.platform);
        self.working_set.fix();
        on.cache.shown.barn_full_limit.store(sheaves.into(), Ordering::Relaxed);
    }

    /// True if the barn takes one more full sheaf, as of a moment ago.
    pub(super) fn barn_has_room<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        let bytes = (on.cache.sheaf_capacity() * on.cache.shape().geometry.size) as usize;
        on.cache.shown.barn_full.load(Ordering::Relaxed)
            < on.cache.shown.barn_full_limit.load(Ordering::Relaxed)
            && on.heap.parked_node_bytes.load(Ordering::Relaxed) + bytes <= on.heap.node_limit()
    }

    /// True if the barn has room for an empty sheaf, and the sheaf is not smaller than the
    /// capacity is by now.
    fn keeps_empty<P: Platform>(on: PageSlabs<'_, P>, barn: &Barn, empty: &Sheaf) -> bool {
        barn.nr_empty < Self::barn_limits(on.cache).1
            && on.heap.sheaves.room(empty) >= on.cache.sheaf_capacity()
    }

    /// Exchanges an empty sheaf for a full one.
    ///
    /// # Errors
    /// Gives the empty one back if there is no full one.
    pub(super) fn barn_swap<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        empty: Sheaf,
    ) -> Result<Sheaf, Sheaf> {
        let mut barn = self.barn.lock(&on.heap.platform);
        let Some(full) = barn.take_full(on.heap) else { return Err(empty) };
        let surplus = if Self::keeps_empty(on, &barn, &empty) {
            barn.put_empty(on.heap, empty);
            None
        } else {
            Some(empty)
        };
        Self::publish_barn(on.cache, &barn);
        drop(barn);
        on.heap.parked_node_bytes.fetch_sub(Self::bytes_of(on.cache, &full), Ordering::Relaxed);
        if let Some(empty) = surplus {
            on.heap.sheaves.give(&on.heap.platform, empty);
        }
        Ok(full)
    }

    /// Takes a full sheaf, if there is one.
    pub(super) fn barn_take_full<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<Sheaf> {
        let mut barn = self.barn.lock(&on.heap.platform);
        let sheaf = barn.take_full(on.heap)?;
        Self::publish_barn(on.cache, &barn);
        drop(barn);
        on.heap.parked_node_bytes.fetch_sub(Self::bytes_of(on.cache, &sheaf), Ordering::Relaxed);
        Some(sheaf)
    }

    /// Exchanges a full sheaf for an empty one.
    ///
    /// # Errors
    /// Gives the sheaf back if the barn or the yard is at its limit, or there is no memory
    /// for an empty sheaf.
    pub(super) fn barn_put_full<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        full: Sheaf,
    ) -> Result<Sheaf, Sheaf> {
        let (most_full, _) = Self::barn_limits(on.cache);
        let bytes = Self::bytes_of(on.cache, &full);
        if on.heap.parked_node_bytes.load(Ordering::Relaxed) + bytes > on.heap.node_limit() {
            return Err(full);
        }
        // A new sheaf may need a system call, so the loop makes it without the lock, and
        // gives it back if the barn has become full meanwhile.
        let mut new = None;
        let (mut barn, empty) = loop {
            let mut barn = self.barn.lock(&on.heap.platform);
            if barn.nr_full >= most_full {
                drop(barn);
                if let Some(new) = new {
                    on.heap.sheaves.give(&on.heap.platform, new);
                }
                return Err(full);
            }
            if let Some(empty) = new.take() {
                break (barn, empty);
            }
            if let Some(empty) = barn.take_empty(on.heap) {
                break (barn, empty);
            }
            drop(barn);
            new = on.heap.sheaves.take(&on.heap.platform, on.cache.sheaf_capacity());
            if new.is_none() {
                return Err(full);
            }
        };
        barn.put_full(on.heap, full);
        Self::publish_barn(on.cache, &barn);
        // Before the lock is released: whoever takes the sheaf subtracts.
        on.heap.parked_node_bytes.fetch_add(bytes, Ordering::Relaxed);
        drop(barn);
        Ok(empty)
    }

    /// An empty sheaf, from the barn or new; `None` without memory.
    pub(super) fn barn_take_empty<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<Sheaf> {
        let mut barn = self.barn.lock(&on.heap.platform);
        if let Some(sheaf) = barn.take_empty(on.heap) {
            Self::publish_barn(on.cache, &barn);
            return Some(sheaf);
        }
        drop(barn);
        on.heap.sheaves.take(&on.heap.platform, on.cache.sheaf_capacity())
    }

    /// Puts an empty sheaf, into the barn or, if it has enough, into the pool.
    pub(super) fn barn_put_empty<P: Platform>(&self, on: PageSlabs<'_, P>, sheaf: Sheaf) {
        let mut barn = self.barn.lock(&on.heap.platform);
        if Self::keeps_empty(on, &barn, &sheaf) {
            barn.put_empty(on.heap, sheaf);
            Self::publish_barn(on.cache, &barn);
            return;
        }
        drop(barn);
        on.heap.sheaves.give(&on.heap.platform, sheaf);
    }

    /// Puts a surplus sheaf with objects, whatever the limits say: the next reclaim pass
    /// flushes what is too much, not the call that found it.
    pub(super) fn barn_keep<P: Platform>(&self, on: PageSlabs<'_, P>, sheaf: Sheaf) {
        let bytes = Self::bytes_of(on.cache, &sheaf);
        let mut barn = self.barn.lock(&on.heap.platform);
        barn.put_full(on.heap, sheaf);
        Self::publish_barn(on.cache, &barn);
        on.heap.parked_node_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Puts back a sheaf whose top objects were flushed.
    pub(super) fn barn_put_rest<P: Platform>(&self, on: PageSlabs<'_, P>, sheaf: Sheaf) {
        let bytes = Self::bytes_of(on.cache, &sheaf);
        let mut barn = self.barn.lock(&on.heap.platform);
        // The others were all unused meanwhile: so was this one, as if it had never left.
        if barn.least_full == barn.nr_full {
            barn.least_full += 1;
        }
        barn.put_full(on.heap, sheaf);
        Self::publish_barn(on.cache, &barn);
        on.heap.parked_node_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Full sheaves that were unused since the last call, or are above the limit.
    pub(super) fn barn_unused<P: Platform>(&self, on: PageSlabs<'_, P>) -> u32 {
        let mut barn = self.barn.lock(&on.heap.platform);
        let unused = core::mem::replace(&mut barn.least_full, u32::MAX).min(barn.nr_full);
        self.lower_limit(on.cache, unused);
        unused.max(barn.nr_full.saturating_sub(Self::barn_limits(on.cache).0))
    }

    /// Gives the memory of empty sheaves back to the pool.
    pub fn barn_forget_empty<P: Platform>(&self, on: PageSlabs<'_, P>) {
        loop {
            let mut barn = self.barn.lock(&on.heap.platform);
            let Some(sheaf) = barn.take_empty(on.heap) else {
                return;
            };
            Self::publish_barn(on.cache, &barn);
            drop(barn);
            on.heap.sheaves.give(&on.heap.platform, sheaf);
        }
    }

    /// Full sheaves in the barn.
    pub fn nr_full<P: Platform>(&self, on: PageSlabs<'_, P>) -> u32 {
        self.barn.lock(&on.heap.platform).nr_full
    }

    /// Calls `f` with each object in the barn.
    pub fn each_in_barn<P: Platform>(&self, on: PageSlabs<'_, P>, f: impl FnMut(usize)) {
        let barn = self.barn.lock(&on.heap.platform);
        on.heap.sheaves.each_listed(barn.full, f);
    }
}
