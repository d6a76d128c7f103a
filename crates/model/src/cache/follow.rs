//! Makes the model follow a real kernel, even against the model's rules.
//!
//! After a difference, the model can only guess where the other slabs are; each function here
//! explains its guess. The lab's check uses this module to test the rules one step at a time.

use super::calls::ANY_NODE;
use super::{KernelCache, NONE, State};
use slabyard::engine::partial_list::End;

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
        if self.choose(cpu, ANY_NODE).slab() == slab {
            self.take_next(cpu);
        } else if self.slab(slab).state.get() == State::NodePartial && self.rules.cpu_partial_lists
        {
            self.take_from_node(cpu, slab);
        } else if !self.seize(cpu, slab) {
            return false;
        }
        self.cpus[cpu].free.set(self.cpus[cpu].free.get() - 1);
        true
    }

    /// Makes a slab the CPU's against the rules, from wherever it is.
    fn seize(&self, cpu: usize, slab: u32) -> bool {
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

    /// A real CPU went to its node's list for this slab: its own list was empty, what the
    /// model has there was drained before. The slab was the node's first, and those behind it
    /// came with it.
    fn take_from_node(&self, cpu: usize, slab: u32) {
        self.put_back(cpu);
        while self.cpus[cpu].partial.get().head != NONE {
            let parked = self.cpus[cpu].partial.get().head;
            self.remove_cpu_partial(parked);
            self.add_partial(parked, End::Tail);
        }
        self.remove_partial(slab);
        self.give_slab(cpu, slab);
    }

    /// The slabs that a CPU takes off a node's list behind this one, as far as they exist.
    pub fn batch_behind(&self, slab: u32) -> Vec<u32> {
        let mut behind = Vec::new();
        if self.slab(slab).state.get() != State::NodePartial {
            return behind;
        }
        let mut at = self.next_of(slab);
        while at != NONE && behind.len() < (self.rules.cpu_partial_slabs / 2 + 1) as usize {
            behind.push(at);
            at = self.next_of(at);
        }
        behind
    }

    /// A real CPU took these off its node's list, one after the other.
    pub fn follow_batch(&self, cpu: usize, slabs: &[u32]) {
        for slab in slabs {
            if self.slab(*slab).state.get() == State::NodePartial {
                self.remove_partial(*slab);
                self.park_on(cpu, *slab);
            }
        }
    }

    /// A real CPU made a slab, so its partial list was empty. What the model has there
    /// was freed elsewhere: it goes to another CPU's list; on one CPU, to the node's.
    pub fn disown_partial(&self, cpu: usize) {
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
        let slab = self.adopt_slab(self.node_of[cpu]);
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
                if it.free.get() + self.cpus[cpu].free.get() < self.objects_of(slab) {
                    return false;
                }
                self.return_own(cpu, slab);
                self.cpus[cpu].slab.set(NONE);
            }
            _ if it.free.get() < self.objects_of(slab) => return false,
            State::NodePartial => self.remove_partial(slab),
            State::CpuPartial => self.remove_cpu_partial(slab),
            State::Full => {}
        }
        self.discard(slab);
        true
    }

    /// Some of a slab's free objects, `most` at most, are in use in the real kernel: they are not
    /// free here any more. Returns how many. A slab without another one leaves its list.
    pub fn deny(&self, slab: u32, most: u32) -> u32 {
        let it = self.slab(slab);
        let denied = most.min(self.free_of(slab));
        if denied == 0 {
            return 0;
        }
        let state = it.state.get();
        let mut left = denied;
        if state == State::CpuSlab {
            let own = &self.cpus[it.cpu.get() as usize].free;
            let of_own = left.min(own.get());
            own.set(own.get() - of_own);
            left -= of_own;
        }
        it.free.set(it.free.get() - left);
        if it.free.get() == 0 {
            match state {
                State::NodePartial => self.remove_partial(slab),
                State::CpuPartial => self.remove_cpu_partial(slab),
                State::Gone | State::Full | State::CpuSlab => {}
            }
        }
        denied
    }

    /// A slab that the model has in a list is in its node's: at the tail if a real CPU passed it over,
    /// at the head if none took it off yet.
    pub fn move_to_node(&self, slab: u32, end: End) {
        match self.slab(slab).state.get() {
            State::NodePartial => self.remove_partial(slab),
            State::CpuPartial => self.remove_cpu_partial(slab),
            State::Gone | State::Full | State::CpuSlab => return,
        }
        self.add_partial(slab, end);
    }

    /// A real kernel gave back this slab, which the model has on a CPU's list: the list was drained,
    /// but for what is at its head, for which it had no room.
    pub fn follow_drain(&self, slab: u32) {
        if self.slab(slab).state.get() != State::CpuPartial {
            return;
        }
        let cpu = self.slab(slab).cpu.get() as usize;
        let head = self.cpus[cpu].partial.get().head;
        loop {
            let next = self.next_of(head);
            if next == NONE {
                return;
            }
            self.remove_cpu_partial(next);
            let listed = self.node_partial(self.slab(next).node.get() as usize).1;
            if self.slab(next).free.get() == self.objects_of(next)
                && listed >= self.rules.min_partial
            {
                self.discard(next);
            } else {
                self.add_partial(next, End::Tail);
            }
        }
    }

    /// Objects that [`KernelCache::deny`] took are free after all.
    pub fn admit(&self, slab: u32, objects: u32) {
        let it = self.slab(slab);
        if it.state.get() != State::Gone {
            let most = self.objects_of(slab) - self.free_of(slab);
            it.free.set(it.free.get() + objects.min(most));
        }
    }
}
