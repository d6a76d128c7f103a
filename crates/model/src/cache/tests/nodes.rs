//! Tests of machines with nodes that have no memory, and of refills from other nodes' lists.

use super::*;

/// Two CPUs, each on a node of its own; the second node has no memory.
fn cache(front: Front, memoryless_barns: bool) -> KernelCache {
    let rules = Rules {
        objects: 8,
        front,
        sheaf_capacity: 4,
        remote_ratio: 1024,
        min_partial: 1,
        ..Rules::of_kind(Freezing::Delayed, Accounting::Slabs, true)
    };
    let mut cache = KernelCache::new(rules, &[0, 1]);
    cache.follow_sheaves(KernelSheaves { memoryless_barns, ..KernelSheaves::FIRST });
    cache.memory.use_memory_of(&[0, 0]);
    cache
}

/// The second CPU allocates and frees as many objects; how often it took the slow paths, and the
/// refills.
fn slow_paths(cache: &mut KernelCache, objects: usize) -> [u64; 3] {
    let slabs: Vec<u32> = (0..objects).map(|_| cache.alloc(1, None)).collect();
    slabs.iter().for_each(|slab| assert_eq!(cache.slab(*slab).node.get(), 0));
    slabs.into_iter().for_each(|slab| cache.free(1, slab));
    cache.audit(None).unwrap();
    [C::AllocSlowpath, C::FreeSlowpath, C::SheafRefill].map(|counter| cache.counters().get(counter))
}

#[test]
fn without_a_barn_each_call_of_a_memoryless_node_goes_to_slabs() {
    assert_eq!(slow_paths(&mut cache(Front::Sheaves, false), 8), [8, 8, 0]);
}

#[test]
fn with_a_barn_sheaves_of_a_memoryless_node_take_objects_of_any() {
    assert_eq!(slow_paths(&mut cache(Front::Sheaves, true), 8), [0, 0, 8]);
    let mut cache = cache(Front::Sheaves, true);
    let slab = cache.alloc(0, None);
    cache.free(1, slab);
    assert_eq!((cache.in_sheaves_of(0), cache.in_sheaves_of(1)), (3, 1));
}

#[test]
fn a_call_that_may_not_wait_refills_no_sheaf_where_the_kernel_says_so() {
    for (nowait_refills, refilled) in [(false, 0), (true, 4)] {
        let mut cache = cache(Front::Sheaves, true);
        cache.follow_sheaves(KernelSheaves { nowait_refills, ..KernelSheaves::FIRST });
        cache.may_wait.set(false);
        cache.alloc(0, None);
        assert_eq!(cache.counters().get(C::SheafRefill), refilled);
        cache.may_wait.set(true);
        cache.alloc(0, None);
        assert_eq!(cache.counters().get(C::SheafRefill), 4);
    }
}

#[test]
fn cpu_slabs_of_a_memoryless_node_are_of_another_node() {
    let mut cache = cache(Front::CpuSlabs, false);
    assert_eq!(slow_paths(&mut cache, 8)[2], 0);
    cache.shrink();
    assert_eq!(cache.nr_slabs(), 0);
}

#[test]
fn a_refill_takes_of_another_node_what_that_has_above_min_partial() {
    let mut cache = cache(Front::Sheaves, true);
    (0..3).for_each(|_| _ = cache.install_node_partial(0, 1));
    cache.begin();
    cache.alloc(1, None);
    assert_eq!(cache.node_partial(0).1, 1, "all three at once, and what a new slab has left");
    assert_eq!(cache.counters().get(C::AllocSlab), 1);
    let mut short = self::cache(Front::Sheaves, true);
    short.install_node_partial(0, 1);
    short.begin();
    short.alloc(1, None);
    assert_eq!((short.node_partial(0).1, short.counters().get(C::AllocSlab)), (2, 1));
}
