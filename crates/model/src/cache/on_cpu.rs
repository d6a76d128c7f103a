//! What CPUs hold of a modelled cache, in the form that the policy of
//! [`slabyard::engine::cpu_slabs`] requires.
//!
//! A CPU's own objects are a count; its partial list links the slabs in both directions, so that a
//! slab can be removed from any position.

use super::containers::CpuPartial;
use super::slabs::CountedSlabs;
use super::{Accounting, KernelCache, NONE, Rules, State};
use slabyard::engine::Shape;
use slabyard::engine::cpu_slabs::{CpuPartialLists, CpuSlab, CpuSlabs, Freed};
use slabyard::engine::slabs::{Group, Held, NodeList, Slabs};
use slabyard::platform::Stopped;
use slabyard::slab::Word;

/// A number of objects.
#[derive(Debug, Default)]
pub struct ObjectCount(pub(super) u32);

impl Held for ObjectCount {
    #[inline]
    fn len(&self) -> u32 {
        self.0
    }
}

impl KernelCache {
    /// A CPU, with an allocation that requests a node.
    pub(super) fn at_wanted(&self, cpu: usize, node: Option<u16>) -> CountedSlabs<'_> {
        let on = self.at(cpu);
        let node_of = node.unwrap_or(on.node).min(self.nodes.len() as u16 - 1);
        CountedSlabs { node: node_of, wanted: node, ..on }
    }

    /// Gives a CPU a slab that is in no list, with all its free objects.
    pub(super) fn give_slab(&self, cpu: usize, slab: u32) {
        let on = self.at_node_of(cpu, slab);
        let mut own = ObjectCount(0);
        on.take_over(on.cache().shape(), slab, &mut own);
        // A slab without free objects can be put in place, too.
        self.slab(slab).state.set(State::CpuSlab);
        self.cpus[cpu].slab.set(slab);
        self.cpus[cpu].free.set(own.0);
    }

    /// Returns the own objects of a CPU that leaves its slab. Returns what was free already.
    pub(super) fn return_own(&self, cpu: usize, slab: u32) -> u32 {
        let on = self.at_node_of(cpu, slab);
        on.put_back(on.cache().shape(), slab, &mut ObjectCount(self.cpus[cpu].free.take())).0
    }

    /// Puts a slab in no list on a CPU's partial list, whatever its limit.
    pub(super) fn park_on(&self, cpu: usize, slab: u32) {
        let mut list = self.cpus[cpu].partial.get();
        let parked = self.at(cpu).park(&mut list, slab, self.slab(slab).free.get());
        debug_assert!(parked);
        self.cpus[cpu].partial.set(list);
    }

    /// Takes a CPU's slab out of its place.
    pub(super) fn take_cpu_slab(&self, cpu: usize) -> Option<CpuSlab<ObjectCount>> {
        let c = &self.cpus[cpu];
        let slab = c.slab.replace(NONE);
        (slab != NONE).then(|| CpuSlab { slab, own: ObjectCount(c.free.take()) })
    }
}

impl CpuPartialLists for CountedSlabs<'_> {
    type List = CpuPartial;

    #[inline]
    fn cpu_rules(&self) -> &Rules {
        &self.cache.rules
    }

    #[inline]
    fn check_out_list(self) -> Option<CpuPartial> {
        Some(self.cache.cpus[self.cpu].partial.take())
    }

    #[inline]
    fn check_in_list(self, list: CpuPartial) -> Option<CpuPartial> {
        let found = self.cache.cpus[self.cpu].partial.replace(list);
        (found.slabs > 0).then_some(found)
    }

    fn objects_of(self, list: &CpuPartial) -> u32 {
        list.objects
    }

    fn park(self, list: &mut CpuPartial, slab: u32, free: u32) -> bool {
        let it = self.cache.slab(slab);
        it.next.set(list.head);
        it.prev.set(NONE);
        if list.head != NONE {
            self.cache.slab(list.head).prev.set(slab);
        }
        it.state.set(State::CpuPartial);
        it.cpu.set(self.cpu as u16);
        it.counted.set(free);
        *list = CpuPartial { head: slab, slabs: list.slabs + 1, objects: list.objects + free };
        true
    }

    fn unpark(self, list: &mut CpuPartial) -> Option<u32> {
        let slab = self.next_parked(list)?;
        self.cache.unlink_parked(list, slab);
        Some(slab)
    }

    fn unpark_empty(self, list: &mut CpuPartial) -> Option<u32> {
        let mut slab = list.head;
        while slab != NONE && self.free_of(slab).1 < self.cache.objects_of(slab) {
            slab = self.cache.next_of(slab);
        }
        if slab == NONE {
            return None;
        }
        self.cache.unlink_parked(list, slab);
        Some(slab)
    }

    fn next_parked(self, list: &CpuPartial) -> Option<u32> {
        (list.head != NONE).then_some(list.head)
    }

    fn give_list(self, _: CpuPartial) {}
}

impl CpuSlabs for CountedSlabs<'_> {
    type Own = ObjectCount;

    #[inline]
    fn fits(self, slab: u32) -> bool {
        self.wanted.is_none_or(|node| self.cache.slab(slab).node.get() == node)
    }

    #[inline]
    fn near(self, slab: u32) -> Self {
        CountedSlabs { node: self.cache.slab(slab).node.get(), ..self }
    }

    fn elsewhere(self, nth: usize) -> Option<Self> {
        let nr_nodes = self.cache.nodes.len();
        if nth + 1 >= nr_nodes || self.wanted.is_some() || !self.cache.looks_elsewhere() {
            return None;
        }
        let node = (self.node as usize + nth + 1) % nr_nodes;
        Some(CountedSlabs { node: node as u16, ..self })
    }

    #[inline]
    fn check_out_slab(self) -> Result<Option<CpuSlab<ObjectCount>>, Stopped> {
        Ok(self.cache.take_cpu_slab(self.cpu))
    }

    #[inline]
    fn check_in_slab(self, slab: CpuSlab<ObjectCount>) -> Option<CpuSlab<ObjectCount>> {
        let found = self.cache.take_cpu_slab(self.cpu);
        let c = &self.cache.cpus[self.cpu];
        c.slab.set(slab.slab);
        c.free.set(slab.own.0);
        found
    }

    fn new_own(self) -> Option<ObjectCount> {
        Some(ObjectCount(0))
    }

    fn give_own(self, _: ObjectCount) {}

    #[inline]
    fn pop_own(self, slab: &mut CpuSlab<ObjectCount>) -> Option<u32> {
        slab.own.0 = slab.own.0.checked_sub(1)?;
        Some(slab.slab)
    }

    fn take_over(self, shape: &Shape, slab: u32, own: &mut ObjectCount) -> u32 {
        let (taken, _) = self.take(shape, slab, u32::MAX, false, |_| ());
        let it = self.cache.slab(slab);
        it.state.set(if taken > 0 { State::CpuSlab } else { State::Full });
        it.cpu.set(self.cpu as u16);
        own.0 += taken;
        taken
    }

    fn put_back(self, shape: &Shape, slab: u32, own: &mut ObjectCount) -> (u32, u32) {
        let (_, before) = self.free_of(slab);
        while own.0 > 0 {
            let n = own.0.min(Word::OBJECTS);
            let mask = u64::MAX >> (Word::OBJECTS - n);
            let _put = self.put(shape, &Group { slab, word: Word::FIRST, mask });
            own.0 -= n;
        }
        self.cache.slab(slab).state.set(State::Full);
        (before, self.free_of(slab).1)
    }

    fn free_into(self, shape: &Shape, group: &Group, _freezes: bool) -> Freed {
        let it = self.cache.slab(group.slab);
        let put = self.put(shape, group);
        let (state, rules) = (it.state.get(), self.cpu_rules());
        let parked = state == State::CpuPartial;
        if state == State::CpuSlab {
            it.freed_by.set(self.cpu as u16);
        }
        let exact = parked && rules.accounting == Accounting::Exact;
        let unparked = exact && it.free.get() == self.cache.objects_of(group.slab);
        if exact {
            self.cache.count_parked(group.slab, put.added);
        }
        if unparked {
            self.cache.remove_cpu_partial(group.slab);
        }
        Freed {
            version: put.version,
            before: put.before,
            added: put.added,
            frozen: state == State::CpuSlab || parked && rules.freezing.freezes_parked(),
            parked,
            unparked,
        }
    }

    fn freeze(self, slab: u32) {
        self.exchange(slab);
    }

    fn thaw(self, slab: u32) {
        self.exchange(slab);
    }

    #[inline]
    fn is_contended(self, slab: u32) -> bool {
        self.cache.contention.as_ref().is_some_and(|contention| contention.fails_once(slab))
    }
}
