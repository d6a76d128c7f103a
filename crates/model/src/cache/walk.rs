//! Reads the contents of a cache's CPU slabs, lists, sheaves, arrays and barns, one CPU and one
//! node at a time, without changing anything.
//!
//! Neighbours: [`audit`](super::audit) sums over all of them and checks the equations.

use super::containers::CpuStacks;
use super::numbers::Slab;
use super::{KernelCache, NONE, State};

impl KernelCache {
    /// CPUs of the machine.
    #[must_use]
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// The memory node of a CPU.
    #[must_use]
    pub fn node_of_cpu(&self, cpu: usize) -> u16 {
        self.node_of[cpu]
    }

    /// Memory nodes of the machine.
    #[must_use]
    pub fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The slabs that there are, by number.
    pub(crate) fn each_slab(&self) -> impl Iterator<Item = (u32, &Slab)> {
        let all = (1..self.numbers.table.len()).map(|number| (number, self.slab(number)));
        all.filter(|(_, slab)| slab.state.get() != State::Gone)
    }

    /// Slabs of a node, wherever they are.
    #[must_use]
    pub fn nr_slabs_of(&self, node: u16) -> u32 {
        self.each_slab().filter(|(_, slab)| slab.node.get() == node).count() as u32
    }

    /// Free objects in a CPU's sheaves, those included that wait for readers since it filled them.
    #[must_use]
    pub fn in_sheaves_of(&self, cpu: usize) -> usize {
        let Some(CpuStacks { main, spare, rcu_free, .. }) = self.stacks.get(cpu) else { return 0 };
        let of_calls = [main, spare]
            .map(|stack| stack.borrow().as_ref().map_or(0, |sheaf| sheaf.0.len()))
            .iter()
            .sum::<usize>();
        let waiting = self.waiting.borrow();
        let of_cpu = waiting.iter().filter(|(filled_by, _)| *filled_by == cpu);
        of_calls + rcu_free.borrow().0.len() + of_cpu.map(|(_, sheaf)| sheaf.0.len()).sum::<usize>()
    }

    /// Free objects in a node's barn.
    #[must_use]
    pub fn in_barn_of(&self, node: u16) -> usize {
        self.nodes.get(node as usize).map_or(0, |node| node.header.barn_objects() as usize)
    }

    /// Free objects of a slab on a CPU partial list as the list has counted them: with
    /// [`Accounting::Objects`](super::Accounting::Objects) those of the moment when it
    /// joined.
    #[must_use]
    pub fn counted(&self, slab: u32) -> u32 {
        self.slab(slab).counted.get()
    }

    /// The slab of a CPU and its own free objects in it, if it has one.
    #[must_use]
    pub fn cpu_slab(&self, cpu: usize) -> Option<(u32, u32)> {
        let c = &self.cpus[cpu];
        (c.slab.get() != NONE).then(|| (c.slab.get(), c.free.get()))
    }

    /// Slabs on a CPU's partial list, the next one to be used first.
    pub fn each_cpu_partial(&self, cpu: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.chain(self.cpus[cpu].partial.get().head)
    }

    /// Slabs on a node's list from its head, each with its free objects.
    pub fn each_node_partial(&self, node: u16) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.chain(self.node_partial(node as usize).0)
    }

    fn chain(&self, head: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let next = move |at: &u32| Some(self.next_of(*at)).filter(|next| *next != NONE);
        core::iter::successors(Some(head).filter(|head| *head != NONE), next)
            .map(|slab| (slab, self.slab(slab).free.get()))
    }

    /// Free objects of a slab, its CPU's own included.
    #[must_use]
    pub fn free_of(&self, slab: u32) -> u32 {
        let it = self.slab(slab);
        let is_of_cpu = it.state.get() == State::CpuSlab;
        let own = if is_of_cpu { self.cpus[it.cpu.get() as usize].free.get() } else { 0 };
        it.free.get() + own
    }
}
