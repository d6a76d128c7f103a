//! Alien arrays (objects that a CPU frees to another node), in the model.

use slabyard::engine::array_cache::{Limits, alien};
use slabyard_model::cache::{Accounting, Freezing, KernelCache, Rules};
use slabyard_model::counters::Counter;

const OBJECTS: u32 = 32;

/// Two nodes, of two CPUs each.
fn cache(limits: Limits) -> KernelCache {
    let of_kind = Rules::of_kind(Freezing::Delayed, Accounting::Slabs, false);
    KernelCache::new(of_kind.of_arrays(OBJECTS, limits), &[0, 0, 1, 1])
}

const SMALL: Limits = Limits { limit: 120, batchcount: 60, sharedfactor: 8 };

fn counts(cache: &KernelCache) -> [u64; 2] {
    [Counter::NodeFrees, Counter::NodeOverflow].map(|counter| cache.counters().get(counter))
}

/// Allocates so many objects on a CPU.
fn alloc(cache: &mut KernelCache, cpu: usize, objects: usize) -> Vec<u32> {
    (0..objects).map(|_| cache.alloc(cpu, None)).collect()
}

fn check(cache: &KernelCache, live: &[u32]) {
    let of = |slab| live.iter().filter(|object| cache.place_of(**object).0 == slab).count() as u32;
    cache.audit(Some(&of)).expect("sound books");
}

#[test]
fn a_dozen_frees_wait_and_the_next_takes_them_home() {
    let mut cache = cache(SMALL);
    let mut live = alloc(&mut cache, 0, 200);
    let in_shared = |cache: &KernelCache| cache.arrays_at(0).0.nr_shared(cache.arrays_at(0).1);
    for nth in 1..=40u32 {
        let object = live.pop().expect("an object");
        cache.free(2, object);
        check(&cache, &live);
        let handed = (nth - 1) / alien::MOST;
        assert_eq!(cache.in_alien(1, 0), nth - handed * alien::MOST, "after {nth}");
        assert_eq!(in_shared(&cache), handed * alien::MOST, "the shared array of node 0");
        assert_eq!(counts(&cache), [u64::from(nth), u64::from(handed)]);
    }
    // Of the CPU's own node nothing waits, and no object of another one is in its array.
    assert_eq!([cache.in_alien(0, 1), cache.in_alien(1, 1)], [0, 0]);
    assert_eq!(cache.in_sheaves_of(2), 0);
}

#[test]
fn what_the_shared_array_has_no_room_for_goes_to_the_slabs() {
    let mut cache = cache(Limits { limit: 8, batchcount: 4, sharedfactor: 4 });
    let mut live = alloc(&mut cache, 0, 100);
    let (free, handed) = (|cache: &KernelCache| cache.places().free_node, 24);
    let before = free(&cache);
    for _ in 0..=handed {
        cache.free(3, live.pop().expect("an object"));
    }
    check(&cache, &live);
    let (arrays, on) = cache.arrays_at(1);
    assert_eq!((arrays.nr_shared(on), free(&cache) - before), (16, 8));
    assert_eq!(counts(&cache), [25, 2]);
}

#[test]
fn an_array_of_one_object_has_aliens_of_one() {
    let mut cache = cache(Limits { limit: 1, batchcount: 1, sharedfactor: 0 });
    let mut live = alloc(&mut cache, 0, 5);
    for overflows in 0..5 {
        cache.free(2, live.pop().expect("an object"));
        check(&cache, &live);
        assert_eq!((cache.in_alien(1, 0), counts(&cache)[1]), (1, overflows));
    }
}

#[test]
fn without_alien_arrays_each_goes_home_alone() {
    let mut cache = cache(SMALL);
    cache.without_aliens();
    let mut live = alloc(&mut cache, 0, 200);
    let before = cache.places().free_node;
    for nth in 1..=40 {
        cache.free(2, live.pop().expect("an object"));
        check(&cache, &live);
        assert_eq!(cache.places().free_node - before, nth);
        assert_eq!((cache.in_alien(1, 0), counts(&cache)), (0, [nth, 0]));
    }
}

#[test]
fn a_reap_hands_over_one_nodes_the_next_one_each_time() {
    let rules = *cache(SMALL).rules();
    let mut cache = KernelCache::new(rules, &[0, 1, 2]);
    let mut live = alloc(&mut cache, 0, 10);
    live.extend(alloc(&mut cache, 1, 10));
    for object in live.drain(..) {
        cache.free(2, object);
    }
    let waits = |cache: &KernelCache| [0, 1, 2].map(|home| cache.in_alien(2, home));
    let mut seen = vec![waits(&cache)];
    for _ in 0..3 {
        cache.reap(false);
        check(&cache, &[]);
        seen.push(waits(&cache));
    }
    // The node behind its own is first.
    assert_eq!(seen, [[10, 10, 0], [0, 10, 0], [0, 0, 0], [0, 0, 0]]);
}

#[test]
fn a_shrink_takes_all_home() {
    let mut cache = cache(SMALL);
    let live = alloc(&mut cache, 0, 100);
    live.into_iter().for_each(|object| cache.free(3, object));
    assert!(cache.in_alien(1, 0) > 0);
    cache.shrink();
    check(&cache, &[]);
    assert_eq!((cache.in_alien(1, 0), cache.nr_slabs()), (0, 0));
}

#[test]
fn an_allocation_that_asks_for_a_node_is_counted() {
    let mut cache = cache(SMALL);
    let object = cache.alloc(0, Some(1));
    assert_eq!(cache.nr_slabs_of(1), 1);
    assert_eq!(cache.counters().get(Counter::NodeAllocs), 1);
    check(&cache, &[object]);
    cache.free(0, object);
    assert_eq!((cache.in_alien(0, 1), cache.in_sheaves_of(0)), (1, 0));
}
