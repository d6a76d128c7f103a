//! Random sequences of calls of one thread, checked after every call.

use super::actor::{Actor, Company, Request, Way, nested};
use super::oracle::Oracle;
use super::{Says, books, each_machine, yard_of, yard_on};
use crate::each_engine::next_kind;
use slabyard::cache::{classes, slots};
use slabyard::calls::trim;
use slabyard::debugging;
use slabyard::engine::node_set::NodeSet;
use slabyard::engine::{Engine, SlowPaths};
use slabyard::observe::count;
use slabyard::platform::stack::{SLOTS, Tag};
use slabyard::platform::{GRANULE, Memory, PerCpu, Slot};
use slabyard::yard::{LARGEST_RUN, Yard};
use slabyard_abi::region::row;
use slabyard_testkit::machine::Config;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `checked` steps with a check after each, and 10 times as many with a check
/// now and then.
fn run<E: Engine>(config: Config, checked: usize) {
    let _says = Says::of(&config);
    let seed = config.seed;
    let yard = yard_of::<E>(config);
    yard.on_ticking(count_beat);
    let oracle = Mutex::new(Oracle::default());
    let mut actor = Actor::new(&yard, &oracle, seed, Company::Alone);
    actor.check();
    // Under Miri a check takes seconds.
    let rarely = if cfg!(miri) { 40 } else { 1 };
    for step in 0..checked {
        actor.step();
        if step % rarely == 0 {
            actor.check();
        }
    }
    for step in 0..checked * 10 {
        actor.step();
        if step % (64 * rarely) == 0 {
            actor.check();
        }
    }
    quieten(&mut actor);
    actor.check();
    actor.finish();
    assert_eq!(count::set_aside(&yard.heap), 0);
    assert_eq!(actor.refused, 0, "memory was refused on a machine that has enough");
}

/// A program that does next to nothing: free pages are purged, and the reclaim ticker ends.
fn quieten<E: Engine>(actor: &mut Actor<'_, E>) {
    let mut calls = 0;
    while actor.yard.is_ticking() {
        assert!(calls < 5000, "the reclaim ticker does not end");
        let address = actor.yard.alloc_fast(64, 16).expect("memory");
        assert_eq!(actor.yard.free_fast(address), Ok(()));
        actor.yard.platform().advance(1);
        // A slow path did the deferred frees of handlers.
        actor.books().deferred.clear();
        calls += 1;
    }
}

/// Intervals of the reclaim ticker begun and ended, over all runs.
static BEATS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn count_beat(begins: bool) {
    BEATS[usize::from(begins)].fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_sheaf_is_as_large_as_its_cache_needs() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = yard_on(config);
        let (p, sheaves) = (yard.platform(), &yard.heap.sheaves);
        for (objects, room) in [(1, 68), (68, 68), (69, 260), (260, 260), (261, 1028), (1022, 1028)]
        {
            let take = || sheaves.take(p, objects).expect("memory");
            let (first, second) = (take(), take());
            assert_eq!((sheaves.room(&first), sheaves.room(&second)), (room, room));
            let stacks = [first, second].map(|sheaf| sheaves.publish(sheaf, 2000));
            // Words of a sheaf: of the objects, two in front, and a tag.
            assert_eq!(stacks[1].top.abs_diff(stacks[0].top), room + 2 + Tag::ELEMENTS);
            for stack in stacks {
                assert_eq!(stack.end, stack.top + room, "a stack holds what there is room for");
                assert_eq!(sheaves.count_of(stack.top), Some(0));
                assert_eq!(sheaves.count_of(stack.end), Some(room));
                sheaves.give(p, sheaves.adopt(stack).expect("its sheaf"));
            }
        }
    });
}

#[test]
fn a_larger_capacity_finds_larger_sheaves() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = yard_on(config);
        let class = classes::class_for(2048).expect("a class");
        let cache = yard.cache(class);
        let (p, slot) = (yard.platform(), slots::slot_of(class));
        let now = || {
            let tops = (0..p.rows().len()).map(|row| p.rows().entry(row, slot).top());
            tops.filter_map(|top| yard.heap.sheaves.count_of(top)).max()
        };
        // The most objects that a main sheaf has while so many are freed.
        let most = || {
            let objects: Vec<_> = (0..2000).map(|_| yard.alloc_fast(2048, 16)).collect();
            let counts = objects.into_iter().map(|object| {
                assert_eq!(yard.free_fast(object.expect("memory")), Ok(()));
                now()
            });
            counts.max().flatten()
        };
        assert!(most() <= Some(32));
        cache.engine.set(cache.on(&yard.heap), "sheaf_capacity", 500).expect("a tunable");
        let largest = most();
        assert!(largest > Some(262), "{largest:?} objects in the largest sheaf of 500");
    });
}

#[test]
fn large_objects_wait_in_no_barn() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = yard_on(config);
        for (bytes, full) in
            [(64, true), (1024, true), (1168, false), (4096, false), (32768, false)]
        {
            let class = classes::class_for(bytes).expect("a class");
            let cache = yard.cache(class);
            let objects = 4 * cache.sheaf_capacity() as usize;
            let held: Vec<_> = (0..objects).map(|_| yard.alloc_fast(bytes, 16)).collect();
            for object in held {
                assert_eq!(yard.free_fast(object.expect("memory")), Ok(()));
            }
            let (sheaves, here) = cache.engine.0.here(cache.on(&yard.heap));
            let nr_full = sheaves.nr_full(here);
            assert_eq!(nr_full > 0, full, "objects of {bytes} bytes");
        }
    });
}

each_engine_and_policy! {
    fn every_call_keeps_the_books<E>() {
        each_machine(|machine| {
            let first = machine.cpus as u64;
            for seed in first..first + if cfg!(debug_assertions) { 2 } else { 9 } {
                next_kind();
                run::<E>(Config { seed, late_rows: seed % 2 == 1, ..machine.clone() }, 200);
            }
        });
        let beats = BEATS.each_ref().map(|n| n.load(Ordering::Relaxed));
        assert!(beats[0] > 10 && beats[1] > 10, "heartbeats ended and begun: {beats:?}");
    }
}

each_engine_and_policy! {
    fn miri_every_call_keeps_the_books<E>() {
        let steps = if cfg!(miri) { 15 } else { 30 };
        run::<E>(Config { seed: 4, ..Config::default() }, steps);
    }
}

each_engine_and_policy! {
    fn a_request_of_nothing_is_served_at_every_alignment<E>() {
        each_machine(|machine| {
            let yard = yard_of::<E>(machine);
            for shift in 0..24 {
                let address = yard.alloc(0, 1 << shift).expect("memory");
                assert!(address.is_multiple_of(1 << shift));
                // With red zones, nothing may be used that was not requested.
                let least = usize::from(!debugging::is_debugged(&yard, address));
                assert!(yard.usable(address) >= Some(least));
                assert_eq!(yard.free(address), Ok(()));
            }
            yard.trim();
            books::empty(&yard).unwrap();
        });
    }
}

each_engine_and_policy! {
    fn trim_says_whether_memory_went_back<E>() {
        each_machine(|machine| {
            let yard = yard_of::<E>(machine);
            assert!(!yard.trim(), "there is nothing yet");
            for bytes in [64, 18_000, 100_000] {
                let address = yard.alloc(bytes, 16).expect("memory");
                assert_eq!(yard.free_fast(address), Ok(()));
                let before = yard.platform().given_back_bytes();
                assert!(yard.trim(), "{bytes} bytes");
                assert!(yard.platform().given_back_bytes() > before);
                assert!(!yard.trim(), "{bytes} bytes, nothing more");
            }
        });
    }
}

#[test]
fn trim_takes_stacks_away_and_unused_sheaves_give_their_pages_back() {
    each_machine(|machine| {
        if !machine.can_stop {
            return;
        }
        let yard = yard_on(machine);
        let address = yard.alloc(64, 16).expect("memory");
        assert_eq!(yard.free_fast(address), Ok(()));
        let (p, sheaves) = (yard.platform(), &yard.heap.sheaves);
        let stacks = || {
            let slots = (row::FIRST_RUNS as u16..SLOTS as u16).map(Slot);
            slots.filter(|slot| !p.rows().entry(0, *slot).is_none()).count()
        };
        assert!(stacks() > 0);
        yard.trim();
        assert_eq!(stacks(), 0);
        // A large sheaf is larger than two pages of 4 KiB, and so holds a whole one.
        let sheaf = sheaves.take(p, 1000).expect("memory");
        sheaves.give(p, sheaf);
        let given = sheaves.rest(p);
        assert!(given.is_multiple_of(p.page_bytes()));
        assert!(given > 0 || p.page_bytes() > GRANULE);
        assert_eq!(sheaves.rest(p), 0, "once is enough");
        let address = yard.alloc(64, 16).expect("a sheaf that was given back serves again");
        assert_eq!(yard.free_fast(address), Ok(()));
    });
}

each_engine_and_policy! {
    fn absurd_requests_are_refused_and_cost_nothing<E>() {
        let yard = yard_of::<E>(Config { memory_bytes: 1 << 40, ..Config::default() });
        let most = isize::MAX as usize;
        for (bytes, align) in [(most, 16), (most + 1, 16), (usize::MAX, 4096), (1, 1 << 63)] {
            assert_eq!(yard.alloc(bytes, align), None, "{bytes} at {align}");
        }
        books::empty(&yard).unwrap();
    }
}

each_engine_and_policy! {
    fn what_a_handler_freed_comes_home_with_the_next_slow_path<E>() {
        each_machine(|machine| {
            let yard = yard_of::<E>(machine);
            let oracle = Mutex::new(Oracle::default());
            let mut actor = Actor::new(&yard, &oracle, 1, Company::Alone);
            let sizes = [16, 1000, classes::LARGEST, 100_000, LARGEST_RUN, LARGEST_RUN + 1];
            for bytes in sizes.into_iter().cycle().take(60) {
                actor.alloc(Request { bytes, align: 16 }, Way::Slow).expect("memory");
            }
            while actor.free(Way::Nested) {}
            // Mappings are ended at once, the others wait.
            assert_eq!(oracle.lock().unwrap().deferred.len(), 50);
            actor.check();
            nested(yard.platform(), || {
                assert!(yard.verify().is_none() && !yard.trim());
                trim::drain_thread(&yard);
            });
            actor.check();
            trim::drain_thread(&yard);
            oracle.lock().unwrap().deferred.clear();
            actor.check();
            actor.finish();
        });
    }
}

#[test]
fn an_object_freed_twice_is_set_aside_at_its_flush() {
    static REPORTED: AtomicUsize = AtomicUsize::new(0);
    each_machine(|machine| {
        let yard: Yard<_> = yard_on(machine);
        yard.on_misuse(|found| {
            assert_eq!(found.cause, slabyard::pages::Cause::DoubleFree);
            REPORTED.fetch_add(1, Ordering::Relaxed);
        });
        let reported = REPORTED.load(Ordering::Relaxed);
        let [first, second] = [(); 2].map(|()| yard.alloc(64, 16).expect("memory"));
        for address in [first, second, first] {
            assert_eq!(yard.free_fast(address), Ok(()));
        }
        // On the stack's top already: found at once.
        assert_eq!(yard.free_fast(first), Ok(()));
        assert_eq!(REPORTED.load(Ordering::Relaxed), reported + 1);
        let fault = books::verify(&yard).unwrap_err();
        assert!(fault.starts_with("object free or parked twice"), "{fault}");
        yard.trim();
        assert_eq!(REPORTED.load(Ordering::Relaxed), reported + 2);
        assert_eq!(count::set_aside(&yard.heap), 2);
        books::empty(&yard).unwrap();
    });
}

#[test]
fn objects_come_in_the_order_of_their_addresses() {
    each_machine(|machine| {
        let yard = yard_on(machine);
        let take = |_| yard.alloc_fast(64, 16).expect("memory");
        let objects: Vec<_> = (0..10_000).map(take).collect();
        // Once a slab, and once a refill; not once a word of 64 objects.
        let descents = objects.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(descents < objects.len() / 128, "{descents} steps back");
    });
}
