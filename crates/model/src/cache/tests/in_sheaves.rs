//! Tests sheaves: refills, flushes, and the calls that treat them in their own way.

use super::*;

const SHEAVES: Rules = Rules { front: Front::Sheaves, sheaf_capacity: 4, ..RULES };

/// 7.x takes all that a slab has free, and what a sheaf does not hold is freed to the slab, which
/// was full in between: it joins the list's tail.
#[test]
fn what_a_refill_does_not_need_of_a_slab_waits_at_the_lists_tail() {
    let mut cache = KernelCache::new(SHEAVES, &[0]);
    let first = cache.install_node_partial(0, 3);
    let second = cache.install_node_partial(0, 3);
    let third = cache.install_node_partial(0, 1);
    // The first slab and one object of the second; two of it come back.
    assert_eq!(cost(&mut cache, |cache| assert_eq!(cache.alloc(0, None), second)), [3, 1, 2]);
    assert_eq!((cache.state(first), cache.node_partial(0)), (State::Full, (third, 2)));
    assert_eq!(cache.next_of(third), second);
}

/// A flush frees a sheaf's objects slab by slab, starting with the last object.
#[test]
fn a_flush_puts_objects_of_one_slab_back_at_once() {
    let flushed = |order: [usize; 5]| {
        let mut cache = KernelCache::new(SHEAVES, &[0]);
        let slabs = [cache.install_full(0), cache.install_full(0), cache.install_full(0)];
        let objects = order.map(|nth| slabs[nth]).to_vec();
        let cost = cost(&mut cache, |cache| cache.free_in_bulk(0, objects));
        let listed: Vec<u32> = cache.each_node_partial(0).map(|of| of.0).collect();
        let nth = |slab: &u32| slabs.iter().position(|of| of == slab).unwrap();
        (cost, listed.iter().map(nth).collect::<Vec<_>>())
    };
    // Two of another slab between them, which are no hindrance, and three, which are.
    assert_eq!(flushed([0, 1, 1, 0, 0]), ([2, 2, 2], vec![0, 1]));
    assert_eq!(flushed([0, 1, 2, 1, 0]), ([4, 3, 3], vec![0, 1, 2]));
}

/// A full sheaf of `kfree_rcu()` waits for readers, however many do; then it is the barn's, until
/// that has ten, or its slabs'.
#[test]
fn what_kfree_rcu_frees_goes_to_the_barn_by_the_sheaf() {
    let mut cache = KernelCache::new(SHEAVES, &[0]);
    let mut free = |n: usize| {
        for _ in 0..n {
            let slab = cache.install_full(0);
            assert_eq!((0..4).filter(|_| cache.free_rcu(0, slab)).count(), 1);
        }
        cache.audit(None).unwrap();
        assert_eq!(cache.in_sheaves().0, 4 * n);
        (0..n).for_each(|_| assert_eq!(cache.end_grace(), 0));
        cache.audit(None).unwrap();
        (cache.in_sheaves(), cache.node_partial(0).1)
    };
    assert_eq!(free(1), ((0, 4), 0));
    assert_eq!(free(9), ((0, 40), 0));
    // Empty slabs, of which two are kept.
    assert_eq!(free(3), ((0, 40), 2));
    let slab = cache.install_full(0);
    assert!(!(0..3).any(|_| cache.free_rcu(0, slab)));
    assert_eq!(cache.in_sheaves(), (3, 40));
    let mut plain = KernelCache::new(RULES, &[0]);
    let slab = plain.install_full(0);
    assert!(!plain.free_rcu(0, slab));
    assert_eq!(plain.state(slab), State::CpuPartial);
}

/// A prefilled sheaf is the spare, whatever that holds; slabs fill it although the barn has a full
/// sheaf, which comes in where there is no spare.
#[test]
fn a_prefilled_sheaf_is_the_spare_and_filled_from_slabs() {
    let mut cache = KernelCache::new(SHEAVES, &[0]);
    let refills = |cache: &KernelCache| cache.counters().get(Counter::SheafRefill);
    let prefilled =
        |cache: &mut KernelCache, least| cache.alloc_by(AllocCall::Prefilled(least), 0, None);
    let slab = cache.install_full(0);
    (0..4).for_each(|_| _ = cache.free_rcu(0, slab));
    cache.end_grace();
    // The barn's.
    assert_eq!(prefilled(&mut cache, 3), slab);
    assert_eq!((cache.in_sheaves(), refills(&cache)), ((3, 0), 0));
    // Another one there, which stays.
    let other = cache.install_full(0);
    (0..4).for_each(|_| _ = cache.free_rcu(0, other));
    cache.end_grace();
    (0..2).for_each(|_| assert_eq!(prefilled(&mut cache, 1), slab));
    assert_ne!(prefilled(&mut cache, 3), slab);
    assert_eq!((cache.in_sheaves(), refills(&cache)), ((3, 4), 3));
    cache.audit(None).unwrap();
}

/// What a delayed refill brings is the spare, or the barn's; it made slabs though others are there.
#[test]
fn a_refill_that_comes_too_late_is_put_aside() {
    let mut cache = KernelCache::new(SHEAVES, &[0]);
    let mut late = || {
        cache.alloc_by(AllocCall::Delayed(1), 0, None);
        cache.audit(None).unwrap();
        (cache.in_sheaves(), cache.nr_slabs())
    };
    assert_eq!(late(), ((3, 0), 1), "a refill as any other");
    assert_eq!(late(), ((6, 0), 2), "a spare");
    assert_eq!(late(), ((5, 4), 3), "the barn's");
}
