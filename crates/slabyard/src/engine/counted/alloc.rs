//! Allocation by the CPU slab, and the choice of the next one.
//!
//! [`KernelCache::choose`] changes nothing: what asks "which slab would be next?"
//! asks the rules themselves.

use super::{Accounting, Freezing, KernelCache, NONE, Planted, State};
use crate::engine::partial::End;
use crate::engine::slabs::{Group, Slabs};
use crate::engine::{Counter, partial};
use crate::slab::Word;

/// Where the next object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The CPU slab's objects that the CPU has.
    Own,
    /// Those of it that others freed.
    Refill,
    /// The slab at the head of the CPU partial list.
    CpuPartial(u32),
    /// The slab at the head of a node's list.
    NodePartial(u32),
    /// A new slab.
    New,
}

/// Any node will do.
pub const ANY_NODE: Option<u16> = None;

impl KernelCache {
    /// Allocates on a CPU, from a node if one is named: the object's slab.
    #[inline]
    pub fn alloc(&mut self, cpu: usize, node: Option<u16>) -> u32 {
        if !self.stacks.is_empty() && node.is_none_or(|node| node == self.node_of[cpu]) {
            return self.alloc_from_sheaf(cpu);
        }
        self.alloc_from_slab(cpu, node)
    }

    #[inline]
    pub(crate) fn alloc_from_slab(&self, cpu: usize, node: Option<u16>) -> u32 {
        if !self.rules.has_cpu_slabs() {
            return self.alloc_one(cpu, node);
        }
        self.alloc_from_cpu_slab(cpu, node)
    }

    /// One object from a node's first slab, which stays on its list (7.x).
    fn alloc_one(&self, cpu: usize, node: Option<u16>) -> u32 {
        self.counters.add(Counter::AllocSlowpath, 1);
        self.slow_paths.set(self.slow_paths.get().wrapping_add(1));
        if let Choice::NodePartial(slab) = self.choose(cpu, node) {
            self.counters.add(Counter::CmpxchgUnderLock, 1);
            partial::take_partial(self.at_node_of(cpu, slab), 1, false, &mut |_| ());
            return slab;
        }
        self.counters.add(Counter::ListLock, 1);
        let near = node.unwrap_or(self.node_of[cpu]);
        let slab = self.begin_slab(near.min(self.nodes.len() as u16 - 1));
        let on = self.at_node_of(cpu, slab);
        if let (_, 1..) = on.take(on.cache().shape(), slab, 1, false, |_| ()) {
            self.add_partial(slab, End::Head);
        }
        slab
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
        self.alloc_slow(cpu, node)
    }

    fn alloc_slow(&self, cpu: usize, node: Option<u16>) -> u32 {
        self.counters.add(Counter::AllocSlowpath, 1);
        self.slow_paths.set(self.slow_paths.get().wrapping_add(1));
        let slab = self.cpus[cpu].slab.get();
        if slab != NONE && node.is_some_and(|node| node != self.slab(slab).node.get()) {
            self.counters.add(Counter::AllocNodeMismatch, 1);
            self.deactivate(cpu);
        }
        let choice = self.choose(cpu, node);
        self.take(cpu, node, choice);
        self.cpus[cpu].free.set(self.cpus[cpu].free.get() - 1);
        self.cpus[cpu].slab.get()
    }

    /// Where the next object of a CPU comes from.
    #[must_use]
    pub fn choose(&self, cpu: usize, node: Option<u16>) -> Choice {
        let c = &self.cpus[cpu];
        if c.free.get() > 0 {
            return Choice::Own;
        }
        if c.slab.get() != NONE && self.slab(c.slab.get()).free.get() > 0 {
            return Choice::Refill;
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
        if node.is_none() && self.slow_paths.get() % 1024 < self.rules.remote_ratio {
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

    /// Makes a choice true: afterwards the CPU has free objects of its own.
    pub(crate) fn take(&self, cpu: usize, node: Option<u16>, choice: Choice) {
        if choice == Choice::Own {
            return;
        }
        if self.cpus[cpu].slab.get() != NONE {
            // Looks for what others freed; without any, the same compare-exchange
            // leaves the slab behind.
            self.counters.add(Counter::CmpxchgSlab, 1);
            if choice == Choice::Refill {
                self.counters.add(Counter::AllocRefill, 1);
                self.take_over(cpu);
                return;
            }
            self.leave(cpu);
        }
        match choice {
            Choice::CpuPartial(slab) => {
                self.counters.add(Counter::CpuPartialAlloc, 1);
                self.remove_cpu_partial(slab);
                self.counters.add(Counter::CmpxchgSlab, 1);
                self.freeze(cpu, slab);
            }
            Choice::NodePartial(slab) => self.take_from_node(cpu, slab),
            _ => {
                let near = node.unwrap_or(self.node_of[cpu]);
                let slab = self.begin_slab(near.min(self.nodes.len() as u16 - 1));
                self.freeze(cpu, slab);
            }
        }
    }

    pub(crate) fn take_over(&self, cpu: usize) {
        let c = &self.cpus[cpu];
        let slab = c.slab.get();
        let on = self.at_node_of(cpu, slab);
        let (taken, _) = on.take(on.cache().shape(), slab, u32::MAX, false, |_| ());
        c.free.set(c.free.get() + taken);
    }

    /// The CPU's own objects return to the slab that it leaves. Returns what was free already.
    pub(crate) fn return_own(&self, cpu: usize, slab: u32) -> u32 {
        let on = self.at_node_of(cpu, slab);
        let (_, before) = on.free_of(slab);
        let mut own = self.cpus[cpu].free.take();
        while own > 0 {
            let n = own.min(Word::OBJECTS);
            let mask = u64::MAX >> (Word::OBJECTS - n);
            let _put = on.put(on.cache().shape(), &Group { slab, word: Word::FIRST, mask });
            own -= n;
        }
        self.slab(slab).state.set(State::Full);
        before
    }

    /// The CPU slab has no free object: it is full and nobody's.
    fn leave(&self, cpu: usize) {
        let slab = self.cpus[cpu].slab.replace(NONE);
        self.slab(slab).state.set(State::Full);
        self.counters.add(Counter::DeactivateBypass, 1);
    }

    /// A slab that is in no list becomes the CPU's, all its free objects with it.
    pub(crate) fn freeze(&self, cpu: usize, slab: u32) {
        let it = self.slab(slab);
        it.state.set(State::CpuSlab);
        it.cpu.set(cpu as u16);
        self.cpus[cpu].slab.set(slab);
        self.take_over(cpu);
    }

    /// Under one hold of the list lock: the slab to use (the list's first), and those
    /// behind it for the CPU's list.
    fn take_from_node(&self, cpu: usize, slab: u32) {
        let eager = self.rules.freezing == Freezing::Eager;
        self.counters.add(Counter::ListLock, 1);
        self.counters.add(Counter::AllocFromPartial, 1);
        self.counters.add(Counter::CmpxchgSlab, 1);
        self.counters.add(Counter::CmpxchgUnderLock, u32::from(eager));
        let mut behind = self.next_of(slab);
        self.remove_partial(slab);
        let mut available = self.slab(slab).free.get();
        let mut moved = 0;
        while self.wants_more(moved, available) {
            let next = behind;
            if next == NONE {
                break;
            }
            behind = self.next_of(next);
            self.remove_partial(next);
            available += self.slab(next).free.get();
            moved += 1;
            if eager {
                self.counters.add(Counter::CmpxchgSlab, 1);
                self.counters.add(Counter::CmpxchgUnderLock, 1);
            }
            if !self.rules.cpu_partial_lists {
                // Planted: it is on no list now, and nobody will find it.
                continue;
            }
            self.put_cpu_partial(cpu, next, false);
            self.counters.add(Counter::CpuPartialNode, 1);
        }
        self.freeze(cpu, slab);
    }

    /// True if one more slab is to move to the CPU partial list.
    fn wants_more(&self, moved: u32, available: u32) -> bool {
        let rules = &self.rules;
        match rules.planted {
            Planted::NoBatchMove => return false,
            Planted::LoseExtraSlabs if !rules.cpu_partial_lists => return true,
            _ => {}
        }
        rules.cpu_partial_lists
            && match rules.accounting {
                Accounting::Objects | Accounting::Exact => available <= rules.cpu_partial / 2,
                // Half of the limit and one more, but none where the limit is 0.
                Accounting::Slabs => {
                    rules.cpu_partial_slabs > 0 && moved <= rules.cpu_partial_slabs / 2
                }
            }
    }

    /// The CPU slab is flushed with its free objects: to its node's list, or to
    /// its end.
    pub(crate) fn deactivate(&self, cpu: usize) {
        let slab = self.cpus[cpu].slab.replace(NONE);
        if slab == NONE {
            return;
        }
        let remote = self.return_own(cpu, slab) > 0;
        self.counters.add(Counter::CmpxchgSlab, 1);
        self.counters.add(Counter::DeactivateRemoteFrees, u32::from(remote));
        if self.slab(slab).free.get() == 0 {
            self.counters.add(Counter::DeactivateFull, 1);
            return;
        }
        if self.ends_if_empty(slab) {
            self.counters.add(Counter::DeactivateEmpty, 1);
            self.discard(slab);
            return;
        }
        self.counters.add(Counter::ListLock, 1);
        if self.rules.freezing == Freezing::Eager {
            self.counters.add(Counter::CmpxchgUnderLock, 1);
        }
        let (end, counter) = if remote {
            (End::Tail, Counter::DeactivateToTail)
        } else {
            (End::Head, Counter::DeactivateToHead)
        };
        self.add_partial(slab, end);
        self.counters.add(counter, 1);
    }

    /// Flushes all that a CPU holds: its slab and its list.
    pub fn flush_cpu(&self, cpu: usize) {
        if self.cpus[cpu].slab.get() != NONE {
            self.counters.add(Counter::CpuslabFlush, 1);
            self.deactivate(cpu);
        }
        self.drain(cpu);
    }
}
