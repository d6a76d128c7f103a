//! During the heartbeat the fast path stays fast: allocations pop from the spare sheaf,
//! whoever makes them. What waits is bounded, however old it is.

use slabyard::cache::classes;
use slabyard::platform::GRANULE;
use slabyard::platform::machine::{Config, Machine};
use slabyard::sync::{AtomicU32, Ordering};
use slabyard::yard::{Settings, Yard};
use slabyard_abi::region::CacheWord;

/// Slow paths that a class's cache began: the low half of its version.
fn slow_paths(yard: &Yard<Machine>, class: usize) -> u32 {
    let version = yard.cache(class).shown_at() + CacheWord::Version.index() * 8;
    // SAFETY: the first half of a cache's version, an atomic number.
    unsafe { &*(version as *const AtomicU32) }.load(Ordering::Relaxed)
}

#[test]
fn allocations_take_the_slow_path_once_in_half_a_sheaf() {
    let yard = Yard::new(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    let class = classes::class_for(448).expect("a class");
    let runs: Vec<_> = (0..4).map(|_| yard.alloc(500_000, 16).expect("memory")).collect();
    for run in runs {
        yard.free(run).expect("a live run");
    }
    assert!(yard.beats(), "pages wait to go back");
    let capacity = yard.cache(class).sheaf_capacity();
    let (n, before) = (100 * capacity, slow_paths(&yard, class));
    for _ in 0..n {
        yard.alloc_fast(448, 16).expect("memory");
    }
    assert!(yard.beats(), "the clock of the machine stands still");
    let slow = slow_paths(&yard, class) - before;
    assert!(slow <= 210, "{slow} slow paths for {n} allocations, {capacity} in a sheaf");
}

/// Frees outnumber allocations, so that main and spare sheaf are nearly full most of the
/// time: that they change places for the room that is left must not cost a slow path for
/// each few frees.
#[test]
fn two_sheaves_that_are_nearly_full_cost_no_more_slow_paths() {
    const STEP: u32 = 64;
    let yard = Yard::new(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    let alloc = || yard.alloc_fast(32, 16).expect("memory");
    let free = |object| yard.free_fast(object).expect("a live object");
    let objects: Vec<_> = (0..40_000).map(|_| alloc()).collect();
    let runs: Vec<_> = (0..4).map(|_| yard.alloc(500_000, 16).expect("memory")).collect();
    for run in runs {
        yard.free(run).expect("a live run");
    }
    assert!(yard.beats(), "pages wait to go back");
    let class = classes::class_for(32).expect("a class");
    let (mut frees, before) = (0, slow_paths(&yard, class));
    for object in objects {
        free(object);
        for _ in 0..3 {
            free(alloc());
        }
        frees += 4;
    }
    assert!(yard.beats(), "the clock of the machine stands still");
    let slow = slow_paths(&yard, class) - before;
    assert!(slow < frees / STEP * 3 / 2, "{slow} slow paths for {frees} frees");
}

#[test]
fn a_burst_of_frees_gives_back_while_it_lasts() {
    const MUCH: usize = 32 << 20;
    let yard = Yard::new(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 250 }));
    let objects: Vec<_> =
        (0..160_000).map(|_| yard.alloc_fast(1000, 16).expect("memory")).collect();
    for object in objects {
        yard.free_fast(object).expect("a live object");
    }
    // The clock of the machine stands still: nothing is old.
    let waiting = yard.ground.buddy.dirty_hint() * GRANULE;
    assert!(waiting > MUCH / 2, "{waiting} bytes wait: the decay time is not for nothing");
    assert!(waiting < MUCH + MUCH / 4, "{waiting} bytes wait");
}
