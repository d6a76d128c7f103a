//! The node's side of exchanges: adds full and empty sheaves to the barn and takes them out.
//!
//! Neighbours: [`super::barn`] keeps them; [`super::alloc`] and [`super::free`] exchange.

use super::NodeSheaves;
use crate::engine::Header;
use crate::engine::header::BarnWords;
use crate::engine::page_slabs::{PageSlabs, Ruled};
use crate::engine::sheaves::barn::Barn;
use crate::engine::slabs::{Held, NodeList, Stacks};
use crate::platform::Platform;
use crate::sync::Ordering;
use slabyard_abi::stats::Counter;

impl NodeSheaves {
    /// In the child of a fork: counts what the barn's lists hold, which one store changes, whoever
    /// has its lock. Returns how many objects.
    pub(in crate::engine) fn count_barn_anew<P: Platform, R: Ruled>(
        &self,
        on: PageSlabs<'_, P, R>,
    ) -> u64 {
        self.barn.abandon();
        let mut barn = self.barn.lock(on.park());
        let [full, empty] = [barn.full, barn.empty].map(|head| on.heap.sheaves.count_listed(head));
        (barn.nr_full, barn.objects, barn.nr_empty) = (full.0, full.1, empty.0);
        barn.least_full = barn.least_full.min(barn.nr_full);
        Self::publish_barn(on, &barn);
        barn.objects
    }
}

impl<C> NodeSheaves<C> {
    fn bytes_of(cache: &Header, sheaf: &impl Held) -> usize {
        sheaf.len() as usize * cache.shape().geometry.size as usize
    }

    /// Publishes the barn's counts to readers outside. Under its lock.
    fn publish_barn<S: Stacks<Chain = C>>(on: S, barn: &Barn<C>) {
        on.cache().publish_barn(on.shown_node(), barn.words(on));
    }

    /// The barn's counts (for `verify`): its objects are those found in it, with each of which it
    /// calls `f`.
    pub(in crate::engine) fn barn_words<S: Stacks<Chain = C>>(
        &self,
        on: S,
        mut f: impl FnMut(S::Object),
    ) -> BarnWords {
        let mut objects = 0;
        self.each_in_barn(on, |object| {
            objects += 1;
            f(object);
        });
        BarnWords { objects, ..self.barn.lock(on.park()).words(on) }
    }

    /// Sets the limit of full sheaves, which no longer follows use; the next shrink or
    /// reclaim pass flushes what is above it.
    pub fn set_barn_full_limit<S: Stacks<Chain = C>>(&self, on: S, sheaves: u32) {
        let _barn = self.barn.lock(on.park());
        self.working_set.fix();
        on.cache().set_barn_full_limit(on.shown_node(), sheaves);
    }

    /// True if the barn takes one more full sheaf, as of a moment ago.
    pub fn barn_has_room<S: Stacks<Chain = C>>(&self, on: S) -> bool {
        let bytes = (on.cache().sheaf_capacity() * on.cache().shape().geometry.size) as usize;
        on.cache().barn_full(on.shown_node()) < on.cache().barn_full_limit(on.shown_node())
            && on.node_bytes().load(Ordering::Relaxed) + bytes <= on.node_limit()
    }

    /// True if the barn has room for an empty sheaf, and the sheaf is not smaller than the
    /// capacity is by now.
    fn keeps_empty<S: Stacks<Chain = C>>(on: S, barn: &Barn<C>, empty: &S::Sheaf) -> bool {
        barn.nr_empty < on.cache().barn_limits().1 && on.room(empty) >= on.cache().sheaf_capacity()
    }

    /// Exchanges an empty sheaf for a full one.
    ///
    /// # Errors
    /// Gives the empty one back if there is no full one.
    pub(super) fn barn_swap<S: Stacks<Chain = C>>(
        &self,
        on: S,
        empty: S::Sheaf,
    ) -> Result<S::Sheaf, S::Sheaf> {
        let mut barn = self.barn.lock(on.park());
        let Some(full) = barn.take_full(on) else {
            on.count(Counter::BarnGetFail, 1);
            return Err(empty);
        };
        on.count(Counter::BarnGet, 1);
        let surplus = if Self::keeps_empty(on, &barn, &empty) {
            barn.put_empty(on, empty);
            None
        } else {
            Some(empty)
        };
        Self::publish_barn(on, &barn);
        drop(barn);
        on.node_bytes().fetch_sub(Self::bytes_of(on.cache(), &full), Ordering::Relaxed);
        if let Some(empty) = surplus {
            on.give_sheaf(empty);
        }
        Ok(full)
    }

    /// Takes a full sheaf, if there is one.
    pub fn barn_take_full<S: Stacks<Chain = C>>(&self, on: S) -> Option<S::Sheaf> {
        let mut barn = self.barn.lock(on.park());
        let sheaf = barn.take_full(on)?;
        Self::publish_barn(on, &barn);
        drop(barn);
        on.node_bytes().fetch_sub(Self::bytes_of(on.cache(), &sheaf), Ordering::Relaxed);
        Some(sheaf)
    }

    /// Exchanges a full sheaf for an empty one.
    ///
    /// # Errors
    /// Gives the sheaf back if the barn or the yard is at its limit, or there is no memory
    /// for an empty sheaf.
    pub fn barn_put_full<S: Stacks<Chain = C>>(
        &self,
        on: S,
        full: S::Sheaf,
    ) -> Result<S::Sheaf, S::Sheaf> {
        let most_full = on.cache().barn_full_limit(on.shown_node());
        let bytes = Self::bytes_of(on.cache(), &full);
        if on.node_bytes().load(Ordering::Relaxed) + bytes > on.node_limit() {
            return Err(full);
        }
        // A new sheaf may need a system call, so the loop makes it without the lock, and
        // gives it back if the barn has become full meanwhile.
        let mut new = None;
        let (mut barn, empty) = loop {
            let mut barn = self.barn.lock(on.park());
            if barn.nr_full >= most_full {
                drop(barn);
                if let Some(new) = new {
                    on.give_sheaf(new);
                }
                return Err(full);
            }
            if let Some(empty) = new.take() {
                break (barn, empty);
            }
            if let Some(empty) = barn.take_empty(on) {
                break (barn, empty);
            }
            drop(barn);
            new = on.new_sheaf(on.cache().sheaf_capacity());
            if new.is_none() {
                return Err(full);
            }
        };
        barn.put_full(on, full);
        on.count(Counter::BarnPut, 1);
        Self::publish_barn(on, &barn);
        // Before the lock is released: whoever takes the sheaf subtracts.
        on.node_bytes().fetch_add(bytes, Ordering::Relaxed);
        drop(barn);
        Ok(empty)
    }

    /// An empty sheaf, from the barn or new; `None` without memory.
    pub fn barn_take_empty<S: Stacks<Chain = C>>(&self, on: S) -> Option<S::Sheaf> {
        let mut barn = self.barn.lock(on.park());
        if let Some(sheaf) = barn.take_empty(on) {
            Self::publish_barn(on, &barn);
            return Some(sheaf);
        }
        drop(barn);
        on.new_sheaf(on.cache().sheaf_capacity())
    }

    /// Puts an empty sheaf, into the barn or, if it has enough, into the pool.
    pub fn barn_put_empty<S: Stacks<Chain = C>>(&self, on: S, sheaf: S::Sheaf) {
        let mut barn = self.barn.lock(on.park());
        if Self::keeps_empty(on, &barn, &sheaf) {
            barn.put_empty(on, sheaf);
            Self::publish_barn(on, &barn);
            return;
        }
        drop(barn);
        on.give_sheaf(sheaf);
    }

    /// Puts a surplus sheaf with objects, whatever the limits say: the next reclaim pass
    /// flushes what is too much, not the call that found it.
    pub fn barn_keep<S: Stacks<Chain = C>>(&self, on: S, sheaf: S::Sheaf) {
        let bytes = Self::bytes_of(on.cache(), &sheaf);
        let mut barn = self.barn.lock(on.park());
        barn.put_full(on, sheaf);
        Self::publish_barn(on, &barn);
        on.node_bytes().fetch_add(bytes, Ordering::Relaxed);
    }

    /// Puts back a sheaf whose top objects were flushed.
    pub(super) fn barn_put_rest<S: Stacks<Chain = C>>(&self, on: S, sheaf: S::Sheaf) {
        let bytes = Self::bytes_of(on.cache(), &sheaf);
        let mut barn = self.barn.lock(on.park());
        // The others were all unused meanwhile: so was this one, as if it had never left.
        if barn.least_full == barn.nr_full {
            barn.least_full += 1;
        }
        barn.put_full(on, sheaf);
        Self::publish_barn(on, &barn);
        on.node_bytes().fetch_add(bytes, Ordering::Relaxed);
    }

    /// Full sheaves that were unused since the last call, or are above the limit.
    pub(super) fn barn_unused<S: Stacks<Chain = C>>(&self, on: S) -> u32 {
        let mut barn = self.barn.lock(on.park());
        let unused = core::mem::replace(&mut barn.least_full, u32::MAX).min(barn.nr_full);
        self.lower_limit(on, unused);
        unused.max(barn.nr_full.saturating_sub(on.cache().barn_full_limit(on.shown_node())))
    }

    /// Gives the memory of empty sheaves back to the pool.
    pub fn barn_forget_empty<S: Stacks<Chain = C>>(&self, on: S) {
        loop {
            let mut barn = self.barn.lock(on.park());
            let Some(sheaf) = barn.take_empty(on) else {
                return;
            };
            Self::publish_barn(on, &barn);
            drop(barn);
            on.give_sheaf(sheaf);
        }
    }

    /// Full sheaves in the barn.
    pub fn nr_full<S: Stacks<Chain = C>>(&self, on: S) -> u32 {
        self.barn.lock(on.park()).nr_full
    }

    /// Calls `f` with each object in the barn.
    pub fn each_in_barn<S: Stacks<Chain = C>>(&self, on: S, f: impl FnMut(S::Object)) {
        let barn = self.barn.lock(on.park());
        on.each_linked(&barn.full, f);
    }
}
