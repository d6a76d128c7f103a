//! The same for a cache of 6.18 that opts in to sheaves, over CPU slabs, and for SLUB_TINY, which
//! has nothing per CPU.

use super::Random;
use super::pair::{Chosen, Pair as Of};
use slabyard::cache::Cache;
use slabyard::engine::cpu_slabs::{Accounting, Freezing, Front, OnCpus, Rules};
use slabyard::engine::{Engine, Tiny};
use slabyard_model::counters::Counter;
use slabyard_testkit::machine::Machine;

type Pair<E> = Of<Machine, E>;

/// Calls of one load.
const CALLS: usize = Machine::CALLS;
/// Nothing counts these on pages.
const FAST: &[Counter] =
    &[Counter::AllocFastpath, Counter::FreeFastpath, Counter::AllocCpuSheaf, Counter::FreeCpuSheaf];

/// A cache of sheaves over CPU slabs. `planted` changes the model's rules.
fn mixed(kind: &Rules, class: usize, cpus: usize, planted: impl Fn(&mut Rules)) -> Pair<OnCpus> {
    let kind = Rules { front: Front::SheavesOverCpuSlabs, ..*kind };
    let yard = Machine::begin::<OnCpus>(cpus);
    yard.caches().classes().iter().for_each(|cache| cache.engine.follow(&kind));
    let rules = |cache: &Cache<OnCpus>| {
        let mut rules = Rules { min_partial: cache.min_partial(), ..cache.engine.rules(cache) };
        planted(&mut rules);
        rules
    };
    Pair::of(yard, class, cpus, rules, FAST)
}

/// A cache of SLUB_TINY that keeps so many empty slabs.
fn tiny(class: usize, cpus: usize, min_partial: u32, planted: impl Fn(&mut Rules)) -> Pair<Tiny> {
    let rules = |cache: &Cache<Tiny>| {
        cache.set_min_partial(min_partial);
        let kind = Rules::of_kind(Freezing::Delayed, Accounting::Slabs, false);
        let objects = cache.shape().geometry.objects;
        let mut rules = Rules { front: Front::Nothing, objects, min_partial, ..kind };
        planted(&mut rules);
        rules
    };
    Pair::of(Machine::begin(cpus), class, cpus, rules, FAST)
}

/// Waves of allocations and frees on all CPUs.
fn load<E: Engine>(pair: &mut Pair<E>, cpus: usize, seed: u64) -> Result<(), String> {
    let mut random = Random(seed | 1);
    for step in 0..CALLS {
        let cpu = random.below(cpus);
        let up = if step / 2000 % 2 == 0 { 75 } else { 25 };
        let done = if random.below(100) < up || pair.live.is_empty() {
            pair.alloc(cpu)
        } else {
            let nth = random.below(pair.live.len());
            pair.free(cpu, nth)
        };
        done.map_err(|what| format!("step {step}: {what}"))?;
        if step % 50 == 0 {
            pair.compare().map_err(|what| format!("step {step}: {what}"))?;
        }
    }
    Ok(())
}

#[test]
fn sheaves_over_cpu_slabs_count_the_same_call_by_call() {
    for kind in kinds() {
        for (class, cpus) in [(3, 1), (3, 4), (12, 2), (24, 3)] {
            let mut pair = mixed(&kind, class, cpus, |_| {});
            if let Err(what) = load(&mut pair, cpus, 77) {
                panic!("{kind:?}, class {class}, {cpus} CPUs: {what}");
            }
            let [pages, _] = pair.counted();
            let count = |counter: Counter| pages[counter as usize];
            assert!(count(Counter::SheafRefill) > 0 && count(Counter::SheafFlush) > 0);
            pair.verify();
        }
    }
}

#[test]
fn slub_tiny_counts_the_same_call_by_call() {
    for (class, cpus, min_partial) in [(3, 1, 0), (3, 4, 5), (12, 2, 0), (24, 3, 2), (61, 2, 0)] {
        let mut pair = tiny(class, cpus, min_partial, |_| {});
        if let Err(what) = load(&mut pair, cpus, 77) {
            panic!("class {class}, {cpus} CPUs: {what}");
        }
        let [pages, _] = pair.counted();
        let count = |counter: Counter| pages[counter as usize];
        // Each call takes the lock once, and exchanges nothing.
        let calls = count(Counter::AllocSlowpath) + count(Counter::FreeSlowpath);
        assert_eq!((count(Counter::ListLock), calls), (CALLS as u64, CALLS as u64));
        assert_eq!(count(Counter::CmpxchgSlab) + count(Counter::CmpxchgUnderLock), 0);
        assert!(count(Counter::FreeSlab) > 0 && count(Counter::EmptyKept) > 0 || min_partial == 0);
        pair.verify();
    }
}

/// The comparison finds a model by other rules.
#[test]
fn other_rules_are_found() {
    let others: [fn(&mut Rules); 3] = [
        |rules| rules.min_partial = 2,
        |rules| rules.front = Front::Sheaves,
        |rules| rules.front = Front::CpuSlabs,
    ];
    for (nth, change) in others.iter().enumerate() {
        let is_found = load(&mut tiny(12, 2, 0, change), 2, 5).is_err();
        assert!(is_found, "change {nth} of SLUB_TINY was not found");
    }

    let changes: [fn(&mut Rules); 4] = [
        |rules| rules.freezing = Freezing::Eager,
        |rules| rules.sheaf_capacity += 1,
        |rules| rules.cpu_partial_lists = false,
        |rules| rules.cpu_partial_slabs += 1,
    ];
    for (nth, change) in changes.iter().enumerate() {
        let found = [3, 12, 24].into_iter().any(|class| {
            let kind = Rules::of_kind(Freezing::Delayed, Accounting::Slabs, true);
            load(&mut mixed(&kind, class, 2, change), 2, 5).is_err()
        });
        assert!(found, "change {nth} was not found");
    }
}

/// The kernel has one kind of mixed caches; the others are found by the same policy.
fn kinds() -> impl Iterator<Item = Rules> {
    let kinds = [Freezing::Eager, Freezing::Delayed].into_iter();
    kinds.flat_map(|freezing| {
        let each = [Accounting::Objects, Accounting::Slabs, Accounting::Exact];
        each.into_iter().flat_map(move |accounting| {
            [true, false].map(|lists| Rules::of_kind(freezing, accounting, lists))
        })
    })
}
