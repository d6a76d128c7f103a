//! Tests slabs that a replay puts in place by hand, or takes where a real kernel took them.

use super::*;

/// Whatever a replay puts in place by hand, a kernel has nothing that its rules do not:
/// no rule would ever take it from there.
#[test]
fn what_the_rules_do_not_have_is_not_put_in_place() {
    each_combination(|rules, node_of| {
        let mut cache = KernelCache::new(rules, node_of);
        let cpus = 0..node_of.len();
        let mut live: Vec<u32> = Vec::new();
        for cpu in cpus.clone() {
            let slabs = [cache.install_cpu_slab(cpu, 1), cache.install_cpu_partial(cpu, 2)];
            live.extend([slabs[0], slabs[0], slabs[0], slabs[1], slabs[1]]);
            live.extend([cache.install_cpu_slab(cpu, 0); 4]);
        }
        cache.begin();
        let of = |live: &[u32], slab: u32| live.iter().filter(|of| **of == slab).count() as u32;
        cache.audit(Some(&|slab| of(&live, slab))).unwrap();
        let places = cache.places();
        if !rules.has_cpu_slabs() {
            assert_eq!((places.cpu_slabs, places.cpu_partial), (0, 0), "{rules:?}");
        }
        if !rules.cpu_partial_lists {
            assert_eq!(places.cpu_partial, 0, "{rules:?}");
        }
        // What is free is used before a slab is made.
        let free = places.free_cpu_slab + places.free_cpu_partial + places.free_node;
        live.extend((0..free).map(|nth| cache.alloc(nth as usize % node_of.len(), None)));
        cache.audit(Some(&|slab| of(&live, slab))).unwrap();
        if node_of.len() == 1 && rules.sheaf_capacity == 0 {
            assert_eq!(cache.counters.get(C::AllocSlab), 0, "{rules:?}");
        }
    });
}

/// Nor does following a kernel that left a slab early. A CPU that takes a slab from its node had
/// none in its list; one that takes another CPU's kept its list.
#[test]
fn a_slab_left_early_waits_where_the_cpu_went_and_at_its_node_where_there_are_no_lists() {
    let left_for = |cpu_partial_lists, used: fn(&KernelCache) -> u32| {
        let cache = KernelCache::new(Rules { cpu_partial_lists, ..RULES }, &[0, 0]);
        let left = cache.install_cpu_slab(0, 2);
        let used = used(&cache);
        assert!(cache.follow(0, used));
        cache.audit(None).unwrap();
        cache.state(left)
    };
    let of_node = |cache: &KernelCache| cache.install_node_partial(0, 1);
    let of_other = |cache: &KernelCache| cache.install_cpu_slab(1, 1);
    assert_eq!(left_for(true, of_node), State::NodePartial);
    assert_eq!(left_for(false, of_node), State::NodePartial);
    assert_eq!(left_for(true, of_other), State::CpuPartial);
    assert_eq!(left_for(false, of_other), State::NodePartial);
}
