//! The lists of partial slabs: one for each node, doubly linked, taken from the
//! head; one for each CPU, last in first out.
//!
//! A slab is in one list at most; its [`State`] says in which.

use super::{Accounting, Freezing, KernelCache, NONE, Planted, State};
use crate::engine::counters::Counter;

/// Neighbours of a slab in its list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    next: u32,
    prev: u32,
}

impl Links {
    pub(crate) const NONE: Links = Links { next: NONE, prev: NONE };
}

/// A node's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodePartial {
    pub(crate) head: u32,
    tail: u32,
    pub(crate) nr_partial: u32,
}

impl NodePartial {
    pub(crate) const EMPTY: NodePartial = NodePartial { head: NONE, tail: NONE, nr_partial: 0 };
}

/// A CPU's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuPartial {
    pub(crate) head: u32,
    pub(crate) slabs: u32,
    /// Free objects as [`Rules::accounting`](super::Rules) counts them.
    pub(crate) objects: u32,
}

impl CpuPartial {
    pub(crate) const EMPTY: CpuPartial = CpuPartial { head: NONE, slabs: 0, objects: 0 };
}

/// End of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Head,
    Tail,
}

impl KernelCache {
    fn links(&mut self, slab: u32) -> &mut Links {
        &mut self.slabs[slab as usize].links
    }

    /// Puts a slab that is in no list on its node's.
    pub(crate) fn add_partial(&mut self, slab: u32, end: End) {
        let node = self.slabs[slab as usize].node as usize;
        let NodePartial { head, tail, .. } = self.nodes[node];
        let (prev, next) = if end == End::Head { (NONE, head) } else { (tail, NONE) };
        *self.links(slab) = Links { next, prev };
        match prev {
            NONE => self.nodes[node].head = slab,
            prev => self.links(prev).next = slab,
        }
        match next {
            NONE => self.nodes[node].tail = slab,
            next => self.links(next).prev = slab,
        }
        self.nodes[node].nr_partial += 1;
        self.slabs[slab as usize].state = State::NodePartial;
        self.counters.add(Counter::ListLockSlabs, 1);
    }

    /// Takes a slab off its node's list.
    pub(crate) fn remove_partial(&mut self, slab: u32) {
        let node = self.slabs[slab as usize].node as usize;
        let Links { next, prev } = *self.links(slab);
        match prev {
            NONE => self.nodes[node].head = next,
            prev => self.links(prev).next = next,
        }
        match next {
            NONE => self.nodes[node].tail = prev,
            next => self.links(next).prev = prev,
        }
        *self.links(slab) = Links::NONE;
        self.nodes[node].nr_partial -= 1;
        self.slabs[slab as usize].state = State::Full;
        self.counters.add(Counter::ListLockSlabs, 1);
    }

    /// The slab behind another one in its list.
    pub(crate) fn next_of(&self, slab: u32) -> u32 {
        self.slabs[slab as usize].links.next
    }

    /// Puts a slab that is in no list on a CPU's; `drain` says that a list without
    /// room is drained first. Returns how many slabs that were.
    pub(crate) fn put_cpu_partial(&mut self, cpu: usize, slab: u32, drain: bool) -> u32 {
        let rules = self.rules;
        let free = self.slabs[slab as usize].free;
        let list = self.cpus[cpu].partial;
        let is_over = list.head != NONE
            && match rules.accounting {
                Accounting::Objects => list.objects > rules.cpu_partial,
                Accounting::Slabs => list.slabs >= rules.cpu_partial_slabs,
                Accounting::Exact => list.objects + free > rules.cpu_partial,
            };
        let mut drained = CpuPartial::EMPTY;
        if drain && is_over {
            drained = core::mem::replace(&mut self.cpus[cpu].partial, CpuPartial::EMPTY);
        }
        let head = self.cpus[cpu].partial.head;
        *self.links(slab) = Links { next: head, prev: NONE };
        if head != NONE {
            self.links(head).prev = slab;
        }
        let list = &mut self.cpus[cpu].partial;
        list.head = slab;
        list.slabs += 1;
        list.objects += free;
        let it = &mut self.slabs[slab as usize];
        (it.state, it.cpu, it.counted) = (State::CpuPartial, cpu as u16, free);
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
    pub(crate) fn remove_cpu_partial(&mut self, slab: u32) {
        let cpu = self.slabs[slab as usize].cpu as usize;
        let counted = self.slabs[slab as usize].counted;
        let Links { next, prev } = *self.links(slab);
        match prev {
            NONE => self.cpus[cpu].partial.head = next,
            prev => self.links(prev).next = next,
        }
        if next != NONE {
            self.links(next).prev = prev;
        }
        *self.links(slab) = Links::NONE;
        let list = &mut self.cpus[cpu].partial;
        list.slabs -= 1;
        list.objects -= counted;
        self.slabs[slab as usize].state = State::Full;
    }

    /// All slabs of a CPU partial list go to their nodes' lists. Returns how many.
    pub(crate) fn drain(&mut self, cpu: usize) -> u32 {
        let list = core::mem::replace(&mut self.cpus[cpu].partial, CpuPartial::EMPTY);
        if list.head != NONE {
            self.put_partials(list.head);
        }
        list.slabs
    }

    /// A chain of slabs, unlinked from its CPU, goes to the nodes' lists: from the
    /// last that joined to the first, each to the tail. Those that are empty end,
    /// if the list is long enough.
    fn put_partials(&mut self, first: u32) {
        let (mut at, mut locked) = (first, NONE);
        while at != NONE {
            let next = self.next_of(at);
            let node = u32::from(self.slabs[at as usize].node);
            if node != locked {
                // The lock is kept from slab to slab of one node.
                self.counters.add(Counter::ListLock, 1);
                locked = node;
            }
            if self.rules.freezing == Freezing::Eager {
                self.counters.add(Counter::CmpxchgSlab, 1);
                self.counters.add(Counter::CmpxchgUnderLock, 1);
            }
            *self.links(at) = Links::NONE;
            self.slabs[at as usize].state = State::Full;
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

    /// True if a slab is empty and its node's list is long enough.
    pub(crate) fn ends_if_empty(&mut self, slab: u32) -> bool {
        let it = &self.slabs[slab as usize];
        if it.free < self.rules.objects {
            return false;
        }
        // The slab itself counts, if it is on the list.
        let ends = self.nodes[it.node as usize].nr_partial >= self.rules.min_partial;
        self.counters.add(Counter::EmptyKept, u32::from(!ends));
        ends
    }

    /// Flushes all that CPUs hold; empty slabs end, and the others are sorted,
    /// the fullest first (of those with up to 32 free objects).
    pub fn shrink(&mut self) {
        const PROMOTED: u32 = 32;
        self.flush_sheaves();
        for cpu in 0..self.cpus.len() {
            self.flush_cpu(cpu);
        }
        for node in 0..self.nodes.len() {
            let mut listed = ::alloc::vec::Vec::new();
            let mut at = self.nodes[node].head;
            while at != NONE {
                listed.push(at);
                at = self.next_of(at);
            }
            for slab in &listed {
                self.remove_partial(*slab);
            }
            // A bucket's slabs come in reverse order: each is moved to its head.
            let key = |slab: &u32| self.slabs[*slab as usize].free;
            let (mut few, many): (::alloc::vec::Vec<u32>, _) =
                listed.iter().partition(|slab| key(slab) <= PROMOTED);
            few.reverse();
            few.sort_by_key(key);
            for slab in few.into_iter().chain(many) {
                if self.slabs[slab as usize].free == self.rules.objects {
                    self.discard(slab);
                } else {
                    self.add_partial(slab, End::Tail);
                }
            }
        }
    }
}
