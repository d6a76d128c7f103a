//! SLUB with sheaves on memory nodes: which objects bypass a sheaf, what each node's barn parks,
//! and what a thread that moved leaves behind.

use super::{
    CLASS, Nodes, OnTwo, check, counted, each_is_near, free_by_sequence, give, node_of, take, yard,
    yard_of,
};
use slabyard::calls::trim;
use slabyard::engine::nodes::NodeSettings;
use slabyard::engine::sheaves::SheavesOnNodes;
use slabyard::engine::{Counter, Inspect, SlowPaths};
use slabyard::platform::{PerCpu, Stack};
use slabyard_testkit::machine::Config;

/// Objects that wait in barns, by their node.
fn parked(yard: &OnTwo<SheavesOnNodes>) -> [usize; 2] {
    let (cache, mut parked) = (yard.cache(CLASS), [0; 2]);
    cache.engine.each_parked(cache.on(&yard.heap), |address| {
        parked[node_of(yard, address).expect("an object of the region")] += 1;
    });
    parked
}

#[test]
fn a_cpu_gets_objects_of_its_node() {
    for (nodes, seed) in [(2, 1), (4, 3)] {
        let yard =
            each_is_near::<SheavesOnNodes>(nodes, seed, free_by_sequence).expect("its own node");
        assert!(counted(&yard, Counter::NodeFrees) > 10_000);
        assert_eq!(counted(&yard, Counter::NodeAllocs), 0);
        assert_eq!(counted(&yard, Counter::NodeOverflow), 0, "SLUB has no alien arrays");
    }
}

#[test]
fn slub_s_ratio_is_100() {
    assert_eq!(SheavesOnNodes::SETTINGS.remote_percent, 100);
    // And it is what an engine has that nobody told.
    let yard = OnTwo::<SheavesOnNodes>::new(slabyard_testkit::machine::Machine::new(Config {
        nodes: 2,
        ..Config::default()
    }));
    assert!(yard.init(slabyard::yard::Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    let spare = take(&yard, 0, 20_000);
    give(&yard, 0, spare.into_iter().step_by(2));
    trim::drain_thread(&yard);
    // 1001 of 1024 draws: the one that fails gives the node slabs of its own.
    let got = take(&yard, 1, 15);
    assert_eq!(counted(&yard, Counter::NodeAllocs), 15);
    assert!(got.iter().all(|object| node_of(&yard, *object) == Some(0)));
}

#[test]
fn a_free_of_another_node_goes_to_its_slab_at_once() {
    let yard = yard::<SheavesOnNodes>(2);
    let objects = take(&yard, 0, 3000);
    let before = [Counter::FreeSlowpath, Counter::NodeFrees].map(|of| counted(&yard, of));
    let free = yard.verify().expect("outside of a slow path").expect("a sound yard").free;
    give(&yard, 1, objects);
    let after = [Counter::FreeSlowpath, Counter::NodeFrees].map(|of| counted(&yard, of));
    assert_eq!([after[0] - before[0], after[1] - before[1]], [3000, 3000]);
    assert_eq!(parked(&yard), [0, 0]);
    let sound = yard.verify().expect("outside of a slow path").expect("a sound yard");
    assert!(sound.free > free && sound.live == 0, "{sound:?}");
}

#[test]
fn each_node_has_a_barn_with_a_limit_of_its_own() {
    let yard = yard::<SheavesOnNodes>(2);
    let sheaf = yard.cache(CLASS).sheaf_capacity() as usize;
    let most = yard.cache(CLASS).barn_limits().0 as usize;
    assert_eq!(most, 2);
    for cpu in [0, 1] {
        // Main, spare and barn are full then.
        let objects = take(&yard, cpu, 8 * sheaf);
        give(&yard, cpu, objects);
        check(&yard);
        let expected = if cpu == 0 { [most * sheaf, 0] } else { [most * sheaf; 2] };
        assert_eq!(parked(&yard), expected, "after CPU {cpu}");
    }
    // A CPU of a node takes what another of the same node freed.
    let swaps = counted(&yard, Counter::BarnGet);
    let objects = take(&yard, 2, sheaf);
    assert!(objects.iter().all(|object| node_of(&yard, *object) == Some(0)));
    assert!(counted(&yard, Counter::BarnGet) > swaps);
    assert_eq!(parked(&yard)[1], most * sheaf);
    give(&yard, 2, objects);
    // The tunable is each barn's.
    let cache = yard.cache(CLASS);
    let changed = cache.engine.set(cache.on(&yard.heap), "barn_full", 1).expect("a tunable");
    assert_eq!((changed.old, cache.barn_limits().0), (2, 1));
    assert_eq!(parked(&yard), [sheaf, sheaf]);
    check(&yard);
}

#[test]
fn a_pass_empties_each_node() {
    let yard = yard::<SheavesOnNodes>(2);
    let sheaf = yard.cache(CLASS).sheaf_capacity() as usize;
    for cpu in [0, 1] {
        let objects = take(&yard, cpu, 8 * sheaf);
        give(&yard, cpu, objects);
    }
    // Idle for the cache: another one's slow paths do the passes.
    for _ in 0..3000 {
        yard.platform().advance(50);
        let other = (0..50).map(|_| yard.alloc_fast(2000, 16).expect("memory"));
        let other: Vec<_> = other.collect();
        give(&yard, 1, other);
    }
    check(&yard);
    assert_eq!(parked(&yard), [0, 0]);
    assert_eq!(yard.cache(CLASS).nr_slabs(), 0);
}

#[test]
fn a_sheaf_of_a_thread_that_moved_goes_to_its_node() {
    let settings = NodeSettings { remote_percent: 0, ..SheavesOnNodes::SETTINGS };
    let yard =
        yard_of::<SheavesOnNodes>(Config { cpus: 2, nodes: 2, ..Config::default() }, settings);
    let objects = take(&yard, 0, 300);
    give(&yard, 0, objects);
    // As such a thread leaves it behind: node 0's sheaf is in CPU 1's stack.
    let (p, slot) = (yard.platform(), yard.cache(CLASS).shape().main());
    p.set_cpu(0);
    let left = p.exchange(slot, Stack::NONE).expect("no stopped stack");
    p.set_cpu(1);
    assert_eq!(p.exchange(slot, left).expect("no stopped stack"), Stack::NONE);
    check(&yard);
    let far = take(&yard, 1, 10);
    assert!(far.iter().all(|object| node_of(&yard, *object) == Some(0)));
    // The next slow path of the CPU finds it: a free of what it must not push there.
    let before = parked(&yard)[0];
    give(&yard, 1, far);
    let own = {
        trim::drain_thread(&yard);
        take(&yard, 1, 1)
    };
    assert_eq!(node_of(&yard, own[0]), Some(1));
    assert!(parked(&yard)[0] >= before);
    give(&yard, 1, own);
    check(&yard);
}
