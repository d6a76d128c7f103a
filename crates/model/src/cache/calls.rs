//! The calls of a modelled cache: an allocation or free takes the fast path, which is counted here;
//! otherwise, the policy serves it.
//!
//! [`KernelCache::choose`] returns the slab that the policy would take next, and changes nothing.
//! The tests compare this slab with the one that the policy then takes.

use super::slabs::CountedSlabs;
use super::{Front, KernelCache, NONE};
use slabyard::engine::cpu_slabs::{alloc, free, lists};
use slabyard::engine::partial;
use slabyard::engine::partial_list::End;
use slabyard::engine::slabs::{Group, NodeList, Slabs};
use slabyard::engine::{Counter, Header, tiny};
use slabyard::slab::Word;

/// Where the next object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The CPU slab's objects that the CPU has.
    Own(u32),
    /// Those of it that others freed.
    Refill(u32),
    /// The slab at the head of the CPU partial list.
    CpuPartial(u32),
    /// The slab at the head of a node's list.
    NodePartial(u32),
    /// A new slab.
    New,
}

impl Choice {
    /// The slab, or [`NONE`] for a new one.
    #[must_use]
    pub fn slab(self) -> u32 {
        match self {
            Choice::Own(slab)
            | Choice::Refill(slab)
            | Choice::CpuPartial(slab)
            | Choice::NodePartial(slab) => slab,
            Choice::New => NONE,
        }
    }
}

/// Any node will do.
pub const ANY_NODE: Option<u16> = None;

impl KernelCache {
    /// Allocates on a CPU, from a node if one is named: the object's slab; [`NONE`] if there are no
    /// pages for a slab, which is so with a [`super::supply`] alone.
    #[inline]
    pub fn alloc(&mut self, cpu: usize, node: Option<u16>) -> u32 {
        if self.has_arrays() {
            return self.alloc_from_array(cpu, node);
        }
        let is_near = node.is_none_or(|node| node == self.node_of[cpu]);
        if !self.stacks.is_empty() && is_near && self.memory.has_barn(self.node_of[cpu]) {
            return self.alloc_from_sheaf(cpu);
        }
        self.alloc_from_slab(cpu, node)
    }

    #[inline]
    pub(crate) fn alloc_from_slab(&self, cpu: usize, node: Option<u16>) -> u32 {
        match self.rules.front {
            Front::Nothing => self.alloc_tiny(cpu, node),
            Front::Sheaves | Front::ArrayCaches(_) => self.alloc_one(cpu, node),
            Front::CpuSlabs | Front::SheavesOverCpuSlabs => self.alloc_from_cpu_slab(cpu, node),
        }
    }

    /// One object from a node's first slab, or from a new slab (SLUB_TINY).
    fn alloc_tiny(&self, cpu: usize, node: Option<u16>) -> u32 {
        self.slow_paths.set(self.slow_paths.get().wrapping_add(1));
        let on = match self.choose(cpu, node) {
            Choice::NodePartial(slab) => self.at_node_of(cpu, slab),
            _ => self.near(cpu, node),
        };
        tiny::alloc_one(on).unwrap_or(NONE)
    }

    /// One object from a node's first slab, which stays on its list (7.x).
    fn alloc_one(&self, cpu: usize, node: Option<u16>) -> u32 {
        self.at(cpu).count(Counter::AllocSlowpath, 1);
        self.slow_paths.set(self.slow_paths.get().wrapping_add(1));
        if let Choice::NodePartial(slab) = self.choose(cpu, node) {
            self.counters.add(Counter::CmpxchgUnderLock, 1);
            partial::take_partial(self.at_node_of(cpu, slab), 1, false, |_| ());
            return slab;
        }
        let Some(slab) = self.begin_slab(self.near(cpu, node).node) else { return NONE };
        let on = self.at_node_of(cpu, slab);
        on.count(Counter::ListLock, 1);
        if let (_, 1..) = on.take(on.cache().shape(), slab, 1, false, |_| ()) {
            self.add_partial(slab, End::Head);
        }
        slab
    }

    /// The slabs of the requested node, or of the CPU's.
    fn near(&self, cpu: usize, node: Option<u16>) -> CountedSlabs<'_> {
        let node = node.unwrap_or(self.node_of[cpu]).min(self.nodes.len() as u16 - 1);
        CountedSlabs { node: self.memory.of(node), ..self.at(cpu) }
    }

    #[inline]
    pub(crate) fn alloc_from_cpu_slab(&self, cpu: usize, node: Option<u16>) -> u32 {
        let c = &self.cpus[cpu];
        if c.free.get() > 0 && (node.is_none() || node == Some(self.slab(c.slab.get()).node.get()))
        {
            c.free.set(c.free.get() - 1);
            let slab = c.slab.get();
            self.counters.add(Counter::AllocFastpath, 1);
            return slab;
        }
        self.slow_paths.set(self.slow_paths.get().wrapping_add(1));
        alloc::alloc_slow(self.at_wanted(cpu, node)).unwrap_or(NONE)
    }

    /// Where the next object of a CPU comes from.
    #[must_use]
    pub fn choose(&self, cpu: usize, node: Option<u16>) -> Choice {
        let c = &self.cpus[cpu];
        let own = c.slab.get();
        if c.free.get() > 0 {
            return Choice::Own(own);
        }
        if own != NONE && self.slab(own).free.get() > 0 {
            return Choice::Refill(own);
        }
        let fits = |slab: u32| node.is_none_or(|node| self.slab(slab).node.get() == node);
        if c.partial.get().head != NONE && fits(c.partial.get().head) {
            return Choice::CpuPartial(c.partial.get().head);
        }
        let near = node.unwrap_or(self.node_of[cpu]) as usize;
        if near < self.nodes.len()
            && let (head, 1..) = self.node_partial(near)
        {
            return Choice::NodePartial(head);
        }
        if node.is_none() && self.looks_elsewhere() {
            let nr_nodes = self.nodes.len();
            for step in 1..nr_nodes {
                let (head, nr_partial) = self.node_partial((near + step) % nr_nodes);
                if nr_partial > self.rules.min_partial {
                    return Choice::NodePartial(head);
                }
            }
        }
        Choice::New
    }

    /// True if this slow path searches other nodes' lists.
    pub(super) fn looks_elsewhere(&self) -> bool {
        self.slow_paths.get() % 1024 < self.rules.remote_ratio
    }

    /// Gives a CPU the slab that policy chooses next.
    pub(super) fn take_next(&self, cpu: usize) {
        let on = self.at(cpu);
        let old = self.take_cpu_slab(cpu);
        let slab = alloc::next_slab(on, old).expect("numbers without end");
        alloc::check_in(on, slab);
    }

    /// Frees an object of a slab on a CPU.
    #[inline]
    pub fn free(&mut self, cpu: usize, slab: u32) {
        if self.has_arrays() {
            return self.free_to_array(cpu, slab);
        }
        let takes = self.memory.takes(self.node_of[cpu], self.slab(slab).node.get());
        if !self.stacks.is_empty() && takes {
            return self.free_to_sheaf(cpu, slab);
        }
        self.free_to_slab(cpu, slab);
    }

    #[inline]
    pub(crate) fn free_to_slab(&self, cpu: usize, slab: u32) {
        if self.cpus[cpu].slab.get() == slab {
            self.cpus[cpu].free.set(self.cpus[cpu].free.get() + 1);
            self.counters.add(Counter::FreeFastpath, 1);
            return;
        }
        self.free_group(cpu, &Group { slab, word: Word::FIRST, mask: 1 });
    }

    /// Frees objects in bulk, from the last to the first: those of one slab together, as far as no
    /// more than two of other slabs are between them (as the kernel builds detached free lists). What a
    /// flush frees counts as flushed alone (7.x).
    pub(crate) fn free_in_bulk(&self, cpu: usize, mut objects: Vec<u32>) {
        const LOOK_AHEAD: usize = 3;
        while let Some(slab) = objects.pop() {
            let (mut mask, mut others, mut at) = (1u64, 0, objects.len());
            while at > 0 && others < LOOK_AHEAD && mask < 1 << (Word::OBJECTS - 1) {
                at -= 1;
                if objects[at] == slab {
                    objects.remove(at);
                    mask = mask << 1 | 1;
                } else {
                    others += 1;
                }
            }
            let on = self.at_node_of(cpu, slab);
            let put = on.put(on.cache().shape(), &Group { slab, word: Word::FIRST, mask });
            on.count(Counter::CmpxchgSlab, 1);
            let relists = put.before == 0 || self.slab(slab).free.get() == self.objects_of(slab);
            on.count(Counter::CmpxchgUnderLock, relists.into());
            on.freed(on.cache().shape(), slab, &put);
        }
    }

    fn free_group(&self, cpu: usize, group: &Group) {
        let slab = group.slab;
        if self.rules.front == Front::Nothing {
            let on = self.at_node_of(cpu, slab);
            return tiny::free_one(on, Header::shape(on.cache()), group);
        }
        let on = self.at(cpu);
        let drained = free::free_to_slab(on, Header::shape(on.cache()), group);
        if drained > 0 {
            self.counters.drained(drained);
        }
    }

    /// The CPU's slab is flushed with its free objects: to its node's list, or to its end.
    pub(crate) fn deactivate(&self, cpu: usize) {
        if let Some(slab) = self.take_cpu_slab(cpu) {
            let _no_objects = alloc::deactivate(self.at(cpu), slab);
        }
    }

    /// Flushes all that a CPU holds: its slab and its list.
    pub fn flush_cpu(&self, cpu: usize) {
        alloc::flush_cpu(self.at(cpu));
    }

    /// The CPU is gone: what it holds goes to slabs and to nodes' lists (as a kernel does for a dead CPU; by SLAB
    /// its array to its slabs).
    pub fn unplug(&self, cpu: usize) {
        if self.has_arrays() {
            return self.drain_array_of(cpu);
        }
        self.flush_sheaves_of(cpu);
        self.flush_cpu(cpu);
    }

    /// Takes the empty slabs off a CPU's list, and leaves the others there. Returns how many.
    pub fn drain_empties(&self, cpu: usize) -> u32 {
        lists::drain_own_empties(self.at(cpu))
    }
}
