//! Frees: to the CPU slab, or the slow way to any other slab.

use super::lists::CpuPartial;
use super::{Accounting, Freezing, KernelCache, State};
use crate::engine::partial::End;
use crate::engine::slabs::{Group, Slabs};
use crate::engine::{Counter, flush};
use crate::slab::Word;

impl KernelCache {
    /// Frees an object of a slab on a CPU.
    #[inline]
    pub fn free(&mut self, cpu: usize, slab: u32) {
        if !self.stacks.is_empty() && self.slab(slab).node.get() == self.node_of[cpu] {
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
        self.free_slow(cpu, slab);
    }

    fn free_slow(&self, cpu: usize, slab: u32) {
        self.counters.add(Counter::FreeSlowpath, 1);
        let it = self.slab(slab);
        let state = it.state.get();
        let on = self.at_node_of(cpu, slab);
        let shape = on.cache().shape();
        let group = Group { slab, word: Word::FIRST, mask: 1 };
        let was_full = it.free.get() == 0;
        let is_empty = it.free.get() + 1 == self.rules.objects;
        let joins = matches!(state, State::Full | State::Gone) && was_full;
        if state == State::NodePartial || joins && !self.rules.cpu_partial_lists {
            self.counters.add(Counter::CmpxchgUnderLock, u32::from(is_empty || joins));
            flush::put_group(on, shape, &group);
            return;
        }
        self.counters.add(Counter::CmpxchgSlab, 1);
        let _put = on.put(shape, &group);
        match state {
            State::CpuSlab => {
                it.freed_by.set(cpu as u16);
                self.counters.add(Counter::FreeFrozen, 1);
            }
            State::CpuPartial => self.free_to_parked(slab, is_empty),
            // Else on no list although it has free objects: it is lost, and the flag "on the
            // node's list" says no, so nothing is done.
            _ if joins => {
                self.counters.add(Counter::CpuPartialFree, 1);
                let drained = self.put_cpu_partial(cpu, slab, true);
                if drained > 0 {
                    self.counters.drained(drained);
                }
            }
            _ => {}
        }
    }

    /// A free to a slab on some CPU partial list.
    fn free_to_parked(&self, slab: u32, is_empty: bool) {
        self.counters.add(Counter::EmptyParked, u32::from(is_empty));
        match self.rules.freezing {
            Freezing::Eager => self.counters.add(Counter::FreeFrozen, 1),
            // The slab does not tell that it is on a CPU's list: the lock is taken,
            // the flag says "not on the node's list", and that was all.
            Freezing::Delayed if is_empty => {
                self.counters.add(Counter::ListLock, 1);
                self.counters.add(Counter::ListLockVain, 1);
                self.counters.add(Counter::CmpxchgUnderLock, 1);
            }
            Freezing::Delayed => {}
        }
        if self.rules.accounting == Accounting::Exact {
            let it = self.slab(slab);
            it.counted.set(it.counted.get() + 1);
            let cpu = it.cpu.get() as usize;
            let partial = &self.cpus[cpu].partial;
            partial.set(CpuPartial { objects: partial.get().objects + 1, ..partial.get() });
            if is_empty {
                self.remove_cpu_partial(slab);
                self.counters.add(Counter::ListLock, 1);
                if self.ends_if_empty(slab) {
                    self.discard(slab);
                } else {
                    self.add_partial(slab, End::Tail);
                    self.counters.add(Counter::FreeAddPartial, 1);
                }
            }
        }
    }
}
