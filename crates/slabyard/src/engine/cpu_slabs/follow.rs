//! Following a real kernel: what it did is done, whatever the rules say.
//!
//! After a difference it is a guess where the other slabs are; each rule here says
//! why. Used to ask the rules one step at a time (the lab's check).

use super::alloc::{ANY_NODE, Choice};
use super::lists::End;
use super::{KernelCache, NONE, State};

impl KernelCache {
    /// Follows what a real kernel did: an object of this slab was allocated on
    /// this CPU. Returns false if the slab had none that could be.
    ///
    /// If the slab is not where the rules would look, it is taken from where it
    /// is.
    pub fn follow(&mut self, cpu: usize, slab: u32) -> bool {
        if self.cpus[cpu].slab == slab && self.cpus[cpu].free > 0 {
            self.cpus[cpu].free -= 1;
            return true;
        }
        let choice = self.choose(cpu, ANY_NODE);
        let chosen = match choice {
            Choice::Own | Choice::Refill => Some(self.cpus[cpu].slab),
            Choice::CpuPartial(head) | Choice::NodePartial(head) => Some(head),
            Choice::New => None,
        };
        if chosen == Some(slab) {
            self.take(cpu, ANY_NODE, choice);
        } else if !self.seize(cpu, slab) {
            return false;
        }
        self.cpus[cpu].free -= 1;
        true
    }

    /// Makes a slab the CPU's against the rules, from wherever it is.
    fn seize(&mut self, cpu: usize, slab: u32) -> bool {
        if self.slabs[slab as usize].state == State::Full {
            self.disown_partial(cpu);
        }
        match self.slabs[slab as usize].state {
            State::Gone => return false,
            State::Full if self.slabs[slab as usize].free == 0 => return false,
            State::Full => {}
            State::NodePartial => self.remove_partial(slab),
            State::CpuPartial => self.remove_cpu_partial(slab),
            State::CpuSlab => {
                let other = self.slabs[slab as usize].cpu as usize;
                if other == cpu {
                    self.take_over(cpu);
                    return self.cpus[cpu].free > 0;
                }
                if self.cpus[other].free + self.slabs[slab as usize].free == 0 {
                    return false;
                }
                let own = core::mem::take(&mut self.cpus[other].free);
                self.slabs[slab as usize].free += own;
                self.cpus[other].slab = NONE;
            }
        }
        self.put_back(cpu);
        self.freeze(cpu, slab);
        true
    }

    /// A real CPU made a slab, so its partial list was empty. What the model has there
    /// was freed elsewhere: it goes to another CPU's list; on one CPU, to the node's.
    fn disown_partial(&mut self, cpu: usize) {
        let nr_cpus = self.cpus.len();
        while self.cpus[cpu].partial.head != NONE {
            let slab = self.cpus[cpu].partial.head;
            self.remove_cpu_partial(slab);
            if nr_cpus == 1 {
                self.add_partial(slab, End::Tail);
            } else {
                self.put_cpu_partial((cpu + 1) % nr_cpus, slab, true);
            }
        }
    }

    /// The CPU slab that a real CPU had left already.
    fn put_back(&mut self, cpu: usize) {
        let old = core::mem::replace(&mut self.cpus[cpu].slab, NONE);
        if old == NONE {
            return;
        }
        let own = core::mem::take(&mut self.cpus[cpu].free);
        let it = &mut self.slabs[old as usize];
        it.free += own;
        it.state = State::Full;
        if it.free > 0 {
            // What is free came after the real CPU had left the slab, full: so it
            // joined the list of the CPU that freed it.
            let by = if own == 0 { it.freed_by as usize } else { cpu };
            if self.rules.cpu_partial_lists {
                self.put_cpu_partial(by, old, true);
            } else {
                self.add_partial(old, End::Tail);
            }
        }
    }

    /// Begins a slab because a real kernel did; it becomes the CPU's.
    pub fn follow_new(&mut self, cpu: usize) -> u32 {
        let slab = self.begin_slab(self.node_of[cpu]);
        let seized = self.seize(cpu, slab);
        debug_assert!(seized, "a new slab has free objects");
        slab
    }

    /// Ends a slab because a real kernel did. Returns false if an object of it is
    /// in use.
    pub fn follow_freed(&mut self, slab: u32) -> bool {
        let it = self.slabs[slab as usize];
        match it.state {
            State::Gone => return false,
            State::CpuSlab => {
                let cpu = it.cpu as usize;
                if it.free + self.cpus[cpu].free < self.rules.objects {
                    return false;
                }
                let own = core::mem::take(&mut self.cpus[cpu].free);
                self.cpus[cpu].slab = NONE;
                self.slabs[slab as usize].free += own;
                self.slabs[slab as usize].state = State::Full;
            }
            _ if it.free < self.rules.objects => return false,
            State::NodePartial => self.remove_partial(slab),
            State::CpuPartial => self.remove_cpu_partial(slab),
            State::Full => {}
        }
        self.discard(slab);
        true
    }
}
