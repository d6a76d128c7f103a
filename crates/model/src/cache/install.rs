//! Puts slabs in place by hand, to set up the initial state of a replay.
//!
//! Invariant: a slab is put only where the rules allow one. If the kernel has no CPU slabs, or no
//! CPU partial lists, slabs meant for them go to their nodes' lists: no rule would ever look for
//! them on the CPU.

use super::{CountedSheaf, KernelCache};
use slabyard::engine::partial_list::End;

/// A CPU, or the barn, by which of its places for objects is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheafPlace {
    /// The sheaf from which a CPU allocates.
    Main(usize),
    /// A CPU's other one.
    Spare(usize),
    /// A CPU's for what `kfree_rcu()` frees.
    RcuFree(usize),
    /// The first node's barn, as the next that is taken.
    FirstBarn,
}

impl KernelCache {
    fn install(&self, node: u16, free: u32) -> u32 {
        let slab = self.adopt_slab(node);
        self.slab(slab).free.set(free.min(self.rules.objects));
        slab
    }

    /// A slab without a free object.
    pub fn install_full(&self, node: u16) -> u32 {
        self.install(node, 0)
    }

    /// A slab at the tail of its node's list, with `free` objects: 1 or more.
    pub fn install_node_partial(&self, node: u16, free: u32) -> u32 {
        let slab = self.install(node, free);
        self.add_partial(slab, End::Tail);
        slab
    }

    /// A slab at the head of a CPU partial list, with `free` objects: 1 or more.
    pub fn install_cpu_partial(&self, cpu: usize, free: u32) -> u32 {
        if !self.rules.cpu_partial_lists {
            return self.install_node_partial(self.node_of[cpu], free);
        }
        let slab = self.install(self.node_of[cpu], free);
        self.park_on(cpu, slab);
        slab
    }

    /// A CPU's slab, whose `free` objects are the CPU's own. One that it has already
    /// is flushed.
    pub fn install_cpu_slab(&self, cpu: usize, free: u32) -> u32 {
        if !self.rules.has_cpu_slabs() {
            return match free {
                0 => self.install_full(self.node_of[cpu]),
                _ => self.install_node_partial(self.node_of[cpu], free),
            };
        }
        self.deactivate(cpu);
        let slab = self.install(self.node_of[cpu], free);
        self.give_slab(cpu, slab);
        slab
    }

    /// Objects in a sheaf, the next to be allocated last: their slabs have them no more. A barn at its
    /// limit gives them to their slabs.
    ///
    /// # Panics
    /// Without sheaves.
    pub fn install_in_sheaf(&mut self, place: SheafPlace, slabs: Vec<u32>) {
        let sheaf = CountedSheaf(slabs);
        match place {
            SheafPlace::Main(cpu) => _ = self.stacks[cpu].main.replace(Some(sheaf)),
            SheafPlace::Spare(cpu) => _ = self.stacks[cpu].spare.replace(Some(sheaf)),
            SheafPlace::RcuFree(cpu) => _ = self.stacks[cpu].rcu_free.replace(sheaf),
            SheafPlace::FirstBarn => {
                let (sheaves, on) = self.policy_at(0);
                if let Err(mut full) = sheaves.barn_put_full(on, sheaf) {
                    sheaves.flush(on, &mut full, u32::MAX);
                }
            }
        }
    }

    /// A slab in no list, with `free` objects, for [`KernelCache::follow`] to use at
    /// once.
    pub fn install_loose(&self, cpu: usize, free: u32) -> u32 {
        self.install(self.node_of[cpu], free)
    }

    /// Says that the installed state is where counting begins.
    pub fn begin(&mut self) {
        self.counters = crate::counters::Counters::default();
        self.pages.get_mut().clear();
    }

    /// Says that the slab installed last existed before: no [`Page`](super::Page) reports it.
    pub fn forget_last_page(&mut self) {
        self.pages.get_mut().pop();
    }
}
