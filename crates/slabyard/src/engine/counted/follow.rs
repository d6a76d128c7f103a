//! Following a real kernel: what it did is done, whatever the rules say.
//!
//! After a difference it is a guess where the other slabs are; each rule here says
//! why. Used to ask the rules one step at a time (the lab's check).

use super::calls::{ANY_NODE, Choice};
use super::{KernelCache, NONE, State};
use crate::engine::partial::End;

impl KernelCache {
    /// Follows what a real kernel did: an object of this slab was allocated on
    /// this CPU. Returns false if the slab had none that could be.
    ///
    /// If the slab is not where the rules would look, it is taken from where it
    /// is.
    pub fn follow(&self, cpu: usize, slab: u32) -> bool {
        if self.cpus[cpu].slab.get() == slab && self.cpus[cpu].free.get() > 0 {
            self.cpus[cpu].free.set(self.cpus[cpu].free.get() - 1);
            return true;
        }
        let choice = self.choose(cpu, ANY_NODE);
        let chosen = match choice {
            Choice::Own | Choice::Refill => Some(self.cpus[cpu].slab.get()),
            Choice::CpuPartial(head) | Choice::NodePartial(head) => Some(head),
            Choice::New => None,
        };
        if chosen == Some(slab) {
            self.take_next(cpu);
        } else if !self.seize(cpu, slab) {
            return false;
        }
        self.cpus[cpu].free.set(self.cpus[cpu].free.get() - 1);
        true
    }

    /// Makes a slab the CPU's against the rules, from wherever it is.
    fn seize(&self, cpu: usize, slab: u32) -> bool {
        if self.slab(slab).state.get() == State::Full {
            self.disown_partial(cpu);
        }
        match self.slab(slab).state.get() {
            State::Gone => return false,
            State::Full if self.slab(slab).free.get() == 0 => return false,
            State::Full => {}
            State::NodePartial => self.remove_partial(slab),
            State::CpuPartial => self.remove_cpu_partial(slab),
            State::CpuSlab => {
                let other = self.slab(slab).cpu.get() as usize;
                if other == cpu {
                    let own = self.cpus[cpu].free.get();
                    self.give_slab(cpu, slab);
                    self.cpus[cpu].free.set(self.cpus[cpu].free.get() + own);
                    return self.cpus[cpu].free.get() > 0;
                }
                if self.cpus[other].free.get() + self.slab(slab).free.get() == 0 {
                    return false;
                }
                self.return_own(other, slab);
                self.cpus[other].slab.set(NONE);
            }
        }
        self.put_back(cpu);
        self.give_slab(cpu, slab);
        true
    }

    /// A real CPU made a slab, so its partial list was empty. What the model has there
    /// was freed elsewhere: it goes to another CPU's list; on one CPU, to the node's.
    fn disown_partial(&self, cpu: usize) {
        let nr_cpus = self.cpus.len();
        while self.cpus[cpu].partial.get().head != NONE {
            let slab = self.cpus[cpu].partial.get().head;
            self.remove_cpu_partial(slab);
            if nr_cpus == 1 {
                self.add_partial(slab, End::Tail);
            } else {
                self.put_cpu_partial((cpu + 1) % nr_cpus, slab);
            }
        }
    }

    /// The CPU slab that a real CPU had left already.
    fn put_back(&self, cpu: usize) {
        let old = self.cpus[cpu].slab.replace(NONE);
        if old == NONE {
            return;
        }
        let own = self.cpus[cpu].free.get();
        if self.return_own(cpu, old) + own > 0 {
            // What is free came after the real CPU had left the slab, full: so it
            // joined the list of the CPU that freed it.
            let by = if own == 0 { self.slab(old).freed_by.get() as usize } else { cpu };
            if self.rules.cpu_partial_lists {
                self.put_cpu_partial(by, old);
            } else {
                self.add_partial(old, End::Tail);
            }
        }
    }

    /// Begins a slab because a real kernel did; it becomes the CPU's.
    pub fn follow_new(&self, cpu: usize) -> u32 {
        let slab = self.begin_slab(self.node_of[cpu]);
        let seized = self.seize(cpu, slab);
        debug_assert!(seized, "a new slab has free objects");
        slab
    }

    /// Ends a slab because a real kernel did. Returns false if an object of it is
    /// in use.
    pub fn follow_freed(&self, slab: u32) -> bool {
        let it = self.slab(slab);
        match it.state.get() {
            State::Gone => return false,
            State::CpuSlab => {
                let cpu = it.cpu.get() as usize;
                if it.free.get() + self.cpus[cpu].free.get() < self.rules.objects {
                    return false;
                }
                self.return_own(cpu, slab);
                self.cpus[cpu].slab.set(NONE);
            }
            _ if it.free.get() < self.rules.objects => return false,
            State::NodePartial => self.remove_partial(slab),
            State::CpuPartial => self.remove_cpu_partial(slab),
            State::Full => {}
        }
        self.discard(slab);
        true
    }
}
