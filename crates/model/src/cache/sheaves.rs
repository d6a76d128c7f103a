//! Sheaves and barns in front of a kernel's slabs: the policy of [`slabyard::engine::sheaves`], by
//! the kernel's rules.
//!
//! An object in a sheaf counts as in use in its slab. In 6.18 a sheaf is refilled from, and flushed
//! to, the CPU slab and its lists; in 7.x from and to the node's list. Objects of another node than
//! the CPU's bypass sheaves.

use super::containers::CountedSheaf;
use super::slabs::CountedSlabs;
use super::{KernelCache, NONE};
use crate::counters::SheafCounter;
use slabyard::engine::Counter;
use slabyard::engine::array_cache::alien;
use slabyard::engine::partial;
use slabyard::engine::partial_list::End;
use slabyard::engine::sheaves::NodeSheaves;
use slabyard::engine::slabs::{Held, NodeList, SheafAccess};

impl<'c> CountedSlabs<'c> {
    /// The policy of their node.
    fn sheaves(self) -> &'c NodeSheaves<Vec<CountedSheaf>> {
        &self.cache.nodes[self.node as usize].sheaves
    }

    /// Fills a sheaf from slabs.
    fn fill(self, sheaf: &mut CountedSheaf) {
        let missing = self.cache.rules.sheaf_capacity.saturating_sub(sheaf.len());
        let before = sheaf.len();
        if self.cache.rules.has_cpu_slabs() {
            let below = (0..missing).map(|_| self.cache.alloc_from_slab(self.cpu, None));
            sheaf.0.extend(below.take_while(|slab| *slab != NONE));
        } else {
            partial::take_objects(self, missing, &mut self.filling(sheaf));
        }
        self.count(Counter::SheafRefill, sheaf.len() - before);
    }

    /// The caller's sheaf is the CPU's spare, whatever it holds, else one of the barn; it is filled
    /// if it holds fewer objects than `least`, and becomes the spare again.
    fn alloc_prefilled(self, least: u32) -> u32 {
        let (sheaves, spare) = (self.sheaves(), &self.cache.stacks[self.cpu].spare);
        let other = || sheaves.barn_take_full(self).or_else(|| sheaves.barn_take_empty(self));
        let Some(mut sheaf) = spare.take().or_else(other) else {
            return self.cache.alloc_from_slab(self.cpu, None);
        };
        if sheaf.len() < least.min(self.cache.rules.sheaf_capacity) {
            self.fill(&mut sheaf);
        }
        let object = sheaf.0.pop();
        spare.replace(Some(sheaf));
        object.unwrap_or(NONE)
    }

    /// Fills a sheaf from new slabs, although the main one has objects: it becomes the spare if that
    /// is empty, else goes to the barn. An empty main sheaf is left to be filled.
    fn refill_aside(self, slabs: u32) {
        for slab in (0..slabs).map_while(|_| self.cache.begin_slab(self.node)) {
            self.cache.add_partial(slab, End::Head);
        }
        let stacks = &self.cache.stacks[self.cpu];
        if stacks.main.borrow().as_ref().is_none_or(Held::is_empty) {
            return;
        }
        let Some(mut full) = self.take_empty() else { return };
        self.fill(&mut full);
        if stacks.spare.borrow().is_some() {
            self.sheaves().barn_keep(self, full);
        } else {
            stacks.spare.replace(Some(full));
        }
    }

    /// An empty sheaf: the CPU's spare, or one of the barn.
    fn take_empty(self) -> Option<CountedSheaf> {
        let spare =
            self.cache.stacks[self.cpu].spare.borrow_mut().take_if(|spare| spare.is_empty());
        spare.or_else(|| self.sheaves().barn_take_empty(self))
    }
}

/// The call that allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocCall {
    /// `kmem_cache_alloc()` or `kmalloc()`.
    Plain,
    /// `kmem_cache_alloc_from_sheaf()`, of a sheaf that was prefilled with so many objects at least,
    /// or with none for this call alone.
    Prefilled(u32),
    /// `kmem_cache_alloc()` whose refill made so many slabs, and was delayed: meanwhile another task
    /// gave the CPU a sheaf and others freed objects, or it went on at another CPU.
    Delayed(u32),
}

impl KernelCache {
    /// A CPU's policy, and the slabs on which it works.
    #[must_use]
    pub fn policy_at(&self, cpu: usize) -> (&NodeSheaves<Vec<CountedSheaf>>, CountedSlabs<'_>) {
        let on = self.at(cpu);
        (on.sheaves(), on)
    }

    /// Slab of an object, and its word of the slab's bitmap.
    #[must_use]
    pub fn place_of(&self, object: u32) -> (u32, u32) {
        let shift = self.numbers.shift;
        (object >> shift, object & ((1 << shift) - 1))
    }

    /// Says which numbers the next slabs get: where slabs are placed is up to the page heap, and
    /// the groups of a flush depend on it.
    pub fn number_next(&self, numbers: impl IntoIterator<Item = u32>) {
        self.numbers.give(numbers);
    }

    /// Allocates an object on a CPU from its sheaves: the object's number, or [`NONE`] without pages.
    #[inline]
    pub fn alloc_from_sheaf(&mut self, cpu: usize) -> u32 {
        let main = self.stacks[cpu].main.get_mut();
        if let Some(object) = main.as_mut().and_then(|sheaf| sheaf.0.pop()) {
            self.counters.add(self.sheaf_hits.0, 1);
            return object;
        }
        let spare = self.stacks[cpu].spare.get_mut().as_ref().map_or(0, |sheaf| sheaf.0.len());
        let refills = self.nowait_refills || self.may_wait.get();
        if !refills && spare == 0 && self.in_barn_of(self.node_of[cpu]) == 0 {
            self.at(cpu).count(Counter::BarnGetFail, 1);
            return self.alloc_from_slab(cpu, None);
        }
        self.counters.add(self.sheaf_hits.0, 1);
        let on = self.at(cpu);
        self.counters.add_of_sheaves(SheafCounter::Empty);
        on.sheaves().alloc_slow(on).unwrap_or(NONE)
    }

    /// Frees an object on a CPU to its sheaves; returns false if it bypassed them.
    #[inline]
    pub fn free_to_sheaf(&mut self, cpu: usize, object: u32) {
        self.counters.add(self.sheaf_hits.1, 1);
        let capacity = self.rules.sheaf_capacity as usize;
        let main = self.stacks[cpu].main.get_mut();
        match main.as_mut().filter(|sheaf| sheaf.0.len() < capacity) {
            Some(sheaf) => sheaf.0.push(object),
            None => self.free_to_other_sheaf(cpu, object),
        }
    }

    fn free_to_other_sheaf(&self, cpu: usize, object: u32) {
        let on = self.at(cpu);
        self.counters.add_of_sheaves(SheafCounter::Full);
        on.sheaves().free_slow(on, object);
    }

    /// Allocates on a CPU, as [`KernelCache::alloc`], by a call that sheaves treat in its own way;
    /// without sheaves it is like any other.
    pub fn alloc_by(&mut self, call: AllocCall, cpu: usize, node: Option<u16>) -> u32 {
        let has_barn = self.memory.has_barn(self.node_of[cpu]);
        if !self.stacks.is_empty() && !self.has_arrays() && has_barn {
            match call {
                AllocCall::Plain => {}
                AllocCall::Prefilled(least) => return self.at(cpu).alloc_prefilled(least),
                AllocCall::Delayed(slabs) => self.at(cpu).refill_aside(slabs),
            }
        }
        self.alloc(cpu, node)
    }

    /// Frees an object of a slab on a CPU by `kfree_rcu()`: it waits in the CPU's sheaf for these.
    /// True: that is full, and waits for readers until [`KernelCache::end_grace`]; any number may.
    /// Without sheaves, or at another node, the object goes to its slab.
    pub fn free_rcu(&mut self, cpu: usize, slab: u32) -> bool {
        let takes = self.memory.takes(self.node_of[cpu], self.slab(slab).node.get());
        if self.stacks.is_empty() || self.has_arrays() || !takes {
            self.free(cpu, slab);
            return false;
        }
        self.counters.add_of_sheaves(SheafCounter::FreeRcu);
        let stacks = &self.stacks[cpu];
        if stacks.rcu_free.borrow().is_empty() {
            let empty = self.at(cpu).take_empty();
            stacks.rcu_free.replace(empty.unwrap_or_default());
        }
        let mut sheaf = stacks.rcu_free.borrow_mut();
        sheaf.0.push(slab);
        let is_full = sheaf.len() >= self.rules.sheaf_capacity;
        if is_full {
            self.waiting.borrow_mut().push_back((cpu, std::mem::take(&mut *sheaf)));
        }
        is_full
    }

    /// The readers are gone for which the sheaf waited that [`KernelCache::free_rcu`] filled first:
    /// it goes to the barn, or to its slabs if the barn has enough. Returns the CPU that filled it.
    ///
    /// # Panics
    /// If none waits.
    pub fn end_grace(&mut self) -> usize {
        let (cpu, mut full) = self.waiting.get_mut().pop_front().expect("a sheaf that waits");
        let (sheaves, on) = self.policy_at(cpu);
        if sheaves.barn_has_room(on) {
            on.count(Counter::BarnPut, 1);
            sheaves.barn_keep(on, full);
        } else {
            on.count(Counter::BarnPutFail, 1);
            sheaves.flush(on, &mut full, u32::MAX);
            sheaves.barn_put_empty(on, full);
        }
        cpu
    }

    /// All sheaves go to their slabs.
    pub(crate) fn flush_sheaves(&self) {
        (0..self.stacks.len()).for_each(|cpu| self.flush_sheaves_of(cpu));
        for node in 0..self.nodes.len() {
            let cpu = self.node_of.iter().position(|of| *of as usize == node).unwrap_or(0);
            let on = CountedSlabs { node: node as u16, ..self.at(cpu) };
            on.sheaves().flush_barn_above(on, 0);
        }
    }

    /// A CPU's sheaves go to their slabs.
    pub(super) fn flush_sheaves_of(&self, cpu: usize) {
        let Some(stacks) = self.stacks.get(cpu) else { return };
        let on = self.at(cpu);
        let of_calls = stacks.main.take().into_iter().chain(stacks.spare.take());
        for mut sheaf in of_calls.chain([stacks.rcu_free.take()]) {
            on.sheaves().flush(on, &mut sheaf, u32::MAX);
        }
    }

    /// Free objects in sheaves of CPUs, those that wait for readers included, and in barns.
    #[must_use]
    pub fn in_sheaves(&self) -> (usize, usize) {
        let cpus = (0..self.stacks.len()).map(|cpu| self.in_sheaves_of(cpu)).sum();
        let barns = (0..self.nodes.len()).map(|node| self.in_barn_of(node as u16)).sum();
        (cpus, barns)
    }

    /// Calls `f` with the slab of each object in a sheaf.
    pub(crate) fn each_in_sheaves(&self, mut f: impl FnMut(u32)) {
        let shift = self.numbers.shift;
        for stack in self.stacks.iter().flat_map(|stacks| [&stacks.main, &stacks.spare]) {
            stack.borrow().iter().flat_map(|sheaf| &sheaf.0).for_each(|object| f(object >> shift));
        }
        for stacks in &self.stacks {
            stacks.rcu_free.borrow().0.iter().for_each(|object| f(object >> shift));
        }
        for (_, sheaf) in self.waiting.borrow().iter() {
            sheaf.0.iter().for_each(|object| f(object >> shift));
        }
        for node in 0..self.nodes.len() {
            let on = CountedSlabs { node: node as u16, ..self.at(0) };
            on.sheaves().each_in_barn(on, |object| f(object >> shift));
            self.nodes[node].arrays.each_shared(on, |object| f(object >> shift));
            for alien in &self.nodes[node].aliens {
                alien::each(on, alien, |object| f(object >> shift));
            }
        }
    }
}
