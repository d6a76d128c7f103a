//! Frees: to the CPU slab, or the slow way to any other slab.

use super::lists::End;
use super::{Accounting, Freezing, KernelCache, State};
use crate::engine::counters::Counter;

impl KernelCache {
    /// Frees an object of a slab on a CPU.
    #[inline]
    pub fn free(&mut self, cpu: usize, slab: u32) {
        if !self.sheaves.is_empty() && self.free_to_sheaf(cpu, slab) {
            return;
        }
        self.free_to_slab(cpu, slab);
    }

    #[inline]
    pub(crate) fn free_to_slab(&mut self, cpu: usize, slab: u32) {
        if self.cpus[cpu].slab == slab {
            self.cpus[cpu].free += 1;
            self.counters.add(Counter::FreeFastpath, 1);
            return;
        }
        self.free_slow(cpu, slab);
    }

    fn free_slow(&mut self, cpu: usize, slab: u32) {
        self.counters.add(Counter::FreeSlowpath, 1);
        self.counters.add(Counter::CmpxchgSlab, 1);
        let rules = self.rules;
        let it = &mut self.slabs[slab as usize];
        debug_assert!(it.free < rules.objects, "more objects freed than there are");
        let was_full = it.free == 0;
        it.free += 1;
        let is_empty = it.free == rules.objects;
        match it.state {
            State::CpuSlab => {
                it.freed_by = cpu as u16;
                self.counters.add(Counter::FreeFrozen, 1);
            }
            State::CpuPartial => self.free_to_parked(slab, is_empty),
            State::NodePartial if !is_empty => {}
            State::NodePartial => {
                self.counters.add(Counter::ListLock, 1);
                self.counters.add(Counter::CmpxchgUnderLock, 1);
                if self.ends_if_empty(slab) {
                    self.remove_partial(slab);
                    self.counters.add(Counter::FreeRemovePartial, 1);
                    self.discard(slab);
                }
            }
            State::Full | State::Gone => {
                if !was_full {
                    // On no list although it has free objects: it is lost, and the
                    // flag "on the node's list" says no, so nothing is done.
                    return;
                }
                if rules.cpu_partial_lists {
                    self.counters.add(Counter::CpuPartialFree, 1);
                    let drained = self.put_cpu_partial(cpu, slab, true);
                    if drained > 0 {
                        self.counters.drained(drained);
                    }
                    return;
                }
                self.counters.add(Counter::ListLock, 1);
                self.counters.add(Counter::CmpxchgUnderLock, 1);
                if self.ends_if_empty(slab) {
                    self.discard(slab);
                } else {
                    self.add_partial(slab, End::Tail);
                    self.counters.add(Counter::FreeAddPartial, 1);
                }
            }
        }
    }

    /// A free to a slab on some CPU partial list.
    fn free_to_parked(&mut self, slab: u32, is_empty: bool) {
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
            let it = &mut self.slabs[slab as usize];
            it.counted += 1;
            let cpu = it.cpu as usize;
            self.cpus[cpu].partial.objects += 1;
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
