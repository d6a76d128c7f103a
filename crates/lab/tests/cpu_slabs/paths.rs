//! A kernel's paths, one by one: the exchanges and locks that each takes, with eager and with
//! delayed freezing. Each path is driven alone, in a yard and in the model; the table of
//! `docs/cpu-slabs.md` has the same rows.

use super::pair::{Chosen, Pair};
use slabyard::engine::cpu_slabs::{Accounting, Freezing, Rules};
use slabyard_model::counters::Counter;
use slabyard_testkit::machine::Machine;

/// Few objects in a slab.
const CLASS: usize = 24;

/// What one call costs: compare-exchanges of slabs, those of them under the list lock, and
/// acquisitions of that lock.
type Cost = [u64; 3];

const COSTS: [Counter; 3] = [Counter::CmpxchgSlab, Counter::CmpxchgUnderLock, Counter::ListLock];

/// One path.
struct Path {
    name: &'static str,
    /// Whether there are CPU partial lists.
    lists: bool,
    eager: Cost,
    delayed: Cost,
    /// Brings the pair to where the next call takes the path, and says how to make that call.
    prepare: fn(&mut Scene<'_>) -> Call,
}

/// The call that takes the path, on a CPU.
enum Call {
    Alloc(usize),
    /// The object that is live the longest of a slab.
    Free(usize, u32),
    Flush(usize),
}

/// Slabs that the path of a drain has.
const DRAINED: u64 = 3;

const PATHS: &[Path] = &[
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
struct Scene<'a> {
    calls: &'a mut dyn Calls,
    objects: u32,
}

trait Calls {
    fn alloc(&mut self, cpu: usize) -> u32;
    fn free(&mut self, cpu: usize, slab: u32);
    fn flush(&mut self, cpu: usize);
}

impl<P: Chosen> Calls for Pair<P> {
    fn alloc(&mut self, cpu: usize) -> u32 {
        Pair::alloc(self, cpu).expect("the same on pages and in numbers");
        self.live.last().expect("an object").1
    }

    fn free(&mut self, cpu: usize, slab: u32) {
        let nth = self.live.iter().position(|(_, of)| *of == slab).expect("a live object");
        Pair::free(self, cpu, nth).expect("the same on pages and in numbers");
    }

    fn flush(&mut self, cpu: usize) {
        Pair::flush(self, cpu);
        self.compare().expect("the same on pages and in numbers");
    }
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
    fn list(&mut self, slabs: usize) -> u32 {
        let parked: Vec<u32> = (0..slabs).map(|_| self.park(1)).collect();
        self.calls.flush(1);
        parked[0]
    }
}

/// What the path costs by these rules: on pages, and in numbers.
fn cost<P: Chosen>(path: &Path, freezing: Freezing) -> [Cost; 2] {
    let kind = Rules::of_kind(freezing, Accounting::Slabs, path.lists);
    let mut pair = Pair::<P>::keeps_no_empties(&kind, CLASS, 2);
    let objects = pair.rules().objects;
    let call = (path.prepare)(&mut Scene { calls: &mut pair, objects });
    let before = pair.counted();
    match call {
        Call::Alloc(cpu) => _ = Calls::alloc(&mut pair, cpu),
        Call::Free(cpu, slab) => Calls::free(&mut pair, cpu, slab),
        Call::Flush(cpu) => Calls::flush(&mut pair, cpu),
    }
    let now = pair.counted();
    pair.verify();
    [0, 1].map(|of| COSTS.map(|counter| now[of][counter as usize] - before[of][counter as usize]))
}

/// Each path by each of two freezings.
pub const CASES: usize = 2 * PATHS.len();

/// Drives a path on a platform.
pub fn check<P: Chosen>(case: usize) {
    let path = &PATHS[case / 2];
    let (freezing, expected) =
        [(Freezing::Eager, path.eager), (Freezing::Delayed, path.delayed)][case % 2];
    let found = cost::<P>(path, freezing);
    assert_eq!(found, [expected; 2], "{}, {freezing:?}: on pages, in numbers", path.name);
}

/// The rows of the document's table.
fn rows() -> String {
    let cost = |[exchanges, locked, locks]: Cost| format!("{exchanges} | {locked} | {locks}");
    let row = |path: &Path| {
        format!("| {} | {} | {} |\n", path.name, cost(path.eager), cost(path.delayed))
    };
    PATHS.iter().map(row).collect()
}

#[test]
fn each_path_costs_what_it_costs_a_kernel() {
    (0..CASES).for_each(check::<Machine>);
}

#[test]
fn the_document_has_each_path() {
    let document = include_str!("../../../../docs/cpu-slabs.md");
    assert!(document.contains(&rows()), "docs/cpu-slabs.md is to have these rows:\n{}", rows());
}
