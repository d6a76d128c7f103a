//! Tests which slabs wait on lists, for how long, and in which order.

use super::*;

#[test]
fn what_was_freed_last_waits_longest() {
    let mut cache = KernelCache::new(Rules { cpu_partial_lists: false, ..RULES }, &[0]);
    let slabs: Vec<u32> = (0..3).map(|_| cache.install_full(0)).collect();
    for slab in [1, 0, 2] {
        cache.free(0, slabs[slab]);
    }
    let order: Vec<u32> = cache.each_node_partial(0).map(|(slab, _)| slab).collect();
    assert_eq!(order, [slabs[1], slabs[0], slabs[2]]);
    assert_eq!(cache.alloc(0, None), slabs[1]);
}

#[test]
fn limits_by_objects_count_what_joins_and_by_slabs_the_slabs() {
    // Full slabs that get their first free object, one after the other: how many
    // fit on the list before it is drained.
    let longest = |rules: Rules| {
        let mut cache = KernelCache::new(rules, &[0]);
        let mut longest = 0;
        for _ in 0..100 {
            let slab = cache.install_full(0);
            cache.free(0, slab);
            longest = longest.max(cache.cpus[0].partial.get().slabs);
            cache.audit(None).unwrap();
        }
        longest
    };
    // To 5.15: drained when more than 6 are counted, so that 7 slabs get in.
    assert_eq!(longest(Rules { accounting: Accounting::Objects, ..RULES }), 7);
    assert_eq!(longest(RULES), 3);
    assert_eq!(longest(Rules { accounting: Accounting::Exact, ..RULES }), 6);
    // A limit of 0 keeps none to 5.15 and one from 5.16.
    let none = Rules { cpu_partial: 0, cpu_partial_slabs: 0, ..RULES };
    assert_eq!(longest(Rules { accounting: Accounting::Objects, ..none }), 0);
    assert_eq!(longest(none), 1);
}

#[test]
fn exact_accounting_parks_no_empty_slab() {
    // The thread of 2021: slabs on the list, all their objects freed afterwards.
    let empties = |accounting: Accounting| {
        let rules = Rules { accounting, cpu_partial: 30, cpu_partial_slabs: 30, ..RULES };
        let mut cache = KernelCache::new(rules, &[0, 0]);
        let slabs: Vec<u32> = (0..24).map(|_| cache.install_full(0)).collect();
        for _ in 0..4 {
            slabs.iter().for_each(|slab| cache.free(0, *slab));
        }
        cache.audit(None).unwrap();
        (cache.places().cpu_empty, cache.nr_slabs())
    };
    assert_eq!(empties(Accounting::Objects), (24, 24));
    assert_eq!(empties(Accounting::Slabs), (24, 24));
    assert_eq!(empties(Accounting::Exact), (0, RULES.min_partial));
}

#[test]
fn an_empty_slab_is_kept_while_the_list_is_short() {
    let rules = Rules { cpu_partial_lists: false, min_partial: 2, ..RULES };
    let mut cache = KernelCache::new(rules, &[0]);
    let slabs: Vec<u32> = (0..5).map(|_| cache.install_full(0)).collect();
    for slab in &slabs {
        (0..4).for_each(|_| cache.free(0, *slab));
    }
    // The second joins as the list's second; what comes to a list of two ends.
    assert_eq!(cache.nr_slabs(), 1);
    assert!(cache.counters.get(C::EmptyKept) > 0);
    cache.shrink();
    assert_eq!(cache.nr_slabs(), 0, "shrinking asks no limit");
}

#[test]
fn shrink_sorts_the_fullest_first_and_ends_the_empty() {
    let cache = KernelCache::new(Rules { objects: 64, ..RULES }, &[0]);
    for free in [40, 5, 64, 1, 50, 32] {
        cache.install_node_partial(0, free);
    }
    cache.shrink();
    let order: Vec<u32> = cache.each_node_partial(0).map(|(_, free)| free).collect();
    assert_eq!(order, [1, 5, 32, 40, 50]);
    cache.audit(None).unwrap();
}

/// A CPU is unplugged: its slab goes to the list's head, its list to the tail, its sheaves' objects
/// to their slabs; the other CPU keeps what it holds.
#[test]
fn an_unplugged_cpu_leaves_its_slab_first_and_its_list_last() {
    let mut cache = KernelCache::new(RULES, &[0, 0]);
    let node = cache.install_node_partial(0, 1);
    let listed = cache.install_cpu_partial(0, 2);
    let own = cache.install_cpu_slab(0, 3);
    let other = cache.install_cpu_slab(1, 2);
    cache.begin();
    cache.unplug(0);
    cache.audit(None).unwrap();
    let list: Vec<u32> = cache.each_node_partial(0).map(|it| it.0).collect();
    assert_eq!(list, [own, node, listed]);
    assert_eq!((cache.cpu_slab(0), cache.cpu_slab(1)), (None, Some((other, 2))));
    let rules = Rules { front: Front::SheavesOverCpuSlabs, sheaf_capacity: 4, ..RULES };
    let mut cache = KernelCache::new(rules, &[0, 0]);
    let slab = cache.alloc(0, None);
    cache.free(0, slab);
    assert!(cache.in_sheaves_of(0) > 0);
    cache.unplug(0);
    cache.audit(None).unwrap();
    assert_eq!((cache.in_sheaves_of(0), cache.cpu_slab(0)), (0, None));
}
