//! Array caches of a yard on the modelled machine: what each slow path moves, by the rules of
//! SLAB, and that the checks find bugs that are planted into the shared array and the list.

use slabyard::cache::{Cache, classes};
use slabyard::engine::array_cache::Limits;
use slabyard::engine::partial::each_partial;
use slabyard::engine::{ArrayCaches, Inspect, SlowPaths};
use slabyard::platform::{PerCpu, Takes};
use slabyard::slab;
use slabyard::slab::freeset;
use slabyard::sync::Ordering;
use slabyard::verify::Fault;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

type Slab = Yard<Machine, ArrayCaches>;

/// Objects of 256 bytes, 64 in a slab: arrays of 120, batches of 60, 480 in the shared array.
const CLASS: usize = 15;
const LIMITS: Limits = Limits { limit: 120, batchcount: 60, sharedfactor: 8 };
const CPUS: u32 = 2;

fn yard() -> Slab {
    let yard = Slab::new(Machine::new(Config { cpus: CPUS as usize, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 1000 }));
    assert_eq!(Limits::of_cache(cache(&yard)), LIMITS);
    yard
}

fn cache(yard: &Slab) -> &Cache<ArrayCaches> {
    yard.cache(CLASS)
}

fn alloc(yard: &Slab, objects: u32) -> Vec<usize> {
    let bytes = classes::ROWS[CLASS].0 as usize;
    (0..objects).map(|_| yard.alloc_fast(bytes, 16).expect("memory")).collect()
}

fn free(yard: &Slab, objects: &[usize]) {
    objects.iter().for_each(|object| assert_eq!(yard.free_fast(*object), Ok(())));
}

/// Objects in CPUs' arrays and in the shared array, in a sound yard.
fn parked(yard: &Slab) -> (u64, u64) {
    yard.verify().expect("no slow path").expect("a sound yard");
    let counted = yard.quiesce(|quiesced| Yard::count_cache(quiesced, CLASS)).expect("the same");
    (counted.parked_cpu, counted.parked_node)
}

/// Slabs on the list: partial ones, and free ones.
fn listed(yard: &Slab) -> (u32, u32) {
    let (mut partial, mut free) = (0, 0);
    each_partial(cache(yard).on(&yard.heap), |_, n| {
        let is_free = n == cache(yard).shape().geometry.objects;
        (partial, free) = (partial + u32::from(!is_free), free + u32::from(is_free));
    });
    (partial, free)
}

/// One reap of the node.
fn reap(yard: &Slab) {
    let engine = &cache(yard).engine;
    for _ in 0..2 {
        let mut found = None;
        loop {
            engine.reclaim(cache(yard).on(&yard.heap), &mut found, 8);
            if found.is_none() {
                break;
            }
        }
    }
}

#[test]
fn a_batch_at_a_time_goes_into_an_array_and_out_of_it() {
    let yard = yard();
    let first = alloc(&yard, 1);
    assert_eq!(parked(&yard), (15, 0), "an untouched array is refilled by 16");
    let more = alloc(&yard, 16);
    assert_eq!(parked(&yard), (47, 0), "then by what listed slabs have");
    let more = [more, alloc(&yard, 48)].concat();
    assert_eq!(parked(&yard), (59, 0), "and by a batch of a new one");
    let all = [first, more, alloc(&yard, 1000)].concat();
    let (cpu, _) = parked(&yard);
    free(&yard, &all[..(120 - cpu) as usize]);
    assert_eq!(parked(&yard), (120, 0), "the array is full");
    let left = &all[(120 - cpu) as usize..];
    free(&yard, &left[..1]);
    assert_eq!(parked(&yard), (61, 60), "the shared array has room");
    free(&yard, &left[1..421 + 60]);
    assert_eq!(parked(&yard), (120 - 59, 480), "and then has none");
    let live = left.len() - 481;
    free(&yard, &left[481..]);
    assert!(live > 120);
    let (cpu, node) = parked(&yard);
    assert!((61..=120).contains(&cpu) && node == 480, "{cpu}, {node}");
    let refill = alloc(&yard, cpu as u32 + 1);
    assert_eq!(parked(&yard), (59, 420), "a refill takes from the shared array first");
    free(&yard, &refill);
}

#[test]
fn what_was_freed_first_leaves_an_array_first() {
    let yard = yard();
    let all = alloc(&yard, 500);
    let p = yard.platform();
    let slot = cache(&yard).shape().main();
    while p.pop(slot).is_some() {}
    free(&yard, &all[..121]);
    let mut shared = Vec::new();
    cache(&yard).engine.each_parked(cache(&yard).on(&yard.heap), |object| shared.push(object));
    assert_eq!(shared, all[..60]);
    let popped: Vec<usize> = std::iter::from_fn(|| p.pop(slot)).collect();
    assert!(popped.iter().eq(all[60..121].iter().rev()));
}

/// All objects of many slabs are freed, and there is no shared array.
fn freed() -> Slab {
    let yard = yard();
    let engine = &cache(&yard).engine;
    assert!(engine.set(cache(&yard).on(&yard.heap), "sharedfactor", 0).is_some());
    free(&yard, &alloc(&yard, 40 * cache(&yard).shape().geometry.objects));
    yard
}

#[test]
fn free_slabs_stay_up_to_the_limit_of_free_objects() {
    let yard = freed();
    let objects = cache(&yard).shape().geometry.objects;
    let free_limit = (1 + yard.platform().rows().len() as u32) * LIMITS.batchcount + objects;
    let mut free_objects = 0;
    each_partial(cache(&yard).on(&yard.heap), |_, n| free_objects += n);
    assert!(free_objects <= free_limit, "{free_objects} of {free_limit}");
    let (partial, kept) = listed(&yard);
    assert!(kept >= 1 && free_objects + objects > free_limit, "{partial}, {kept} slabs");
    // Objects of that slab are used before a new slab begins.
    let slabs = cache(&yard).nr_slabs();
    let again = alloc(&yard, free_objects + parked(&yard).0 as u32);
    assert_eq!(cache(&yard).nr_slabs(), slabs);
    free(&yard, &again);
    parked(&yard);
}

#[test]
fn a_slab_with_a_freed_object_waits_behind_the_others() {
    let yard = yard();
    let objects = cache(&yard).shape().geometry.objects;
    let all = alloc(&yard, 4 * objects);
    let on = cache(&yard).on(&yard.heap);
    // Past the arrays, one object of each slab, and then another one of the first slab.
    let slab_of = |object: usize| {
        let shape = cache(&yard).shape();
        slab::resolve(&yard.heap.region, &shape.geometry, shape.slot, object)
            .expect("an object")
            .slab
    };
    let engine = &cache(&yard).engine;
    let mut order = Vec::new();
    for object in [0, objects, 2 * objects, 1, 0] {
        let mut array = Vec::new();
        while let Some(parked) = yard.platform().pop(cache(&yard).shape().main()) {
            array.push(parked);
        }
        let chosen = all[object as usize + usize::from(order.len() == 4) * 2];
        order.push(slab_of(chosen));
        free(&yard, &[chosen]);
        engine.flush_own(on, cache(&yard).shape().main());
        array.iter().rev().for_each(|object| {
            assert!(
                yard.platform().push(cache(&yard).shape().main(), *object, Takes::Each)
                    || yard.free(*object) == Ok(())
            )
        });
    }
    let mut listed = Vec::new();
    each_partial(on, |slab, _| listed.push(slab));
    let place = |slab: u32| listed.iter().position(|it| *it == slab).expect("it is listed");
    assert!(place(order[1]) < place(order[2]), "{order:?} as {listed:?}");
    assert!(place(order[2]) < place(order[4]), "{order:?} as {listed:?}");
}

#[test]
fn a_reap_takes_a_fifth_of_what_nobody_used() {
    let yard = yard();
    free(&yard, &alloc(&yard, 3000));
    assert_eq!(parked(&yard).1, 480);
    let (_, kept) = listed(&yard);
    reap(&yard);
    let touched = parked(&yard).1;
    assert!(touched == 480 || touched == 384, "a first reap may only clear a mark: {touched}");
    reap(&yard);
    assert_eq!(parked(&yard).1, touched - 96);
    reap(&yard);
    assert_eq!(parked(&yard).1, touched - 192);
    assert!(listed(&yard).1 <= kept + 1);
    for _ in 0..20 {
        reap(&yard);
    }
    assert_eq!((parked(&yard).1, listed(&yard).1), (0, 0));
}

#[test]
fn a_limit_that_a_kernel_refuses_is_refused() {
    let yard = yard();
    let on = cache(&yard).on(&yard.heap);
    let engine = &cache(&yard).engine;
    let all = alloc(&yard, 2000);
    free(&yard, &all[..1000]);
    for (name, value) in
        [("limit", 0), ("limit", 59), ("batchcount", 0), ("batchcount", 121), ("limit", 1023)]
    {
        assert_eq!(engine.set(on, name, value), None, "{name} {value}");
    }
    assert_eq!(Limits::of_cache(cache(&yard)), LIMITS);
    assert_ne!(parked(&yard).1, 0);
    for (name, value) in [("batchcount", 1), ("limit", 1), ("sharedfactor", 1), ("limit", 1022)] {
        assert!(engine.set(on, name, value).is_some_and(|changed| changed.drains));
        assert_eq!(parked(&yard).1, 0, "the shared array begins anew");
        engine.flush_own(on, cache(&yard).shape().main());
        let some = alloc(&yard, 700);
        free(&yard, &some);
        let (cpu, node) = parked(&yard);
        let limits = Limits::of_cache(cache(&yard));
        assert!(cpu <= limits.limit.into() && node <= limits.shared_capacity().into());
    }
    free(&yard, &all[1000..]);
    yard.trim();
    assert_eq!((parked(&yard), cache(&yard).nr_slabs()), ((0, 0), 0));
}

/// The fault that the checker finds in a sound yard with a planted bug.
fn planted(yard: &Slab, plant: impl FnOnce(&Slab)) -> Fault {
    parked(yard);
    plant(yard);
    yard.verify().expect("no slow path").expect_err("a planted bug")
}

fn nth_listed(yard: &Slab, is_free: bool) -> u32 {
    let mut found = None;
    each_partial(cache(yard).on(&yard.heap), |slab, n| {
        if is_free == (n == cache(yard).shape().geometry.objects) {
            found.get_or_insert(slab);
        }
    });
    found.expect("such a slab")
}

#[test]
fn an_object_that_is_in_the_shared_array_and_free_in_its_slab_is_found() {
    let yard = yard();
    free(&yard, &alloc(&yard, 1000));
    let fault = planted(&yard, |yard| {
        let mut shared = Vec::new();
        cache(yard).engine.each_parked(cache(yard).on(&yard.heap), |object| shared.push(object));
        let shape = cache(yard).shape();
        let object = slab::resolve(&yard.heap.region, &shape.geometry, shape.slot, shared[7])
            .expect("an object");
        assert!(!freeset::mark(&yard.heap, object.slab, object.index, true));
    });
    assert_eq!(fault.what, "object free or parked twice");
}

#[test]
fn a_partial_slab_among_the_free_ones_is_found() {
    let fault = planted(&freed(), |yard| {
        let slab = nth_listed(yard, false);
        yard.heap.region.descriptor(slab).apart.store(1, Ordering::Relaxed);
    });
    assert_eq!(fault.what, "cache published as it is");
}

#[test]
fn a_free_slab_among_the_partial_ones_is_found() {
    let fault = planted(&freed(), |yard| {
        let slab = nth_listed(yard, true);
        yard.heap.region.descriptor(slab).apart.store(0, Ordering::Relaxed);
    });
    assert_eq!(fault.what, "cache published as it is");
}
