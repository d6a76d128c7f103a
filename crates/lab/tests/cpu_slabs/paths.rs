//! A kernel's paths, one by one: the exchanges and locks that each takes, with eager and with
//! delayed freezing. Each path of [`slabyard_lab::paths`] is driven alone, in a yard and in the
//! model; the table of `docs/cpu-slabs.md` has the same rows.

use super::pair::{Chosen, Pair};
use slabyard::engine::cpu_slabs::{Accounting, Freezing, Rules};
use slabyard_lab::paths::{COSTS, Calls, Cost, PATHS, Path, Scene, of_model};
use slabyard_testkit::machine::Machine;

/// Few objects in a slab.
const CLASS: usize = 24;

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

/// What the path costs by these rules: on pages, and in numbers.
fn cost<P: Chosen>(path: &Path, freezing: Freezing) -> [Cost; 2] {
    let kind = Rules::of_kind(freezing, Accounting::Slabs, path.lists);
    let mut pair = Pair::<P>::keeps_no_empties(&kind, CLASS, 2);
    let objects = pair.rules().objects;
    let call = (path.prepare)(&mut Scene { calls: &mut pair, objects });
    let before = pair.counted();
    call.make(&mut pair);
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

#[test]
fn each_path_costs_a_model_alone_the_same() {
    for path in PATHS {
        for (freezing, expected) in
            [(Freezing::Eager, path.eager), (Freezing::Delayed, path.delayed)]
        {
            assert_eq!(of_model(path, freezing), expected, "{}, {freezing:?}", path.name);
        }
    }
}
