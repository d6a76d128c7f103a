//! The barn: one node's full and empty sheaves of a cache, which CPUs exchange whole with it.
//!
//! Neighbours: [`super::alloc`] takes full sheaves, [`super::free`] puts them, [`super::age`]
//! flushes the unused ones; [`super::working_set`] sets the limit.

use super::Cache;
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

impl Cache {
    fn bytes_of(&self, sheaf: &Sheaf) -> usize {
        sheaf.len() as usize * self.shape().geometry.size as usize
    }

    /// Publishes the barn's counts to readers outside. Under its lock.
    fn publish_barn(&self, barn: &Barn) {
        let shown = &self.shown;
        shown.barn_objects.store(barn.objects, Ordering::Relaxed);
        shown.barn_full.store(barn.nr_full.into(), Ordering::Relaxed);
        shown.barn_empty.store(barn.nr_empty.into(), Ordering::Relaxed);
        shown.barn_head.store(barn.full.into(), Ordering::Relaxed);
    }

    pub(super) fn is_barn_published<P: Platform>(&self, g: &PageHeap<P>) -> bool {
        let shown = &self.shown;
        let words = [&shown.barn_objects, &shown.barn_full, &shown.barn_empty, &shown.barn_head];
        let published = words.map(|word| word.load(Ordering::Relaxed));
        let mut objects = 0;
        self.each_parked_node(g, |_| objects += 1);
        let barn = self.barn.lock(&g.platform);
        published == [objects, barn.nr_full.into(), barn.nr_empty.into(), barn.full.into()]
    }

    /// Most full and most empty sheaves of the barn.
    pub fn barn_limits(&self) -> (u32, u32) {
        let limit = |word: &AtomicU64| word.load(Ordering::Relaxed) as u32;
        (limit(&self.shown.barn_full_limit), limit(&self.shown.barn_empty_limit))
    }

    /// Sets the limit of full sheaves, which no longer follows use; the next shrink or
    /// reclaim pass flushes what is above it.
    pub fn set_barn_full_limit<P: Platform>(&self, g: &PageHeap<P>, sheaves: u32) {
        let _barn = self.barn.lock(&g.platform);
        self.working_set.fix();
        self.shown.barn_full_limit.store(sheaves.into(), Ordering::Relaxed);
    }

    /// Sets the limit of empty sheaves, for the next ones that come.
    pub fn set_barn_empty_limit(&self, sheaves: u32) {
        self.shown.barn_empty_limit.store(sheaves.into(), Ordering::Relaxed);
    }

    /// True if the barn takes one more full sheaf, as of a moment ago.
    pub(super) fn barn_has_room<P: Platform>(&self, g: &PageHeap<P>) -> bool {
        let bytes = (self.sheaf_capacity() * self.shape().geometry.size) as usize;
        self.shown.barn_full.load(Ordering::Relaxed)
            < self.shown.barn_full_limit.load(Ordering::Relaxed)
            && g.parked_node_bytes.load(Ordering::Relaxed) + bytes <= g.node_limit()
    }

    /// True if the barn has room for an empty sheaf, and the sheaf is not smaller than the
    /// capacity is by now.
    fn keeps_empty<P: Platform>(&self, g: &PageHeap<P>, barn: &Barn, empty: &Sheaf) -> bool {
        barn.nr_empty < self.barn_limits().1 && g.sheaves.room(empty) >= self.sheaf_capacity()
    }

    /// Exchanges an empty sheaf for a full one.
    ///
    /// # Errors
    /// Gives the empty one back if there is no full one.
    pub(super) fn barn_swap<P: Platform>(
        &self,
        g: &PageHeap<P>,
        empty: Sheaf,
    ) -> Result<Sheaf, Sheaf> {
        let mut barn = self.barn.lock(&g.platform);
        let Some(full) = barn.take_full(g) else { return Err(empty) };
        let surplus = if self.keeps_empty(g, &barn, &empty) {
            barn.put_empty(g, empty);
            None
        } else {
            Some(empty)
        };
        self.publish_barn(&barn);
        drop(barn);
        g.parked_node_bytes.fetch_sub(self.bytes_of(&full), Ordering::Relaxed);
        if let Some(empty) = surplus {
            g.sheaves.give(&g.platform, empty);
        }
        Ok(full)
    }

    /// Takes a full sheaf, if there is one.
    pub(super) fn barn_take_full<P: Platform>(&self, g: &PageHeap<P>) -> Option<Sheaf> {
        let mut barn = self.barn.lock(&g.platform);
        let sheaf = barn.take_full(g)?;
        self.publish_barn(&barn);
        drop(barn);
        g.parked_node_bytes.fetch_sub(self.bytes_of(&sheaf), Ordering::Relaxed);
        Some(sheaf)
    }

    /// Exchanges a full sheaf for an empty one.
    ///
    /// # Errors
    /// Gives the sheaf back if the barn or the yard is at its limit, or there is no memory
    /// for an empty sheaf.
    pub(super) fn barn_put_full<P: Platform>(
        &self,
        g: &PageHeap<P>,
        full: Sheaf,
    ) -> Result<Sheaf, Sheaf> {
        let (most_full, _) = self.barn_limits();
        let bytes = self.bytes_of(&full);
        if g.parked_node_bytes.load(Ordering::Relaxed) + bytes > g.node_limit() {
            return Err(full);
        }
        // A new sheaf may need a system call, so the loop makes it without the lock, and
        // gives it back if the barn has become full meanwhile.
        let mut new = None;
        let (mut barn, empty) = loop {
            let mut barn = self.barn.lock(&g.platform);
            if barn.nr_full >= most_full {
                drop(barn);
                if let Some(new) = new {
                    g.sheaves.give(&g.platform, new);
                }
                return Err(full);
            }
            if let Some(empty) = new.take() {
                break (barn, empty);
            }
            if let Some(empty) = barn.take_empty(g) {
                break (barn, empty);
            }
            drop(barn);
            new = g.sheaves.take(&g.platform, self.sheaf_capacity());
            if new.is_none() {
                return Err(full);
            }
        };
        barn.put_full(g, full);
        self.publish_barn(&barn);
        // Before the lock is released: whoever takes the sheaf subtracts.
        g.parked_node_bytes.fetch_add(bytes, Ordering::Relaxed);
        drop(barn);
        Ok(empty)
    }

    /// An empty sheaf, from the barn or new; `None` without memory.
    pub(super) fn barn_take_empty<P: Platform>(&self, g: &PageHeap<P>) -> Option<Sheaf> {
        let mut barn = self.barn.lock(&g.platform);
        if let Some(sheaf) = barn.take_empty(g) {
            self.publish_barn(&barn);
            return Some(sheaf);
        }
        drop(barn);
        g.sheaves.take(&g.platform, self.sheaf_capacity())
    }

    /// Puts an empty sheaf, into the barn or, if it has enough, into the pool.
    pub(super) fn barn_put_empty<P: Platform>(&self, g: &PageHeap<P>, sheaf: Sheaf) {
        let mut barn = self.barn.lock(&g.platform);
        if self.keeps_empty(g, &barn, &sheaf) {
            barn.put_empty(g, sheaf);
            self.publish_barn(&barn);
            return;
        }
        drop(barn);
        g.sheaves.give(&g.platform, sheaf);
    }

    /// Puts a surplus sheaf with objects, whatever the limits say: the next reclaim pass
    /// flushes what is too much, not the call that found it.
    pub(super) fn barn_keep<P: Platform>(&self, g: &PageHeap<P>, sheaf: Sheaf) {
        let bytes = self.bytes_of(&sheaf);
        let mut barn = self.barn.lock(&g.platform);
        barn.put_full(g, sheaf);
        self.publish_barn(&barn);
        g.parked_node_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Puts back a sheaf whose top objects were flushed.
    pub(super) fn barn_put_rest<P: Platform>(&self, g: &PageHeap<P>, sheaf: Sheaf) {
        let bytes = self.bytes_of(&sheaf);
        let mut barn = self.barn.lock(&g.platform);
        // The others were all unused meanwhile: so was this one, as if it had never left.
        if barn.least_full == barn.nr_full {
            barn.least_full += 1;
        }
        barn.put_full(g, sheaf);
        self.publish_barn(&barn);
        g.parked_node_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Full sheaves that were unused since the last call, or are above the limit.
    pub(super) fn barn_unused<P: Platform>(&self, g: &PageHeap<P>) -> u32 {
        let mut barn = self.barn.lock(&g.platform);
        let unused = core::mem::replace(&mut barn.least_full, u32::MAX).min(barn.nr_full);
        self.lower_limit(unused);
        unused.max(barn.nr_full.saturating_sub(self.barn_limits().0))
    }

    /// Gives the memory of empty sheaves back to the pool.
    pub fn barn_forget_empty<P: Platform>(&self, g: &PageHeap<P>) {
        loop {
            let mut barn = self.barn.lock(&g.platform);
            let Some(sheaf) = barn.take_empty(g) else {
                return;
            };
            self.publish_barn(&barn);
            drop(barn);
            g.sheaves.give(&g.platform, sheaf);
        }
    }

    /// Full sheaves in the barn.
    pub fn nr_full<P: Platform>(&self, g: &PageHeap<P>) -> u32 {
        self.barn.lock(&g.platform).nr_full
    }

    /// Calls `f` with each object in the barn.
    pub fn each_parked_node<P: Platform>(&self, g: &PageHeap<P>, f: impl FnMut(usize)) {
        let barn = self.barn.lock(&g.platform);
        g.sheaves.each_listed(barn.full, f);
    }
}
