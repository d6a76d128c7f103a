//! Pages that a program frees are returned as it frees, so that little is left if it makes no call
//! from then on; and a program that fills and empties its heap again and again keeps its pages.

use crate::each_engine;
use slabyard::calls::help;
use slabyard::engine::{Engine, SlowPaths};
use slabyard::platform::GRANULE;
use slabyard::reclaim::surplus;
use slabyard::sync::Ordering;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

const MIB: usize = 1 << 20;

fn yard<E: Engine>() -> Yard<Machine, E> {
    let yard = each_engine::new_yard(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 250 }));
    surplus::give_surplus(&yard, true);
    yard
}

/// Blocks of so many bytes come, `mib` in all, and all go.
fn wave<E: Engine>(yard: &Yard<Machine, E>, block: usize, mib: usize) {
    let nr = mib * MIB / block;
    let blocks: Vec<_> = (0..nr).map(|_| yard.alloc(block, 16).expect("memory")).collect();
    for block in blocks {
        yard.free(block).expect("a live block");
    }
}

fn dirty<E: Engine>(yard: &Yard<Machine, E>) -> usize {
    yard.heap.buddy.dirty_hint() * GRANULE / MIB
}

fn given_back<E: Engine>(yard: &Yard<Machine, E>) -> usize {
    yard.platform().tally().give_back_bytes as usize / MIB
}

// The machine's clock stands still.
each_engine! {
    fn a_burst_is_back_with_its_last_free<E>() {
        for block in [60_000, 200_000, 900_000, 3_000_000] {
            let yard = yard::<E>();
            // The first block above 1 MiB that goes is a mapping's.
            wave(&yard, block, 3);
            wave(&yard, block, 64);
            let left = dirty(&yard);
            assert!(left <= 4, "blocks of {block} bytes: {left} MiB are left");
        }
    }
}

each_engine! {
    fn without_being_asked_nothing_goes<E>() {
        let yard = yard::<E>();
        surplus::give_surplus(&yard, false);
        wave(&yard, 200_000, 24);
        assert!(dirty(&yard) >= 20);
    }
}

/// A barn that use, or somebody, made large keeps slabs, and no page waits beside them.
#[test]
fn a_helper_gives_back_what_barns_keep() {
    let yard: Yard<Machine> = yard();
    surplus::give_surplus(&yard, false);
    let class = yard.class_for(2000, 16).expect("a class");
    let cache = yard.cache(class);
    cache.engine.set(cache.on(&yard.heap), "barn_full", 1000).expect("a tunable");
    let objects: Vec<_> = (0..1000).map(|_| yard.alloc_fast(2000, 16).expect("memory")).collect();
    for object in objects {
        yard.free_fast(object).expect("a live object");
    }
    let parked = yard.heap.barn_bytes.parked.load(Ordering::Relaxed);
    assert!(parked >= MIB, "{parked} bytes in barns");
    let mut ticks = 0;
    while yard.is_ticking() {
        yard.platform().advance(yard.period_ms());
        while help::help_reclaim(&yard) {}
        ticks += 1;
        assert!(ticks < 100, "it ends");
    }
    assert!(cache.nr_slabs() < 20, "{} slabs are left", cache.nr_slabs());
}

#[test]
fn a_heap_that_grows_in_waves_is_back_after_each() {
    let yard: Yard<Machine> = yard();
    for mib in [20, 30, 45, 65, 95] {
        wave(&yard, 200_000, mib);
        let left = dirty(&yard);
        assert!(left <= 4, "a wave of {mib} MiB: {left} are left");
    }
}

/// 30 MiB may wait for the decay time however little is live.
#[test]
fn equal_waves_keep_their_pages() {
    let yard: Yard<Machine> = yard();
    for _ in 0..100 {
        wave(&yard, 200_000, 30);
    }
    let given = given_back(&yard);
    assert!(given <= 60, "of 3000 MiB {given} went back");
    assert!(dirty(&yard) >= 24);
}

/// A wave in a minute costs nothing that anybody sees.
#[test]
fn rare_waves_are_back_after_each() {
    let yard: Yard<Machine> = yard();
    for nth in 0..10 {
        wave(&yard, 200_000, 30);
        let left = dirty(&yard);
        assert!(left <= 4, "wave {nth}: {left} MiB are left");
        yard.platform().advance(60_000);
    }
}

/// Blocks replace others while as much as before stays live.
#[test]
fn what_comes_and_goes_beside_live_memory_stays() {
    let yard: Yard<Machine> = yard();
    let mut blocks: Vec<_> = (0..300).map(|_| yard.alloc(200_000, 16).expect("memory")).collect();
    for nth in 0..3000 {
        let at = nth * 7 % blocks.len();
        yard.free(blocks[at]).expect("a live block");
        blocks[at] = yard.alloc(150_000 + nth % 50_000, 16).expect("memory");
    }
    let given = given_back(&yard);
    assert!(given <= 24, "{given} MiB went back");
}
