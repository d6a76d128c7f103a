//! The slow paths of CPU slabs, one by one: what each costs a kernel, with eager and with delayed
//! freezing, and how to bring a cache to where its next call takes the path.
//!
//! The costs are those of `mm/slub.c` before and after the series "slub: Delay freezing of CPU
//! partial slabs". [`Calls`] is whatever can be driven: the model ([`of_model`]) here, and in tests a
//! yard beside its model. The table of `docs/cpu-slabs.md` has the same rows.

use slabyard_model::cache::{Accounting, Freezing, Front, Rules};
pub use slabyard_model::cache::{KernelCache, Planted};
use slabyard_model::counters::Counter;

/// What one call costs: compare-exchanges of slabs, those of them under the list lock, and
/// acquisitions of that lock.
pub type Cost = [u64; 3];

/// What [`Cost`] counts.
pub const COSTS: [Counter; 3] =
    [Counter::CmpxchgSlab, Counter::CmpxchgUnderLock, Counter::ListLock];

/// What a call does inside the allocator, and what that costs.
pub struct Path {
    /// In the words of the document.
    pub name: &'static str,
    /// Whether there are CPU partial lists.
    pub lists: bool,
    /// What it costs kernels to 6.7.
    pub eager: Cost,
    /// What it costs kernels from 6.8.
    pub delayed: Cost,
    /// Brings the pair to where the next call takes the path, and says how to make that call.
    pub prepare: fn(&mut Scene<'_>) -> Call,
}

/// The call that takes the path, on a CPU.
pub enum Call {
    /// An allocation.
    Alloc(usize),
    /// The object that is live the longest of a slab.
    Free(usize, u32),
    /// All that the CPU holds.
    Flush(usize),
}

/// Slabs that the path of a drain has.
pub const DRAINED: u64 = 3;

/// In the order of the document's table.
pub const PATHS: &[Path] = &[
    Path {
        name: "an allocation from the CPU's own objects",
        lists: true,
        eager: [0, 0, 0],
        delayed: [0, 0, 0],
        prepare: |scene| {
            scene.alloc(0);
            Call::Alloc(0)
        },
    },
    Path {
        name: "a free to the CPU slab",
        lists: true,
        eager: [0, 0, 0],
        delayed: [0, 0, 0],
        prepare: |scene| Call::Free(0, scene.alloc(0)),
    },
    Path {
        name: "a refill from the CPU slab",
        lists: true,
        eager: [1, 0, 0],
        delayed: [1, 0, 0],
        prepare: |scene| {
            let slab = scene.alloc_slab(0);
            scene.free(1, slab);
            Call::Alloc(0)
        },
    },
    Path {
        name: "a slab of the CPU partial list",
        lists: true,
        eager: [1, 0, 0],
        delayed: [1, 0, 0],
        prepare: |scene| {
            scene.park(1);
            Call::Alloc(1)
        },
    },
    Path {
        name: "a slab of the node's list",
        lists: true,
        eager: [1, 1, 1],
        delayed: [1, 0, 1],
        prepare: |scene| {
            scene.list(1);
            Call::Alloc(1)
        },
    },
    Path {
        name: "a slab of the node's list, and one more for the CPU partial list",
        lists: true,
        eager: [2, 2, 1],
        delayed: [1, 0, 1],
        prepare: |scene| {
            scene.list(2);
            Call::Alloc(1)
        },
    },
    Path {
        name: "a new slab",
        lists: true,
        eager: [0, 0, 0],
        delayed: [0, 0, 0],
        prepare: |_| Call::Alloc(0),
    },
    Path {
        name: "a free to another CPU's slab",
        lists: true,
        eager: [1, 0, 0],
        delayed: [1, 0, 0],
        prepare: |scene| Call::Free(1, scene.alloc(0)),
    },
    Path {
        name: "a free to a full slab",
        lists: true,
        eager: [1, 0, 0],
        delayed: [1, 0, 0],
        prepare: |scene| Call::Free(1, scene.alloc_full()),
    },
    Path {
        name: "a free to a full slab, without CPU partial lists",
        lists: false,
        eager: [1, 1, 1],
        delayed: [1, 1, 1],
        prepare: |scene| Call::Free(1, scene.alloc_full()),
    },
    Path {
        name: "a free to a slab of the node's list",
        lists: true,
        eager: [1, 0, 0],
        delayed: [1, 0, 0],
        prepare: |scene| Call::Free(0, scene.list(1)),
    },
    Path {
        name: "a free that empties a slab of the node's list",
        lists: true,
        eager: [1, 1, 1],
        delayed: [1, 1, 1],
        prepare: |scene| {
            let slab = scene.list(1);
            scene.free_all_but_one(0, slab);
            Call::Free(0, slab)
        },
    },
    Path {
        name: "a free that empties a slab of a CPU partial list",
        lists: true,
        eager: [1, 0, 0],
        delayed: [1, 1, 1],
        prepare: |scene| {
            let slab = scene.park(1);
            scene.free_all_but_one(0, slab);
            Call::Free(0, slab)
        },
    },
    Path {
        name: "a drain of three slabs of a CPU partial list",
        lists: true,
        eager: [DRAINED, DRAINED, 1],
        delayed: [0, 0, 1],
        prepare: |scene| {
            (0..DRAINED).for_each(|_| _ = scene.park(1));
            Call::Flush(1)
        },
    },
    Path {
        name: "a CPU slab with free objects that is put back",
        lists: true,
        eager: [1, 1, 1],
        delayed: [1, 0, 1],
        prepare: |scene| {
            scene.alloc(0);
            Call::Flush(0)
        },
    },
];

/// Calls on one pair, in which CPU 0 makes full slabs and CPU 1 has no slab at first.
pub struct Scene<'a> {
    /// What is driven.
    pub calls: &'a mut dyn Calls,
    /// Objects in a slab.
    pub objects: u32,
}

/// A cache that keeps no empty slab.
pub trait Calls {
    /// Allocates, and says the object's slab.
    fn alloc(&mut self, cpu: usize) -> u32;
    /// Frees an object of a slab.
    fn free(&mut self, cpu: usize, slab: u32);
    /// Flushes all that a CPU holds.
    fn flush(&mut self, cpu: usize);
}

impl Scene<'_> {
    fn alloc(&mut self, cpu: usize) -> u32 {
        self.calls.alloc(cpu)
    }

    fn free(&mut self, cpu: usize, slab: u32) {
        self.calls.free(cpu, slab);
    }

    fn free_all_but_one(&mut self, cpu: usize, slab: u32) {
        // One was freed before.
        (0..self.objects - 2).for_each(|_| self.free(cpu, slab));
    }

    /// All objects of the CPU's slab.
    fn alloc_slab(&mut self, cpu: usize) -> u32 {
        let slabs: Vec<u32> = (0..self.objects).map(|_| self.alloc(cpu)).collect();
        assert!(slabs.iter().all(|slab| *slab == slabs[0]), "{slabs:?}");
        slabs[0]
    }

    /// A full slab that no CPU has: CPU 0 has the next one, with its first objects.
    fn alloc_full(&mut self) -> u32 {
        let slab = self.alloc_slab(0);
        // Its own slab is full again, for the next of these.
        self.alloc_slab(0);
        slab
    }

    /// A slab with one free object on a CPU's partial list.
    fn park(&mut self, cpu: usize) -> u32 {
        let slab = self.alloc_full();
        self.free(cpu, slab);
        slab
    }

    /// So many slabs with one free object on the node's list; the first of them.
    pub fn list(&mut self, slabs: usize) -> u32 {
        let parked: Vec<u32> = (0..slabs).map(|_| self.park(1)).collect();
        self.calls.flush(1);
        parked[0]
    }
}

impl Call {
    /// Lets a cache take the path.
    pub fn make(&self, calls: &mut dyn Calls) {
        match *self {
            Call::Alloc(cpu) => _ = calls.alloc(cpu),
            Call::Free(cpu, slab) => calls.free(cpu, slab),
            Call::Flush(cpu) => calls.flush(cpu),
        }
    }
}

impl Calls for KernelCache {
    fn alloc(&mut self, cpu: usize) -> u32 {
        KernelCache::alloc(self, cpu, None)
    }

    fn free(&mut self, cpu: usize, slab: u32) {
        KernelCache::free(self, cpu, slab);
    }

    fn flush(&mut self, cpu: usize) {
        self.flush_cpu(cpu);
    }
}

/// Objects in a slab of [`model`].
const OBJECTS: u32 = 8;

/// A model of a cache on two CPUs, for the paths.
#[must_use]
pub fn model(freezing: Freezing, has_lists: bool, planted: Planted) -> KernelCache {
    let rules = Rules {
        objects: OBJECTS,
        min_partial: 0,
        cpu_partial: 6 * OBJECTS,
        cpu_partial_slabs: 6,
        cpu_partial_lists: has_lists,
        freezing,
        accounting: Accounting::Slabs,
        front: Front::CpuSlabs,
        sheaf_capacity: 0,
        remote_ratio: 0,
        planted,
    };
    KernelCache::new(rules, &[0, 0])
}

/// The same in numbers: a model of its own takes the path.
#[must_use]
pub fn of_model(path: &Path, freezing: Freezing) -> Cost {
    let mut cache = model(freezing, path.lists, Planted::None);
    let counted = |cache: &KernelCache| COSTS.map(|counter| cache.counters().get(counter));
    let call = (path.prepare)(&mut Scene { calls: &mut cache, objects: OBJECTS });
    let before = counted(&cache);
    call.make(&mut cache);
    let now = counted(&cache);
    [0, 1, 2].map(|nth| now[nth] - before[nth])
}
