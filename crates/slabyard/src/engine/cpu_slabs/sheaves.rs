//! Sheaves and barns: each CPU's main and spare sheaf, each node's barn of full
//! and empty ones.
//!
//! An object in a sheaf counts as in use in its slab. In 6.18 a sheaf is refilled
//! from, and flushed to, the CPU slab and its lists; in 7.x from the node's list.
//! Objects of another node than the CPU's pass sheaves by.

use super::lists::End;
use super::{Front, KernelCache, NONE};
use crate::engine::counters::Counter;
use ::alloc::vec::Vec;

/// Most full sheaves of a barn, and most empty ones.
const MOST: usize = 10;

/// A CPU's sheaves: numbers of slabs, one for each object.
#[derive(Debug, Default)]
pub(crate) struct CpuSheaves {
    pub(crate) main: Vec<u32>,
    pub(crate) spare: Option<Vec<u32>>,
}

/// A node's sheaves.
#[derive(Debug, Default)]
pub(crate) struct Barn {
    pub(crate) full: Vec<Vec<u32>>,
    nr_empty: usize,
}

impl KernelCache {
    fn capacity(&self) -> usize {
        self.rules.sheaf_capacity as usize
    }

    fn barn_of(&mut self, cpu: usize) -> &mut Barn {
        &mut self.barns[self.node_of[cpu] as usize]
    }

    /// `None` if the slab path is to serve.
    pub(crate) fn alloc_from_sheaf(&mut self, cpu: usize, node: Option<u16>) -> Option<u32> {
        if node.is_some_and(|node| node != self.node_of[cpu]) {
            return None;
        }
        if self.sheaves[cpu].main.is_empty() {
            self.fill_main(cpu);
        }
        let slab = self.sheaves[cpu].main.pop()?;
        self.counters.add(Counter::AllocCpuSheaf, 1);
        Some(slab)
    }

    /// Another sheaf in place of the empty main one.
    fn fill_main(&mut self, cpu: usize) {
        let pcs = &mut self.sheaves[cpu];
        if let Some(spare) = pcs.spare.as_mut().filter(|spare| !spare.is_empty()) {
            core::mem::swap(spare, &mut pcs.main);
            return;
        }
        if let Some(full) = self.barn_of(cpu).full.pop() {
            self.counters.add(Counter::BarnGet, 1);
            self.sheaves[cpu].main = full;
            self.barn_of(cpu).nr_empty += 1;
            return;
        }
        self.counters.add(Counter::BarnGetFail, 1);
        let want = self.capacity();
        let mut sheaf = core::mem::take(&mut self.sheaves[cpu].main);
        match self.rules.front {
            Front::Sheaves => self.refill_from_node(cpu, &mut sheaf, want),
            _ => {
                for _ in 0..want {
                    let slab = self.alloc_from_cpu_slab(cpu, None);
                    sheaf.push(slab);
                }
            }
        }
        self.counters.add(Counter::SheafRefill, sheaf.len() as u32);
        self.sheaves[cpu].main = sheaf;
    }

    /// Whole slabs are taken off the node's list, as many as give enough; what is
    /// too much goes back, at the list's head.
    fn refill_from_node(&mut self, cpu: usize, sheaf: &mut Vec<u32>, want: usize) {
        let node = self.node_of[cpu] as usize;
        let mut taken = Vec::new();
        let mut sum = 0;
        self.counters.add(Counter::ListLock, 1);
        while sum < want && self.nodes[node].head != NONE {
            let slab = self.nodes[node].head;
            self.remove_partial(slab);
            sum += self.slabs[slab as usize].free as usize;
            taken.push(slab);
        }
        for slab in taken {
            self.counters.add(Counter::CmpxchgSlab, 1);
            self.take_objects(slab, sheaf, want);
            if self.slabs[slab as usize].free > 0 {
                self.counters.add(Counter::ListLock, 1);
                self.add_partial(slab, End::Head);
            }
        }
        while sheaf.len() < want {
            let slab = self.begin_slab(node as u16);
            self.take_objects(slab, sheaf, want);
            if self.slabs[slab as usize].free > 0 {
                self.counters.add(Counter::ListLock, 1);
                self.add_partial(slab, End::Head);
            }
        }
    }

    fn take_objects(&mut self, slab: u32, sheaf: &mut Vec<u32>, want: usize) {
        let it = &mut self.slabs[slab as usize];
        let n = (it.free as usize).min(want - sheaf.len());
        it.free -= n as u32;
        sheaf.extend(core::iter::repeat_n(slab, n));
    }

    /// False if the slab path is to serve.
    pub(crate) fn free_to_sheaf(&mut self, cpu: usize, slab: u32) -> bool {
        if self.slabs[slab as usize].node != self.node_of[cpu] {
            return false;
        }
        if self.sheaves[cpu].main.len() >= self.capacity() {
            self.empty_main(cpu);
        }
        self.sheaves[cpu].main.push(slab);
        self.counters.add(Counter::FreeCpuSheaf, 1);
        true
    }

    /// A sheaf with room in place of the full main one.
    fn empty_main(&mut self, cpu: usize) {
        let capacity = self.capacity();
        let barn = &mut self.barns[self.node_of[cpu] as usize];
        let pcs = &mut self.sheaves[cpu];
        match &mut pcs.spare {
            None => {
                // An empty one from the barn, or a new one.
                barn.nr_empty = barn.nr_empty.saturating_sub(1);
                pcs.spare = Some(core::mem::take(&mut pcs.main));
            }
            Some(spare) if spare.len() < capacity => core::mem::swap(spare, &mut pcs.main),
            Some(_) if barn.full.len() < MOST => {
                barn.full.push(core::mem::take(&mut pcs.main));
                barn.nr_empty = barn.nr_empty.saturating_sub(1);
                self.counters.add(Counter::BarnPut, 1);
            }
            Some(spare) => {
                let mut flushed = core::mem::take(spare);
                self.counters.add(Counter::BarnPutFail, 1);
                self.flush_sheaf(cpu, &mut flushed);
                let pcs = &mut self.sheaves[cpu];
                pcs.spare = Some(core::mem::replace(&mut pcs.main, flushed));
            }
        }
    }

    /// Objects of a sheaf go to their slabs.
    fn flush_sheaf(&mut self, cpu: usize, sheaf: &mut Vec<u32>) {
        self.counters.add(Counter::SheafFlush, sheaf.len() as u32);
        for slab in sheaf.drain(..) {
            self.free_to_slab(cpu, slab);
        }
    }

    /// All sheaves go to their slabs.
    pub(crate) fn flush_sheaves(&mut self) {
        for cpu in 0..self.sheaves.len() {
            let pcs = core::mem::take(&mut self.sheaves[cpu]);
            for mut sheaf in core::iter::once(pcs.main).chain(pcs.spare) {
                self.flush_sheaf(cpu, &mut sheaf);
            }
        }
        for node in 0..self.barns.len() {
            let cpu = self.node_of.iter().position(|of| *of as usize == node).unwrap_or(0);
            for mut sheaf in core::mem::take(&mut self.barns[node]).full {
                self.flush_sheaf(cpu, &mut sheaf);
            }
        }
    }

    /// Free objects in sheaves of CPUs and in barns.
    #[must_use]
    pub fn in_sheaves(&self) -> (usize, usize) {
        let cpus = (0..self.sheaves.len()).map(|cpu| self.in_sheaves_of(cpu)).sum();
        let barns = (0..self.barns.len()).map(|node| self.in_barn_of(node as u16)).sum();
        (cpus, barns)
    }

    /// Calls `f` with the slab of each object in a sheaf.
    pub(crate) fn each_in_sheaves(&self, mut f: impl FnMut(u32)) {
        for pcs in &self.sheaves {
            pcs.main.iter().chain(pcs.spare.iter().flatten()).for_each(|slab| f(*slab));
        }
        self.barns.iter().flat_map(|barn| &barn.full).flatten().for_each(|slab| f(*slab));
    }
}
