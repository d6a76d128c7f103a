//! Moves batches between a CPU's array and the shared one.
//!
//! Neighbours: [`super::node`] has the shared array; [`super::array`] calls this.

use crate::engine::Header;
use crate::engine::array_cache::limits::Limits;
use crate::engine::array_cache::node::Shared;
use crate::engine::array_cache::{Arrays, NodeArrays};
use crate::engine::slabs::Held;
use crate::sync::Ordering;
use slabyard_abi::stats::Counter;

/// Moves the objects with these numbers from one array to another, in their order.
fn copy<S: Arrays>(on: S, from: &S::Sheaf, range: core::ops::Range<u32>, to: &mut S::Sheaf) {
    on.append(to, &on.elements(from)[range.start as usize..range.end as usize]);
}

impl<C> NodeArrays<C> {
    /// Moves up to `most` objects into an array that has room for them; returns how many.
    pub(super) fn take_shared<S: Arrays<Chain = C>>(
        &self,
        on: S,
        array: &mut S::Sheaf,
        most: u32,
    ) -> u32 {
        let mut shared = self.shared.lock(on.park());
        if shared.objects == 0 {
            return 0;
        }
        let Some(mut from) = on.unlink(&mut shared.array) else { return 0 };
        let (len, n) = (from.len(), most.min(from.len()));
        copy(on, &from, len - n..len, array);
        on.shorten(&mut from, n);
        shared.touched = true;
        shared.put_back(on, from);
        on.count(Counter::BarnGet, 1);
        n
    }

    /// Moves up to `most` of an array's oldest objects into the shared array; returns how many
    /// it had room for.
    pub(super) fn put_shared<S: Arrays<Chain = C>>(
        &self,
        on: S,
        array: &mut S::Sheaf,
        most: u32,
    ) -> u32 {
        let capacity = Limits::of_cache(on.cache()).shared_capacity();
        if capacity == 0 {
            return 0;
        }
        // A new array may need a system call: it is made without the lock.
        let mut new = None;
        let (mut shared, mut to) = loop {
            let mut shared = self.shared.lock(on.park());
            if let Some(to) = on.unlink(&mut shared.array).or_else(|| new.take()) {
                break (shared, to);
            }
            drop(shared);
            new = on.new_sheaf(capacity);
            if new.is_none() {
                return 0;
            }
        };
        let bytes = on.node_limit().saturating_sub(on.node_bytes().load(Ordering::Relaxed));
        let room = capacity.min(on.room(&to)).saturating_sub(to.len());
        let room = room.min((bytes / bytes_of(on.cache(), 1)).try_into().unwrap_or(u32::MAX));
        let n = most.min(room).min(array.len());
        copy(on, array, 0..n, &mut to);
        shared.put_back(on, to);
        drop(shared);
        if let Some(new) = new {
            on.give_sheaf(new);
        }
        on.drop_oldest(array, n);
        let counter = if n > 0 { Counter::BarnPut } else { Counter::BarnPutFail };
        on.count(counter, 1);
        n
    }

    /// Takes up to `most` of the shared array's oldest objects out, in an array of their own.
    pub(super) fn take_oldest_shared<S: Arrays<Chain = C>>(
        &self,
        on: S,
        most: u32,
    ) -> Option<S::Sheaf> {
        let mut out = on.new_sheaf(most)?;
        let mut shared = self.shared.lock(on.park());
        let n = most.min(shared.objects).min(on.room(&out));
        if let Some(mut from) = on.unlink(&mut shared.array) {
            copy(on, &from, 0..n, &mut out);
            on.drop_oldest(&mut from, n);
            shared.put_back(on, from);
        }
        Some(out)
    }

    /// In the child of a fork: counts the shared array, whoever has its lock.
    pub(super) fn count_shared_anew<S: Arrays<Chain = C>>(&self, on: S) -> u64 {
        self.shared.abandon();
        self.shared.lock(on.park()).count_anew(on)
    }

    /// Takes the whole shared array out.
    pub(super) fn take_whole_shared<S: Arrays<Chain = C>>(&self, on: S) -> Option<S::Sheaf> {
        let mut shared = self.shared.lock(on.park());
        shared.take(on)
    }

    /// Objects in the shared array, if no refill took any since the last call.
    pub(super) fn unused_shared<S: Arrays<Chain = C>>(&self, on: S) -> Option<u32> {
        let mut shared = self.shared.lock(on.park());
        let touched = core::mem::replace(&mut shared.touched, false);
        (!touched).then_some(shared.objects)
    }

    /// Calls `f` with each object in the shared array.
    pub fn each_shared<S: Arrays<Chain = C>>(&self, on: S, f: impl FnMut(S::Object)) {
        self.shared.lock(on.park()).each(on, f);
    }

    /// Objects in the shared array.
    pub fn nr_shared<S: Arrays<Chain = C>>(&self, on: S) -> u32 {
        self.shared.lock(on.park()).objects
    }

    /// The list of the shared array, as readers outside find it.
    pub(super) fn shared_head<S: Arrays<Chain = C>>(&self, on: S) -> u32 {
        S::head(&self.shared.lock(on.park()).array)
    }
}

impl<C> Shared<C> {
    pub(super) const fn new(none: C) -> Self {
        Shared { array: none, objects: 0, touched: false, has_head: true }
    }

    /// One that no word of the cache leads to.
    pub const fn aside(none: C) -> Self {
        Shared { array: none, objects: 0, touched: false, has_head: false }
    }

    /// Takes the array out. Under its lock.
    pub(super) fn take<S: Arrays<Chain = C>>(&mut self, on: S) -> Option<S::Sheaf> {
        let array = on.unlink(&mut self.array)?;
        self.changed(on, 0);
        Some(array)
    }

    /// In the child of a fork: counts the objects of the array, which one store puts here. Under its
    /// lock.
    pub(super) fn count_anew<S: Arrays<Chain = C>>(&mut self, on: S) -> u64 {
        let mut objects = 0;
        self.each(on, |_| objects += 1);
        self.objects = 0;
        self.changed(on, objects);
        objects.into()
    }

    /// Puts the array back, and publishes what it holds. Under its lock.
    pub(super) fn put_back<S: Arrays<Chain = C>>(&mut self, on: S, array: S::Sheaf) {
        let objects = array.len();
        on.link(&mut self.array, array);
        self.changed(on, objects);
    }

    /// Calls `f` with each object in it. Under its lock.
    pub(super) fn each<S: Arrays<Chain = C>>(&self, on: S, f: impl FnMut(S::Object)) {
        on.each_linked(&self.array, f);
    }

    pub(super) fn changed<S: Arrays<Chain = C>>(&mut self, on: S, objects: u32) {
        let (old, new) = (bytes_of(on.cache(), self.objects), bytes_of(on.cache(), objects));
        // Wraps where it falls.
        on.node_bytes().fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
        on.cache()
            .count_parked(on.shown_node(), u64::from(objects).wrapping_sub(self.objects.into()));
        self.objects = objects;
        if self.has_head && on.shown_node().is_none() {
            on.cache().shown.barn_head.store(S::head(&self.array).into(), Ordering::Relaxed);
        }
    }
}

pub(super) fn bytes_of(cache: &Header, objects: u32) -> usize {
    objects as usize * cache.shape().geometry.size as usize
}
