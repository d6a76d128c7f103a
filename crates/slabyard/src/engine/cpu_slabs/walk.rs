//! Reads a cache's containers from outside, one CPU and one node at a time, without
//! changing anything.
//!
//! Neighbours: [`audit`](super::audit) sums over all of them and checks the books.

use super::{KernelCache, NONE, State};
use ::alloc::vec::Vec;

impl KernelCache {
    /// CPUs of the machine.
    #[must_use]
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Memory nodes of the machine.
    #[must_use]
    pub fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Slabs of a node, wherever they are.
    #[must_use]
    pub fn nr_slabs_of(&self, node: u16) -> u32 {
        let of = |slab: &&super::Slab| slab.state != State::Gone && slab.node == node;
        self.slabs.iter().filter(of).count() as u32
    }

    /// Free objects in a CPU's sheaves.
    #[must_use]
    pub fn in_sheaves_of(&self, cpu: usize) -> usize {
        let of = |pcs: &super::sheaves::CpuSheaves| {
            pcs.main.len() + pcs.spare.as_ref().map_or(0, Vec::len)
        };
        self.sheaves.get(cpu).map_or(0, of)
    }

    /// Free objects in a node's barn.
    #[must_use]
    pub fn in_barn_of(&self, node: u16) -> usize {
        self.barns.get(node as usize).map_or(0, |barn| barn.full.iter().map(Vec::len).sum())
    }

    /// Free objects of a slab on a CPU partial list as the list has counted them: with
    /// [`Accounting::Objects`](super::Accounting::Objects) those of the moment when it
    /// joined.
    #[must_use]
    pub fn counted(&self, slab: u32) -> u32 {
        self.slabs[slab as usize].counted
    }

    /// The slab of a CPU and its own free objects in it, if it has one.
    #[must_use]
    pub fn cpu_slab(&self, cpu: usize) -> Option<(u32, u32)> {
        let c = &self.cpus[cpu];
        (c.slab != NONE).then_some((c.slab, c.free))
    }

    /// Slabs on a CPU's partial list, the next one to be used first.
    pub fn each_cpu_partial(&self, cpu: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.chain(self.cpus[cpu].partial.head)
    }

    /// Slabs on a node's list from its head, each with its free objects.
    pub fn each_node_partial(&self, node: u16) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.chain(self.nodes[node as usize].head)
    }

    fn chain(&self, head: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let next = move |at: &u32| Some(self.next_of(*at)).filter(|next| *next != NONE);
        core::iter::successors(Some(head).filter(|head| *head != NONE), next)
            .map(|slab| (slab, self.slabs[slab as usize].free))
    }

    /// Free objects of a slab, its CPU's own included.
    #[must_use]
    pub fn free_of(&self, slab: u32) -> u32 {
        let it = &self.slabs[slab as usize];
        let own = if it.state == State::CpuSlab { self.cpus[it.cpu as usize].free } else { 0 };
        it.free + own
    }
}
