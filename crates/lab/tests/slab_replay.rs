//! Replays a load by SLAB's rules, and compares the result with the SLAB kernel that ran it.
//!
//! `trace/slab_61.csv.zst` has the kmem events of a load run at boot on a kernel 6.1 with SLAB, one
//! CPU and 64 MiB. `data/slab_61.slabinfo.zst` is its slabinfo before the load, while the load's
//! objects were live, and after they were freed. `data/README.md` says how the files were made.

use slabyard::engine::array_cache::{Choice, Limits, Reclaim};
use slabyard_lab::case::{Case, order_of};
use slabyard_lab::prepare::truth::{self, Change};
use slabyard_lab::replay::{Start, replay};
use slabyard_lab::rules::{Machine, Settings, Slab, find_release};
use slabyard_lab::slab;
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::csv;
use slabyard_model::cache::Front;
use std::path::Path;

/// Nanoseconds from the load's begin to where it is held.
const HELD: u64 = 282_487_000;

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn snapshots() -> Vec<KernelSnapshot> {
    KernelSnapshot::open(&path("data/slab_61.slabinfo.zst")).expect("snapshots")
}

fn machine() -> Machine {
    Machine { memory_bytes: 64 << 20, ..Machine::new(4096, 1) }
}

fn slabs_of(snapshot: &KernelSnapshot) -> i64 {
    snapshot.caches.iter().map(|cache| cache.slabs.expect("slabs") as i64).sum()
}

fn case(by_slab: bool) -> Case {
    let file = std::fs::File::open(path("trace/slab_61.csv.zst")).expect("the trace");
    let trace = csv::read(std::io::BufReader::new(file)).expect("a sound trace");
    let before = &snapshots()[0];
    let settings = Settings::new(find_release("6.1").expect("a release").0, machine());
    let mut case = Case::new(&trace, before, &settings, order_of(before)).expect("a case");
    if by_slab {
        case.follow_slab(before, &slab::Rules::of(&machine())).expect("slabs");
    }
    case
}

/// Slabs of some caches while the load is held, and after it, as differences from its start.
fn slabs(changes: &[Change], of: impl Fn(usize) -> bool) -> [i64; 2] {
    let changes = || changes.iter().filter(|change| of(change.cache as usize));
    [HELD, u64::MAX].map(|end| {
        changes().filter(|change| change.time_ns <= end).map(|change| i64::from(change.by)).sum()
    })
}

/// Slabs of all caches at the two moments, as modelled, as differences from the first.
fn modelled(case: &Case) -> [i64; 2] {
    let mut plan = case.plan(Start::LookAhead);
    plan.audit_every = 1000;
    let replayed = replay(&plan).expect("a sound model");
    assert_eq!(replayed.frees_left_out, 0);
    slabs(&replayed.changes, |_| true).map(|more| slabs_of(&snapshots()[0]) + more)
}

fn is_within_two_percent(modelled: i64, real: i64) -> bool {
    (modelled - real).abs() * 100 <= real * 2
}

#[test]
fn slabs_over_a_load_are_those_of_the_kernel_within_two_percent() {
    let [_, held, released] = &snapshots()[..] else { panic!("three snapshots") };
    let modelled = modelled(&case(true));
    assert_eq!([slabs_of(held), slabs_of(released)], [656, 637]);
    assert_eq!(modelled[0], 656, "while it is held");
    // The kernel frees inodes a grace period later, when the trace is over.
    assert!(is_within_two_percent(modelled[1], 637), "{modelled:?} slabs");
}

#[test]
fn every_cache_has_as_many_slabs_as_in_the_kernel() {
    let all = snapshots();
    let case = case(true);
    let replayed = replay(&case.plan(Start::LookAhead)).expect("a sound model");
    let traced = truth::changes(&case.prepared.slabs);
    for (nth, id) in case.ids.iter().enumerate() {
        let [before, held] = [0, 1].map(|at| all[at].caches[nth].slabs.expect("slabs") as i64);
        let more = slabs(&replayed.changes, |cache| cache == nth);
        assert_eq!(before + more[0], held, "{id}, held, beside slabinfo");
        // What makes maple nodes is not in a trace.
        if case.prepared.caches[nth].left_out.is_none() {
            let traced = slabs(&traced, |cache| cache == nth);
            assert_eq!(more, traced, "{id}, held and released, beside the pages of the trace");
        }
    }
}

#[test]
fn other_rules_are_found_to_be_others() {
    assert!(!is_within_two_percent(modelled(&case(false))[0], 656), "SLUB's");
    let mut small = case(true);
    let limits = Limits { limit: 1, batchcount: 1, sharedfactor: 0 };
    small.rules.iter_mut().for_each(|rules| rules.front = Front::ArrayCaches(limits));
    assert!(!is_within_two_percent(modelled(&small)[1], 637), "arrays of one object");
}

/// The load by a policy.
fn case_by(reclaim: Reclaim, pressure_ms: u64) -> Case {
    let choice = Choice { reclaim, has_arrays: false };
    let mut case = case(true);
    let rules = slab::Rules { choice, ..slab::Rules::of(&machine()) };
    case.follow_slab(&snapshots()[0], &rules).expect("slabs");
    case.slab = Slab { choice, pressure_ms, ..Slab::default() };
    case
}

/// Slabs while it is held and after it.
fn by_policy(reclaim: Reclaim, pressure_ms: u64) -> [i64; 2] {
    modelled(&case_by(reclaim, pressure_ms))
}

/// What a timer reaps is reported like what a call frees: for a cache that is not called again,
/// too.
#[test]
fn slabs_made_and_given_back_are_those_between_begin_and_end() {
    let case = case_by(Reclaim::V2_4, 10);
    let replayed = replay(&case.plan(Start::LookAhead)).expect("a sound model");
    for (nth, id) in case.ids.iter().enumerate() {
        let [before, after] =
            [&replayed.before, &replayed.after].map(|at| i64::from(at.caches[nth].places.slabs));
        assert_eq!(before + slabs(&replayed.changes, |it| it == nth)[1], after, "{id}");
    }
}

#[test]
fn free_slabs_stay_by_the_policy() {
    let [_, stays] = by_policy(Reclaim::V2_4, 0);
    let [_, reaped] = by_policy(Reclaim::V2_4, 10);
    let [_, one] = by_policy(Reclaim::V2_5_39, 0);
    let [_, within_limit] = by_policy(Reclaim::V2_5_45, 0);
    let order = [one, within_limit, stays];
    assert!(order.is_sorted() && one < within_limit && within_limit < stays, "{order:?}");
    assert!(reaped < stays, "the clock came: {reaped} of {stays}");
}
