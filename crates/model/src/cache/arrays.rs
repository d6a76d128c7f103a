//! Array caches in front of a kernel's slabs: the policy of [`slabyard::engine::array_cache`],
//! applied to counts.
//!
//! An object in an array counts as in use in its slab. Objects of another node than the CPU's wait
//! in [alien arrays](slabyard::engine::array_cache::alien). Time passes only when
//! [`KernelCache::reap`] is called.

use super::containers::CountedSheaf;
use super::slabs::CountedSlabs;
use super::{Front, KernelCache, NONE};
use slabyard::engine::array_cache::clock::{Chain, Look};
use slabyard::engine::array_cache::node::Shared;
use slabyard::engine::array_cache::{
    Arrays, Choice, Limits, NodeArrays, alien, array, lists, reap,
};
use slabyard::engine::slabs::{FlushTarget, Held, NodeList, Rules, Stacks};
use slabyard::engine::{Counter, Shape};
use slabyard::platform::Slot;
use slabyard::sync::Lock;

impl Arrays for CountedSlabs<'_> {
    fn node(&self) -> &NodeArrays<Vec<CountedSheaf>> {
        &self.cache.nodes[self.node as usize].arrays
    }

    fn nr_cpus(self) -> u32 {
        self.cache.node_of.iter().filter(|node| **node == self.node).count() as u32
    }

    fn alien(&self, home: Self) -> Option<&Lock<Shared<Vec<CountedSheaf>>>> {
        let nodes = &self.cache.nodes;
        self.cache.has_aliens.then(|| &nodes[self.node as usize].aliens[home.node as usize])
    }

    fn touch(self, _: Option<&CountedSheaf>) -> bool {
        self.cache.stacks[self.cpu].touched.replace(true)
    }

    fn append(self, array: &mut CountedSheaf, objects: &[u32]) {
        array.0.extend_from_slice(objects);
    }

    fn drop_oldest(self, array: &mut CountedSheaf, objects: u32) {
        array.0.drain(..objects as usize);
    }
}

impl KernelCache {
    /// True if CPUs have arrays.
    #[inline]
    #[must_use]
    pub fn has_arrays(&self) -> bool {
        matches!(self.rules.front, Front::ArrayCaches(_))
    }

    /// A cache of a yard with array caches: no kernel's.
    #[must_use]
    pub fn of_slab_yard(shape: Shape, limits: Limits, cpus: usize) -> Self {
        let shape = Shape { stack_objects: limits.limit, ..shape };
        let mut cache = Self::of_yard(shape, Rules::SLABYARD, cpus);
        cache.rules.front = Front::ArrayCaches(limits);
        cache.nodes.iter().for_each(|node| limits.publish(&node.header));
        cache
    }

    /// Follows a policy of free slabs, before its first call.
    pub fn follow_arrays(&self, choice: Choice) {
        self.nodes.iter().for_each(|node| node.arrays.follow(choice));
    }

    /// The array caches of a CPU's node, and what they stand on.
    #[must_use]
    pub fn arrays_at(&self, cpu: usize) -> (&NodeArrays<Vec<CountedSheaf>>, CountedSlabs<'_>) {
        let on = self.at(cpu);
        (&self.nodes[on.node as usize].arrays, on)
    }

    /// From now on a free of another node's object goes to its slab at once, as in a kernel that
    /// was booted with `noaliencache`. Call it before the first free.
    pub fn without_aliens(&mut self) {
        self.has_aliens = false;
    }

    /// Objects that wait at one node for another.
    #[must_use]
    pub fn in_alien(&self, node: u16, home: u16) -> u32 {
        let (on, mut objects) = (CountedSlabs { node, ..self.at(0) }, 0);
        let array = &self.nodes[node as usize].aliens[home as usize];
        alien::each(on, array, |_| objects += 1);
        objects
    }

    /// Allocates on a CPU from its array; from a node's slabs, if another one is named: the
    /// object's slab.
    pub(super) fn alloc_from_array(&mut self, cpu: usize, node: Option<u16>) -> u32 {
        if let Some(node) = node.filter(|node| *node != self.node_of[cpu]) {
            let node = node.min(self.nodes.len() as u16 - 1);
            let on = CountedSlabs { node, ..self.at(cpu) };
            on.count(Counter::NodeAllocs, 1);
            return array::alloc_direct(on).unwrap_or(NONE);
        }
        let Some(stack) = self.stacks.get_mut(cpu) else {
            return array::alloc_direct(self.at(cpu)).unwrap_or(NONE);
        };
        if let Some(object) = stack.main.get_mut().as_mut().and_then(|array| array.0.pop()) {
            stack.touched.set(true);
            self.counters.add(Counter::AllocCpuSheaf, 1);
            return object;
        }
        array::alloc_slow(self.at(cpu)).unwrap_or(NONE)
    }

    /// Frees an object of a slab on a CPU.
    pub(super) fn free_to_array(&mut self, cpu: usize, slab: u32) {
        let begin = slab >> self.numbers.shift;
        if self.stacks.is_empty() {
            let on = self.at_node_of(cpu, begin);
            on.free_below(slab);
            return lists::trim(on);
        }
        if self.slab(begin).node.get() != self.node_of[cpu] {
            return alien::free(self.at(cpu), self.at_node_of(cpu, begin), slab);
        }
        let limit = self.nodes[self.node_of[cpu] as usize].header.sheaf_capacity() as usize;
        match self.stacks[cpu].main.get_mut().as_mut().filter(|array| array.0.len() < limit) {
            Some(array) => {
                array.0.push(slab);
                self.counters.add(Counter::FreeCpuSheaf, 1);
            }
            None => array::free_slow(self.at(cpu), slab),
        }
    }

    /// Sets a new limit for arrays: each CPU's old array is flushed, as by a line written to
    /// `/proc/slabinfo`, or at the end of a boot that began with arrays of one object.
    pub fn tune_arrays(&mut self, limits: Limits) {
        (0..self.stacks.len()).for_each(|cpu| self.drain_array_of(cpu));
        self.stacks.iter().for_each(|stack| stack.touched.set(false));
        self.rules.front = Front::ArrayCaches(limits);
        self.nodes.iter().for_each(|node| limits.publish(&node.header));
    }

    /// Reaps each CPU's array, as a kernel does every 2 s, and before it what the CPU's node has
    /// for one other node, the next one each time; with `nodes`, which is each second time, the
    /// shared arrays and free slabs, too.
    pub fn reap(&self, nodes: bool) {
        if !self.has_arrays() {
            return;
        }
        (0..self.stacks.len()).for_each(|cpu| self.reap_cpu(cpu));
        if nodes {
            self.reap_nodes();
        }
    }

    /// Reaps a CPU's array, and the alien array whose turn it is, as its timer does.
    pub fn reap_cpu(&self, cpu: usize) {
        if self.has_arrays() && cpu < self.stacks.len() {
            self.reap_alien(self.at(cpu));
            self.reap_array(self.at(cpu));
        }
    }

    /// Reaps the shared array and the free slabs of each node.
    pub fn reap_nodes(&self) {
        for node in 0..self.nodes.len() as u16 {
            if let Some(cpu) = self.node_of.iter().position(|of| *of == node) {
                self.nodes[node as usize].arrays.reap(self.at(cpu));
            }
        }
    }

    /// Hands over what the CPU's node has for the node whose turn it is.
    fn reap_alien(&self, on: CountedSlabs<'_>) {
        let turns = &self.stacks[on.cpu].reaps;
        let nth = turns.replace(turns.get().wrapping_add(1)) as usize;
        // A CPU begins with the node behind its own.
        let node = ((on.node as usize + 1 + nth) % self.nodes.len()) as u16;
        if node != on.node {
            alien::drain(on, CountedSlabs { node, ..on });
        }
    }

    fn reap_array(&self, on: CountedSlabs<'_>) {
        let limit = Limits::of_cache(on.cache()).limit;
        let touched = &on.cache.stacks[on.cpu].touched;
        if let Ok(Some(mut array)) = on.check_out(self.main_slot(on)) {
            // An empty one is not even asked whether it was touched.
            if !array.is_empty() && !touched.take() {
                let objects = reap::to_free(limit, array.len());
                array::return_oldest(on, &mut array, objects);
            }
            array::check_in(on, array, limit);
        }
    }

    fn main_slot(&self, on: CountedSlabs<'_>) -> Slot {
        on.cache().shape().main()
    }

    /// Flushes all arrays, and ends the free slabs.
    pub(super) fn drain_arrays(&self) {
        (0..self.stacks.len()).for_each(|cpu| self.drain_array_of(cpu));
        let at = |node| CountedSlabs { node, ..self.at(0) };
        let nodes = 0..self.nodes.len() as u16;
        for (node, home) in
            nodes.clone().flat_map(|node| nodes.clone().map(move |home| (node, home)))
        {
            alien::flush(at(node), at(home));
        }
        for on in nodes.map(at) {
            on.node().drain(on);
        }
    }

    /// Flushes a CPU's array.
    pub(super) fn drain_array_of(&self, cpu: usize) {
        let array = self.stacks.get(cpu).and_then(|stacks| stacks.main.take());
        if let Some(mut array) = array {
            array::return_all(self.at(cpu), &mut array);
        }
    }

    /// Puts objects of a slab that is in use into a CPU's array, on top: the state that a
    /// replay begins with.
    pub fn install_in_array(&mut self, cpu: usize, slab: u32, objects: u32) {
        let array = self.stacks[cpu].main.get_mut().get_or_insert_default();
        array.0.extend(core::iter::repeat_n(slab, objects as usize));
    }
}

/// Caches of a kernel as a CPU's timer visits them.
pub struct Ring<'a> {
    /// All that the kernel has, in the order in which the clock visits them.
    pub caches: &'a [KernelCache],
    /// Orders of their slabs.
    pub orders: &'a [u8],
    /// The one whose timer runs.
    pub cpu: usize,
}

impl Chain for Ring<'_> {
    fn next_cache(&self, from: usize) -> Option<usize> {
        (from..self.caches.len()).find(|nth| self.caches[*nth].has_arrays())
    }

    fn may_reap(&self, cache: usize) -> bool {
        self.caches[cache].arrays_at(self.cpu).0.may_reap()
    }

    fn drain_own(&self, cache: usize) {
        let cache = &self.caches[cache];
        if let Some(stack) = cache.stacks.get(self.cpu)
            && let Some(mut array) = stack.main.take()
        {
            array::return_all(cache.at(self.cpu), &mut array);
            // A yard knows by its array's absence that nobody touched it.
            stack.touched.set(false);
        }
    }

    fn look(&self, cache: usize) -> Look {
        let (arrays, _) = self.caches[cache].arrays_at(self.cpu);
        let order = self.orders[cache].into();
        Look { free_slabs: arrays.nr_free(), order, has_constructor: false }
    }

    fn end_free(&self, cache: usize, most: u32) -> u32 {
        lists::end_free(self.caches[cache].at(self.cpu), most)
    }
}
