//! The lists of partial slabs: one per node ([`slabyard::engine::partial`]) and one per CPU
//! ([`slabyard::engine::cpu_slabs`]).
//!
//! A slab is on at most one list; its [`State`] says on which.

use super::containers::CpuPartial;
use super::slabs::CountedSlabs;
use super::{KernelCache, NONE, State};
use slabyard::engine::array_cache::lists as array_lists;
use slabyard::engine::cpu_slabs::lists;
use slabyard::engine::partial_list::End;
use slabyard::engine::slabs::NodeList;

impl KernelCache {
    /// Puts a slab that is in no list on its node's.
    pub(crate) fn add_partial(&self, slab: u32, end: End) {
        let on = self.at_node_of(0, slab);
        let mut list = on.list().lock(on.park());
        list.add(on, slab, end);
        on.publish(&list);
    }

    /// Takes a slab off its node's list.
    pub(crate) fn remove_partial(&self, slab: u32) {
        let on = self.at_node_of(0, slab);
        let mut list = on.list().lock(on.park());
        list.unlink(on, slab);
        on.publish(&list);
    }

    /// The first slab of a node's list, and its length.
    pub(crate) fn node_partial(&self, node: usize) -> (u32, u32) {
        self.nodes[node].header.listed()
    }

    /// The slab behind another one in its list.
    pub(crate) fn next_of(&self, slab: u32) -> u32 {
        self.slab(slab).next.get()
    }

    /// Puts a slab that is in no list on a CPU's.
    pub(crate) fn put_cpu_partial(&self, cpu: usize, slab: u32) {
        lists::put(self.at(cpu), slab);
    }

    /// Takes a slab off a CPU partial list.
    pub(crate) fn remove_cpu_partial(&self, slab: u32) {
        let partial = &self.cpus[self.slab(slab).cpu.get() as usize].partial;
        let mut list = partial.get();
        self.unlink_parked(&mut list, slab);
        partial.set(list);
    }

    /// Takes a slab off a CPU partial list that is in hand.
    pub(super) fn unlink_parked(&self, list: &mut CpuPartial, slab: u32) {
        let it = self.slab(slab);
        let (next, prev) = (it.next.get(), it.prev.get());
        match prev {
            NONE => list.head = next,
            prev => self.slab(prev).next.set(next),
        }
        if next != NONE {
            self.slab(next).prev.set(prev);
        }
        list.slabs -= 1;
        list.objects -= it.counted.get();
        it.state.set(State::Full);
    }

    /// Objects were freed to a slab on a CPU partial list, which counts exactly.
    pub(super) fn count_parked(&self, slab: u32, objects: u32) {
        let it = self.slab(slab);
        it.counted.set(it.counted.get() + objects);
        let partial = &self.cpus[it.cpu.get() as usize].partial;
        partial.set(CpuPartial { objects: partial.get().objects + objects, ..partial.get() });
    }

    /// Ends the empty slabs of CPUs' and nodes' lists alone: what CPUs hold beside stays with them.
    pub fn end_empties(&self) {
        if self.rules.has_cpu_slabs() {
            for cpu in 0..self.cpus.len() {
                self.drain_empties(cpu);
            }
        }
        for node in 0..self.nodes.len() {
            if self.has_arrays() {
                let on = CountedSlabs { node: node as u16, ..self.at(0) };
                array_lists::end_free(on, u32::MAX);
                continue;
            }
            let listed = self.each_node_partial(node as u16);
            let empty: Vec<u32> = listed
                .filter(|(slab, free)| *free == self.objects_of(*slab))
                .map(|it| it.0)
                .collect();
            for slab in empty {
                self.remove_partial(slab);
                self.discard(slab);
            }
        }
    }

    /// Flushes all that CPUs hold; empty slabs are freed, and the others are sorted, the fullest
    /// first (of those with up to 32 free objects).
    pub fn shrink(&self) {
        if self.has_arrays() {
            return self.drain_arrays();
        }
        const PROMOTED: u32 = 32;
        self.flush_sheaves();
        for cpu in 0..self.cpus.len() {
            self.flush_cpu(cpu);
        }
        for node in 0..self.nodes.len() {
            let mut listed = Vec::new();
            let mut at = self.node_partial(node).0;
            while at != NONE {
                listed.push(at);
                at = self.next_of(at);
            }
            for slab in &listed {
                self.remove_partial(*slab);
            }
            // A bucket's slabs come in reverse order: each is moved to its head.
            let key = |slab: &u32| self.slab(*slab).free.get();
            let (mut few, many): (Vec<u32>, _) =
                listed.iter().partition(|slab| key(slab) <= PROMOTED);
            few.reverse();
            few.sort_by_key(key);
            for slab in few.into_iter().chain(many) {
                if self.slab(slab).free.get() == self.objects_of(slab) {
                    self.discard(slab);
                } else {
                    self.add_partial(slab, End::Tail);
                }
            }
        }
    }
}
