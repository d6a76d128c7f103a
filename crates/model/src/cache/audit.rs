//! Checks a cache's equations, and counts the objects in each place.

use super::{KernelCache, NONE, State};

/// What a cache has, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Those of all states: full, on lists, and in front of CPUs.
    pub slabs: u32,
    /// Those of them whose pages are of the least order.
    pub small: u32,
    /// As many as the slabs have room for, free or taken.
    pub objects: u64,
    /// Slabs without a free object, in no list.
    pub full: u32,
    /// Slabs on nodes' lists.
    pub node_partial: u32,
    /// Those of `node_partial` without a taken object.
    pub node_empty: u32,
    /// Slabs on CPU partial lists.
    pub cpu_partial: u32,
    /// Those of `cpu_partial` without a taken object.
    pub cpu_empty: u32,
    /// At most one for each CPU.
    pub cpu_slabs: u32,
    /// Objects handed out, those in sheaves included.
    pub taken: u64,
    /// Free objects in CPU slabs.
    pub free_cpu_slab: u64,
    /// Free objects on CPU partial lists.
    pub free_cpu_partial: u64,
    /// Free objects on nodes' lists.
    pub free_node: u64,
}

impl KernelCache {
    /// Counts all slabs by the list that they are on: slow, for samples and checks.
    #[must_use]
    pub fn places(&self) -> Places {
        let mut sum = Places::default();
        for (_, slab) in self.each_slab() {
            let objects = self.objects_if(slab.is_small.get());
            let empty = u32::from(slab.free.get() == objects);
            let free = u64::from(slab.free.get());
            sum.slabs += 1;
            sum.small += u32::from(slab.is_small.get());
            sum.objects += u64::from(objects);
            match slab.state.get() {
                State::Gone => {}
                State::Full => sum.full += 1,
                State::NodePartial => {
                    sum.node_partial += 1;
                    sum.node_empty += empty;
                    sum.free_node += free;
                }
                State::CpuPartial => {
                    sum.cpu_partial += 1;
                    sum.cpu_empty += empty;
                    sum.free_cpu_partial += free;
                }
                State::CpuSlab => {
                    let own = u64::from(self.cpus[slab.cpu.get() as usize].free.get());
                    sum.cpu_slabs += 1;
                    sum.free_cpu_slab += free + own;
                }
            }
        }
        sum.taken = sum.objects - sum.free_cpu_slab - sum.free_cpu_partial - sum.free_node;
        sum
    }

    /// Checks that each slab is in exactly the list that its state says, that slabs on lists have
    /// free objects and others have none, and that all of them add up. `live`, if given, returns
    /// the number of live objects of a slab.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn audit(&self, live: Option<&dyn Fn(u32) -> u32>) -> Result<(), String> {
        let mut seen = vec![0u8; self.numbers.table.len() as usize];
        let mut see = |slab: u32, state: State| -> Result<(), String> {
            let seen = seen.get_mut(slab as usize).ok_or(format!("no slab {slab}"))?;
            let said = self.state(slab);
            if said != state {
                return Err(format!("slab {slab} is in the list of {state:?} and says {said:?}"));
            }
            *seen += 1;
            Ok(())
        };
        for node in 0..self.nodes.len() {
            let (head, nr_partial) = self.node_partial(node);
            let (mut at, mut n) = (head, 0);
            while at != NONE && n <= nr_partial {
                see(at, State::NodePartial)?;
                (at, n) = (self.next_of(at), n + 1);
            }
            if n != nr_partial {
                return Err(format!("a node's list has {n} slabs and counts {nr_partial}"));
            }
        }
        for cpu in &self.cpus {
            let (mut at, mut n, mut counted) = (cpu.partial.get().head, 0, 0);
            while at != NONE && n <= cpu.partial.get().slabs {
                see(at, State::CpuPartial)?;
                counted += self.slab(at).counted.get();
                (at, n) = (self.next_of(at), n + 1);
            }
            if (n, counted) != (cpu.partial.get().slabs, cpu.partial.get().objects) {
                return Err(format!("a CPU partial list of {n} slabs, {counted} objects: {cpu:?}"));
            }
            if n > 0 && !self.rules.cpu_partial_lists {
                return Err(format!("a CPU partial list in a kernel without any: {cpu:?}"));
            }
            if cpu.slab.get() != NONE {
                see(cpu.slab.get(), State::CpuSlab)?;
                if !self.rules.has_cpu_slabs() {
                    return Err(format!("a CPU slab in a kernel without any: {cpu:?}"));
                }
            }
        }
        let mut in_sheaves: Vec<u32> = vec![0; seen.len()];
        self.each_in_sheaves(|slab| in_sheaves[slab as usize] += 1);
        let mut nr_slabs = 0;
        for number in 1..seen.len() {
            let slab = self.slab(number as u32);
            let (state, free, listed) = (slab.state.get(), slab.free.get(), seen[number]);
            let own = self.free_of(number as u32) - free;
            let fits = match state {
                State::Gone => listed == 0 && in_sheaves[number] == 0,
                // With free objects it would be lost: no list leads to it.
                State::Full => listed == 0 && free == 0,
                State::NodePartial | State::CpuPartial => listed == 1 && free > 0,
                State::CpuSlab => listed == 1,
            };
            if !fits {
                return Err(format!("slab {number} is unreachable or in a wrong list: {slab:?}"));
            }
            if state == State::Gone {
                continue;
            }
            nr_slabs += 1;
            let Some(live) = live else { continue };
            let live = live(number as u32);
            let objects = self.objects_of(number as u32);
            if free + own + in_sheaves[number] + live != objects {
                return Err(format!(
                    "slab {number}: {free} free, {own} on its CPU, {} in sheaves, {live} live of {objects}",
                    in_sheaves[number]
                ));
            }
        }
        if nr_slabs != self.nr_slabs() {
            return Err(format!("{nr_slabs} slabs, counted {}", self.nr_slabs()));
        }
        Ok(())
    }
}
