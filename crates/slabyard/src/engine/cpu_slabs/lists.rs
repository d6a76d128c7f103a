//! The lists of partial slabs: one for each node ([`crate::engine::partial`]), taken from the
//! head; one for each CPU, last in first out.
//!
//! A slab is in one list at most; its [`State`] says in which.

use super::{Accounting, Freezing, KernelCache, NONE, Planted, State};
use crate::engine::partial::End;
use crate::engine::slabs::{Links, Slabs};
use crate::engine::{Counter, partial};

/// A CPU's list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuPartial {
    pub(crate) head: u32,
    pub(crate) slabs: u32,
    /// Free objects as [`Rules::accounting`](super::Rules) counts them.
    pub(crate) objects: u32,
}

impl CpuPartial {
    pub(crate) const EMPTY: CpuPartial = CpuPartial { head: NONE, slabs: 0, objects: 0 };
}

const _: () = assert!(NONE == 0, "what `default` has for no slab");

impl KernelCache {
    /// Puts a slab that is in no list on its node's.
    pub(crate) fn add_partial(&self, slab: u32, end: End) {
        let on = self.at_node_of(0, slab);
        let mut list = on.cache().partial.lock(on.park());
        list.add(on, slab, end);
        list.publish(on.cache());
    }

    /// Takes a slab off its node's list.
    pub(crate) fn remove_partial(&self, slab: u32) {
        let on = self.at_node_of(0, slab);
        let mut list = on.cache().partial.lock(on.park());
        list.unlink(on, slab);
        list.publish(on.cache());
    }

    /// The first slab of a node's list, and its length.
    pub(crate) fn node_partial(&self, node: usize) -> (u32, u32) {
        self.nodes[node].header.listed()
    }

    /// The slab behind another one in its list.
    pub(crate) fn next_of(&self, slab: u32) -> u32 {
        self.slab(slab).next.get()
    }

    /// Puts a slab that is in no list on a CPU's; `drain` says that a list without
    /// room is drained first. Returns how many slabs that were.
    pub(crate) fn put_cpu_partial(&self, cpu: usize, slab: u32, drain: bool) -> u32 {
        let rules = &self.rules;
        let it = self.slab(slab);
        let free = it.free.get();
        let partial = &self.cpus[cpu].partial;
        let list = partial.get();
        let is_over = list.head != NONE
            && match rules.accounting {
                Accounting::Objects => list.objects > rules.cpu_partial,
                Accounting::Slabs => list.slabs >= rules.cpu_partial_slabs,
                Accounting::Exact => list.objects + free > rules.cpu_partial,
            };
        let drained = if drain && is_over { partial.take() } else { CpuPartial::EMPTY };
        let CpuPartial { head, slabs, objects } = partial.get();
        it.next.set(head);
        it.prev.set(NONE);
        if head != NONE {
            self.slab(head).prev.set(slab);
        }
        partial.set(CpuPartial { head: slab, slabs: slabs + 1, objects: objects + free });
        it.state.set(State::CpuPartial);
        it.cpu.set(cpu as u16);
        it.counted.set(free);
        if drained.head != NONE {
            self.counters.add(Counter::CpuPartialDrain, 1);
            self.put_partials(drained.head);
        }
        if rules.accounting == Accounting::Objects && rules.cpu_partial == 0 {
            // To 5.15 a limit of 0 keeps nothing.
            return drained.slabs + self.drain(cpu);
        }
        drained.slabs
    }

    /// Takes a slab off a CPU partial list.
    pub(crate) fn remove_cpu_partial(&self, slab: u32) {
        let it = self.slab(slab);
        let partial = &self.cpus[it.cpu.get() as usize].partial;
        let mut list = partial.get();
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
        partial.set(list);
        it.state.set(State::Full);
    }

    /// All slabs of a CPU partial list go to their nodes' lists. Returns how many.
    pub(crate) fn drain(&self, cpu: usize) -> u32 {
        let list = self.cpus[cpu].partial.take();
        if list.head != NONE {
            self.put_partials(list.head);
        }
        list.slabs
    }

    /// A chain of slabs, unlinked from its CPU, goes to the nodes' lists: from the
    /// last that joined to the first, each to the tail. Those that are empty end,
    /// if the list is long enough.
    fn put_partials(&self, first: u32) {
        let (mut at, mut locked) = (first, u32::MAX);
        while at != NONE {
            let next = self.next_of(at);
            let node = u32::from(self.slab(at).node.get());
            if node != locked {
                // The lock is kept from slab to slab of one node.
                self.counters.add(Counter::ListLock, 1);
                locked = node;
            }
            if self.rules.freezing == Freezing::Eager {
                self.counters.add(Counter::CmpxchgSlab, 1);
                self.counters.add(Counter::CmpxchgUnderLock, 1);
            }
            self.slab(at).state.set(State::Full);
            if self.ends_if_empty(at) {
                self.counters.add(Counter::DeactivateEmpty, 1);
                self.discard(at);
            } else {
                let to_head = self.rules.planted == Planted::DrainToHead;
                self.add_partial(at, if to_head { End::Head } else { End::Tail });
                self.counters.add(Counter::FreeAddPartial, 1);
            }
            at = next;
        }
    }

    /// True if a slab on no node's list is empty, and its node's list is long enough.
    pub(crate) fn ends_if_empty(&self, slab: u32) -> bool {
        let on = self.at_node_of(0, slab);
        let (_, free) = on.free_of(slab);
        partial::ends(
            on,
            on.cache().shape(),
            on.cache().listed().1,
            free,
            on.links(slab).is_listed(),
        )
    }

    /// Flushes all that CPUs hold; empty slabs end, and the others are sorted,
    /// the fullest first (of those with up to 32 free objects).
    pub fn shrink(&self) {
        const PROMOTED: u32 = 32;
        self.flush_sheaves();
        for cpu in 0..self.cpus.len() {
            self.flush_cpu(cpu);
        }
        for node in 0..self.nodes.len() {
            let mut listed = ::alloc::vec::Vec::new();
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
            let (mut few, many): (::alloc::vec::Vec<u32>, _) =
                listed.iter().partition(|slab| key(slab) <= PROMOTED);
            few.reverse();
            few.sort_by_key(key);
            for slab in few.into_iter().chain(many) {
                if self.slab(slab).free.get() == self.rules.objects {
                    self.discard(slab);
                } else {
                    self.add_partial(slab, End::Tail);
                }
            }
        }
    }
}
