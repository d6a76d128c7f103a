//! Deferred coalescing (`pages/coalesce.rs`): few freed runs wait for it, and not for long;
//! and an allocation finds all free memory.

use slabyard::pages::{GranuleKind, runs};
use slabyard::platform::GRANULE;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

/// Most freed runs that may wait, and those that slow paths leave on the list.
const MOST: usize = 16;
const KEPT: usize = 2;

fn yard(reserve_bytes: usize) -> Yard<Machine> {
    let yard = <Yard<_>>::new(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes, decay_ms: 250 }));
    yard
}

/// Runs of an odd number of granules, each behind one that stays.
fn odd_runs(yard: &Yard<Machine>, number: usize) -> Vec<usize> {
    let alloc = |granules| yard.alloc(granules * GRANULE, 16).expect("memory");
    let pairs: Vec<_> = (0..number).map(|i| (alloc(17 + 2 * i), alloc(16))).collect();
    pairs.into_iter().map(|(run, _)| run).collect()
}

fn waiting(yard: &Yard<Machine>) -> usize {
    let region = &yard.heap.region;
    (1..region.top() as u32)
        .filter(|at| region.descriptor(*at).kind() == GranuleKind::Freed)
        .count()
}

fn free(yard: &Yard<Machine>, address: usize) {
    yard.free_fast(address).expect("a live object");
}

/// Frees a run that goes past the CPU's banks.
fn free_run(yard: &Yard<Machine>, address: usize) {
    yard.heap.free_live_run(address).expect("a live run");
}

fn assert_sound(yard: &Yard<Machine>) {
    yard.verify().expect("no slow path is under way").expect("a sound yard");
}

#[test]
fn a_freed_run_is_taken_as_it_is() {
    let yard = yard(256 << 20);
    let runs = odd_runs(&yard, 5);
    for run in [runs[0], runs[3]] {
        free_run(&yard, run);
    }
    assert_eq!(waiting(&yard), KEPT);
    assert_eq!(yard.alloc(23 * GRANULE, 16), Some(runs[3]));
    assert_eq!(waiting(&yard), KEPT - 1, "the other one was coalesced for it");
    assert_sound(&yard);
}

#[test]
fn few_freed_runs_wait() {
    let yard = yard(256 << 20);
    for run in odd_runs(&yard, 40) {
        free_run(&yard, run);
        assert!(waiting(&yard) <= MOST);
    }
    assert!(waiting(&yard) > KEPT, "a free coalesces its run at once");
    assert_sound(&yard);
}

/// Coalesces freed runs by calls of one kind; returns how many calls that takes.
fn calls_until_few_wait(yard: &Yard<Machine>, mut call: impl FnMut()) -> usize {
    let runs = odd_runs(yard, MOST + 4);
    runs.iter().for_each(|run| free_run(yard, *run));
    assert!(waiting(yard) > KEPT);
    let mut calls = 0;
    while waiting(yard) > KEPT && calls < 1000 {
        call();
        calls += 1;
    }
    calls
}

#[test]
fn allocations_coalesce_freed_runs() {
    let yard = yard(256 << 20);
    let calls = calls_until_few_wait(&yard, || {
        yard.alloc(100, 16).expect("memory");
    });
    assert!((MOST - KEPT..MOST * 8).contains(&calls), "{calls} allocations");
    assert_sound(&yard);
}

#[test]
fn frees_leave_freed_runs_to_the_allocations() {
    let yard = yard(256 << 20);
    let objects: Vec<_> = (0..100).map(|_| yard.alloc_fast(100, 16).expect("memory")).collect();
    for run in odd_runs(&yard, 12) {
        free_run(&yard, run);
    }
    let before = waiting(&yard);
    objects.iter().for_each(|object| free(&yard, *object));
    assert_eq!(waiting(&yard), before);
    assert_sound(&yard);
}

/// Wherever they lie.
#[test]
fn of_dirty_gaps_a_run_takes_the_shortest_that_fits() {
    const UNIT: usize = 32;
    for gaps in [[2, 3, 4], [3, 2, 4], [4, 3, 2]] {
        let yard = yard(256 << 20);
        // Without room to grow.
        let alloc = |granules| yard.heap.alloc_run(granules * GRANULE, GRANULE).expect("memory");
        let mut runs: Vec<_> = (0..20).map(|_| alloc(UNIT)).collect();
        runs.sort_unstable();
        assert!(runs[..13].windows(2).all(|pair| pair[1] - pair[0] == UNIT * GRANULE), "{runs:x?}");
        let (mut next, mut shortest) = (1, 0);
        for units in gaps {
            runs[next..next + units].iter().for_each(|run| free_run(&yard, *run));
            shortest = if units == 2 { runs[next] } else { shortest };
            next += units + 1;
        }
        let run = alloc(2 * UNIT - 4);
        let within = shortest..=shortest + 4 * GRANULE;
        assert!(within.contains(&run), "{run:#x}, not {shortest:#x}, of {gaps:?}");
        assert_sound(&yard);
    }
}

#[test]
fn an_allocation_finds_all_free_memory() {
    let yard = yard(64 << 20);
    let alloc = |granules: usize| yard.alloc(granules * GRANULE, 16);
    let blocks: Vec<_> = core::iter::from_fn(|| alloc(256)).collect();
    while alloc(16).is_some() {}
    // Nothing is left but one block, which is freed in parts.
    let block = blocks[blocks.len() / 2];
    free_run(&yard, block);
    for nth in 0..4 {
        let mut parts = [112, 64, 48, 32].map(|granules| alloc(granules).expect("a part"));
        assert_eq!(alloc(16), None);
        parts.rotate_left(nth);
        parts.iter().for_each(|run| free_run(&yard, *run));
        // A request that is refused would coalesce them too.
        assert_eq!(yard.heap.alloc_run(256 * GRANULE, 16), Some(block));
        free_run(&yard, block);
    }
    assert_sound(&yard);
}

#[test]
fn freed_runs_are_taken_before_the_heap_grows() {
    let yard = yard(64 << 20);
    let alloc = |granules: usize| yard.alloc(granules * GRANULE, 16).expect("memory");
    let [first, second, _last] = [alloc(41), alloc(41), alloc(41)];
    free_run(&yard, first);
    free_run(&yard, second);
    assert_eq!(waiting(&yard), KEPT);
    assert_eq!(alloc(80), first);
    assert_sound(&yard);
}

#[test]
fn the_last_position_is_found_behind_any_number_of_others() {
    let yard = yard(64 << 20);
    let alloc = |granules: usize| yard.alloc(granules * GRANULE, 16);
    let position = loop {
        let position = alloc(112).expect("memory");
        // Blocks of 2^4, 2^5 and 2^6 granules: it begins with the smallest alone.
        if yard.heap.region.granule_of(position).is_some_and(|at| at % 128 == 16) {
            break position;
        }
    };
    let others: Vec<_> = core::iter::from_fn(|| alloc(16)).collect();
    // No two of them lie side by side. A search looks first at what was coalesced last.
    let coalesce_all = || runs::each_free_block(&yard.heap, |_, _| ());
    free_run(&yard, position);
    coalesce_all();
    others.iter().skip(1).step_by(2).for_each(|run| free_run(&yard, *run));
    coalesce_all();
    assert_eq!(yard.heap.alloc_run(112 * GRANULE, 16), Some(position));
}
