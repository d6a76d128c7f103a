//! What a cache did: the kernel's counters under their names (`SLUB_STATS`), and
//! what the kernel does not count.

use core::cell::Cell;

macro_rules! counters {
    ($($name:ident $text:literal $help:literal,)*) => {
        /// One counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $help] $name,)*
        }

        impl Counter {
            /// All counters, with name and meaning.
            pub const ALL: &'static [(Counter, &'static str, &'static str)] =
                &[$((Counter::$name, $text, $help),)*];

            /// Those that a model of a kernel tells: in a model no exchange fails.
            pub fn of_models() -> impl Iterator<Item = &'static (Counter, &'static str, &'static str)>
            {
                Self::ALL.iter().filter(|(counter, ..)| *counter != Counter::CmpxchgFail)
            }
        }
    };
}

counters! {
    AllocFastpath "alloc_fastpath" "Allocations from the CPU slab's own list.",
    AllocSlowpath "alloc_slowpath" "Allocations that found it empty.",
    FreeFastpath "free_fastpath" "Frees to this CPU's slab.",
    FreeSlowpath "free_slowpath" "Frees to another slab.",
    FreeFrozen "free_frozen" "Frees to a slab that some CPU has frozen.",
    FreeAddPartial "free_add_partial" "Slabs that joined a node's list by a free or a drain.",
    FreeRemovePartial "free_remove_partial" "Slabs that left a node's list empty.",
    AllocFromPartial "alloc_from_partial" "Slabs taken from a node's list to be used.",
    AllocSlab "alloc_slab" "Slabs made.",
    AllocRefill "alloc_refill" "CPU slabs whose remotely freed objects were taken over.",
    AllocNodeMismatch "alloc_node_mismatch" "CPU slabs of another node than the wanted one.",
    FreeSlab "free_slab" "Slabs given back.",
    CpuslabFlush "cpuslab_flush" "CPU slabs put back by a flush.",
    DeactivateFull "deactivate_full" "CPU slabs put back without a free object.",
    DeactivateEmpty "deactivate_empty" "Slabs put back or drained that were empty and ended.",
    DeactivateToHead "deactivate_to_head" "CPU slabs put to the head of a node's list.",
    DeactivateToTail "deactivate_to_tail" "CPU slabs put to its tail.",
    DeactivateRemoteFrees "deactivate_remote_frees" "CPU slabs put back with objects that others freed.",
    DeactivateBypass "deactivate_bypass" "CPU slabs left behind full.",
    CpuPartialAlloc "cpu_partial_alloc" "Slabs taken from a CPU partial list to be used.",
    CpuPartialFree "cpu_partial_free" "Slabs put on a CPU partial list by a free.",
    CpuPartialNode "cpu_partial_node" "Slabs put there from a node's list.",
    CpuPartialDrain "cpu_partial_drain" "CPU partial lists drained.",
    AllocCpuSheaf "alloc_cpu_sheaf" "Allocations from a sheaf.",
    FreeCpuSheaf "free_cpu_sheaf" "Frees to a sheaf.",
    SheafFlush "sheaf_flush" "Objects that went from sheaves to slabs.",
    SheafRefill "sheaf_refill" "Objects that went from slabs to sheaves.",
    BarnGet "barn_get" "Full sheaves from the barn.",
    BarnGetFail "barn_get_fail" "Asks for one that the barn had not.",
    BarnPut "barn_put" "Full sheaves to the barn.",
    BarnPutFail "barn_put_fail" "Full sheaves that it did not take.",
    CmpxchgSlab "cmpxchg_slab" "Compare-exchanges of a slab's word that a kernel would make.",
    CmpxchgFail "cmpxchg_double_fail" "Those of them that failed, because another CPU changed the word.",
    CmpxchgUnderLock "cmpxchg_under_list_lock" "Those of them made under a list lock.",
    ListLock "list_lock" "Acquisitions of a list lock.",
    ListLockSlabs "list_lock_slabs" "Slabs linked or unlinked under it.",
    ListLockVain "list_lock_vain" "Acquisitions by a free that then had nothing to do.",
    EmptyKept "empty_kept" "Empty slabs kept because a node's list was short (min_partial).",
    EmptyParked "empty_parked" "Frees that made a slab on a CPU partial list empty.",
}

/// Buckets of [`Counters::drains`]: slabs drained by one free, 1, 2, 3 to 4, 5 to 8 ...
pub const DRAIN_BUCKETS: usize = 12;

/// All counters of a cache.
#[derive(Clone, Debug)]
pub struct Counters {
    values: [Cell<u64>; Counter::ALL.len()],
    drains: [Cell<u64>; DRAIN_BUCKETS],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            values: [const { Cell::new(0) }; Counter::ALL.len()],
            drains: [const { Cell::new(0) }; DRAIN_BUCKETS],
        }
    }
}

impl Counters {
    /// Value of one.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize].get()
    }

    /// Adds to one.
    #[inline]
    pub fn add(&self, counter: Counter, n: u32) {
        let value = &self.values[counter as usize];
        value.set(value.get() + u64::from(n));
    }

    /// Counts a free that drained so many slabs.
    pub fn drained(&self, slabs: u32) {
        let bucket = slabs.max(1).next_power_of_two().ilog2() as usize;
        let drains = &self.drains[bucket.min(DRAIN_BUCKETS - 1)];
        drains.set(drains.get() + 1);
    }

    /// Frees by the number of slabs that they drained: bucket `n` counts those of
    /// more than 2^(n-1) and at most 2^n. The unlucky free's cost.
    #[must_use]
    pub fn drains(&self) -> [u64; DRAIN_BUCKETS] {
        self.drains.each_ref().map(Cell::get)
    }

    /// Adds another cache's.
    pub fn merge(&self, other: &Counters) {
        for (to, from) in self.values.iter().zip(&other.values) {
            to.set(to.get() + from.get());
        }
        for (to, from) in self.drains.iter().zip(&other.drains) {
            to.set(to.get() + from.get());
        }
    }
}
