//! While the reclaim ticker runs, the fast path stays fast and the object freed last is allocated
//! next, and slow paths still come often enough. The dirty free pages are bounded, however young
//! they are.
//!
//! Tests of the fast path, and of a sheaf that a slow path holds, are about sheaves alone:
//! every call of the engine `tiny` is a slow path. The others run on each engine.

use crate::each_engine;
use slabyard::cache::{CacheSettings, classes};
use slabyard::engine::Engine;
use slabyard::platform::{GRANULE, Park, PerCpu, Slot, Threads, Time};
use slabyard::reclaim::ticker::set_interval;
use slabyard::sync::{AtomicU32, Ordering};
use slabyard::yard::rate::{EVERY_CALL, LONGEST_INTERVAL};
use slabyard::yard::{Settings, Yard};
use slabyard_abi::region::CacheWord;
use slabyard_testkit::machine::{Body, Config, Machine};

/// Slow paths that a class's cache began: the low half of its version.
fn slow_paths(yard: &Yard<Machine>, class: usize) -> u32 {
    let version = yard.cache(class).shown_at() + CacheWord::Version.index() * 8;
    // SAFETY: the first half of a cache's version, an atomic number.
    unsafe { &*(version as *const AtomicU32) }.load(Ordering::Relaxed)
}

/// A yard with dirty free pages that wait to be purged.
fn yard_with_ticker<E: Engine>() -> Yard<Machine, E> {
    let yard = each_engine::new_yard(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    // The row's countdown is at its largest number, and there is no sheaf to ask.
    let object = yard.alloc_fast(448, 16).expect("memory");
    yard.free_fast(object).expect("a live object");
    assert!(yard.trim());
    let runs: Vec<_> = (0..4).map(|_| yard.alloc(500_000, 16).expect("memory")).collect();
    for run in runs {
        yard.free(run).expect("a live run");
    }
    assert!(yard.is_ticking(), "pages wait to be purged");
    yard
}

#[test]
fn allocations_take_the_slow_path_once_in_half_a_sheaf() {
    let yard: Yard<Machine> = yard_with_ticker();
    let class = classes::class_for(448).expect("a class");
    let capacity = yard.cache(class).sheaf_capacity();
    let (n, before) = (100 * capacity, slow_paths(&yard, class));
    for _ in 0..n {
        yard.alloc_fast(448, 16).expect("memory");
    }
    assert!(yard.is_ticking(), "the clock of the machine stands still");
    let slow = slow_paths(&yard, class) - before;
    assert!(slow <= 210, "{slow} slow paths for {n} allocations, {capacity} in a sheaf");
}

/// Frees outnumber allocations, so that main and spare sheaf are nearly full most of the
/// time: that they are exchanged for the room that is left must not cost a slow path for
/// each few frees.
#[test]
fn two_sheaves_that_are_nearly_full_cost_no_more_slow_paths() {
    const STEP: u32 = 64;
    let yard = <Yard<_>>::new(Machine::new(Config::default()));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    let alloc = || yard.alloc_fast(32, 16).expect("memory");
    let free = |object| yard.free_fast(object).expect("a live object");
    let objects: Vec<_> = (0..40_000).map(|_| alloc()).collect();
    let runs: Vec<_> = (0..4).map(|_| yard.alloc(500_000, 16).expect("memory")).collect();
    for run in runs {
        yard.free(run).expect("a live run");
    }
    assert!(yard.is_ticking(), "pages wait to be purged");
    let class = classes::class_for(32).expect("a class");
    let (mut frees, before) = (0, slow_paths(&yard, class));
    for object in objects {
        free(object);
        for _ in 0..3 {
            free(alloc());
        }
        frees += 4;
    }
    assert!(yard.is_ticking(), "the clock of the machine stands still");
    let slow = slow_paths(&yard, class) - before;
    assert!(slow < frees / STEP * 3 / 2, "{slow} slow paths for {frees} frees");
}

#[test]
fn what_was_freed_last_is_allocated_next() {
    let yard: Yard<Machine> = yard_with_ticker();
    let mut last = yard.alloc_fast(448, 16).expect("memory");
    for _ in 0..1000 {
        yard.free_fast(last).expect("a live object");
        let next = yard.alloc_fast(448, 16).expect("memory");
        assert_eq!(next, last);
        last = next;
    }
    assert!(yard.is_ticking(), "the clock of the machine stands still");
}

/// Makes pairs of calls that no full or empty sheaf sends to the slow path, so many in each
/// millisecond, until no dirty free page is left: after how many milliseconds.
fn milliseconds_of_pairs<E: Engine>(pairs: u32) -> u64 {
    let yard: Yard<Machine, E> = yard_with_ticker();
    let begin = yard.platform().now_ms();
    while yard.heap.buddy.dirty_hint() > 0 {
        for _ in 0..pairs {
            let object = yard.alloc_fast(448, 16).expect("memory");
            yard.free_fast(object).expect("a live object");
        }
        yard.platform().advance(1);
        assert!(yard.platform().now_ms() < begin + 5000, "no slow path makes the slices");
    }
    yard.platform().now_ms() - begin
}

each_engine! {
    fn free_pages_are_purged_at_any_rate_of_calls<E>() {
        // In builds with assertions ten thousand take a minute.
        for pairs in [1, 10, 100, if cfg!(debug_assertions) { 1000 } else { 10_000 }] {
            let ms = milliseconds_of_pairs::<E>(pairs);
            assert!(ms <= 1000, "{ms} ms at {pairs} pairs in each");
        }
    }

    fn in_a_slow_program_allocations_make_slices_too<E>() {
        let yard: Yard<Machine, E> = yard_with_ticker();
        let runs: Vec<_> = (0..100).map(|_| yard.alloc(500_000, 16).expect("memory")).collect();
        for run in runs {
            yard.free(run).expect("a live run");
        }
        let given = || yard.platform().tally().give_backs;
        let mut by_allocations = 0;
        while yard.heap.buddy.dirty_hint() > 0 {
            let before = given();
            let object = yard.alloc_fast(448, 16).expect("memory");
            by_allocations += given() - before;
            yard.free_fast(object).expect("a live object");
            yard.platform().advance(1);
        }
        assert!(by_allocations > 10, "{by_allocations} of {} slices", given());
    }

    fn without_allocations_frees_make_the_slices<E>() {
        let yard: Yard<Machine, E> = yard_with_ticker();
        let runs: Vec<_> = (0..2000).map(|_| yard.alloc(40_000, 16).expect("memory")).collect();
        let given = || yard.platform().tally().give_backs;
        yard.platform().advance(1000);
        let before = given();
        for some in runs.chunks(10) {
            yard.platform().advance(2);
            some.iter().for_each(|run| yard.free(*run).expect("a live run"));
        }
        assert!(given() >= before + 20, "{} slices", given() - before);
    }

    fn a_burst_of_frees_purges_while_it_lasts<E>() {
        const BACKLOG_BYTES: usize = 32 << 20;
        let yard: Yard<Machine, E> = each_engine::new_yard(Machine::new(Config::default()));
        assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 250 }));
        let objects: Vec<_> =
            (0..160_000).map(|_| yard.alloc_fast(1000, 16).expect("memory")).collect();
        // A million a second; nothing is old.
        for some in objects.chunks(1000) {
            yard.platform().advance(1);
            for object in some {
                yard.free_fast(*object).expect("a live object");
            }
        }
        let waiting = yard.heap.buddy.dirty_hint() * GRANULE;
        assert!(
            waiting > BACKLOG_BYTES / 2 || gives_back_at_once(&yard),
            "{waiting} bytes wait: the decay time is not for nothing"
        );
        assert!(waiting < BACKLOG_BYTES + BACKLOG_BYTES / 4, "{waiting} bytes wait");
    }

    /// The clock stands still: the backlog is purged all the same.
    fn a_burst_that_takes_no_time_purges_its_backlog<E>() {
        const BACKLOG_BYTES: usize = 32 << 20;
        let yard: Yard<Machine, E> = each_engine::new_yard(Machine::new(Config::default()));
        assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 250 }));
        let objects: Vec<_> =
            (0..160_000).map(|_| yard.alloc_fast(1000, 16).expect("memory")).collect();
        for object in objects {
            yard.free_fast(object).expect("a live object");
        }
        let waiting = yard.heap.buddy.dirty_hint() * GRANULE;
        assert!(waiting > BACKLOG_BYTES / 2 || gives_back_at_once(&yard), "{waiting} bytes wait");
        assert!(waiting < BACKLOG_BYTES + BACKLOG_BYTES / 4, "{waiting} bytes wait");
    }
}

/// With debugging, the pages of a slab go back as it ends.
fn gives_back_at_once<E: Engine>(yard: &Yard<Machine, E>) -> bool {
    let class = classes::class_for(1000).expect("a class");
    yard.cache(class).engine.debug().is_some()
}

pub(crate) fn takes_a_slow_path(yard: &Yard<Machine>, pairs: u32) -> bool {
    let before = yard.platform().thread().depth.load(Ordering::Relaxed);
    for _ in 0..pairs {
        let object = yard.alloc_fast(448, 16).expect("memory");
        yard.free_fast(object).expect("a live object");
    }
    yard.platform().thread().depth.load(Ordering::Relaxed) != before
}

/// A thread holds its sheaf in a slow path, or puts one back, while another one starts the
/// reclaim ticker: the first one's countdown must start all the same.
#[test]
fn a_slow_path_under_way_when_the_ticker_starts_follows_it() {
    let seeds = if cfg!(debug_assertions) { 100 } else { 1000 };
    for seed in 0..seeds {
        let config = Config { seed, cpus: 2, preemption: 300, ..Config::default() };
        let yard = <Yard<_>>::new(Machine::new(config));
        assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
        let run = yard.alloc(500_000, 16).expect("memory");
        // Each CPU has a sheaf with objects and with room, and a countdown at its largest number.
        for cpu in 0..2 {
            yard.platform().set_cpu(cpu);
            let objects: Vec<_> =
                (0..60).map(|_| yard.alloc_fast(448, 16).expect("memory")).collect();
            objects.iter().for_each(|object| yard.free_fast(*object).expect("a live object"));
        }
        let sheaves: Body<'_> = Box::new(|_| {
            // The last slow path of all is one that was under way.
            while !yard.is_ticking() {
                let object = yard.alloc(448, 16).expect("memory");
                yard.free(object).expect("a live object");
            }
        });
        let interval: Body<'_> = Box::new(|machine| {
            (0..seed % 50).for_each(|_| machine.step());
            yard.free(run).expect("a live run");
        });
        yard.platform().run(vec![sheaves, interval]);
        assert!(yard.is_ticking(), "pages wait to be purged");
        for cpu in 0..2 {
            yard.platform().set_cpu(cpu);
            assert!(
                takes_a_slow_path(&yard, 600),
                "CPU {cpu} does not follow the ticker, seed {seed}"
            );
        }
    }
}

#[test]
fn inlined_pops_are_slow_while_each_call_must_be() {
    let yard: &'static Yard<Machine> =
        Box::leak(Box::new(Yard::new(Machine::new(Config::default()))));
    assert!(yard.init(Settings { reserve_bytes: 64 << 20, decay_ms: 250 }));
    let create = |name: &str| {
        let id = yard.create_cache(name, &CacheSettings::of(64)).expect("a cache");
        (id, yard.fast_path(id, id.slot()))
    };
    let (id, words) = create("before");
    let object = yard.alloc_from(id).expect("memory");
    yard.free(object).expect("a live object");
    assert_eq!(words.slot_of_pop(), id.slot());
    set_interval(yard, EVERY_CALL);
    let (other, late) = create("meanwhile");
    assert_eq!([words.slot_of_pop(), late.slot_of_pop()], [Slot(0); 2]);
    assert_eq!(yard.platform().pop_inlined(&words), None);
    assert_eq!(words.slot(), id.slot(), "a push looks at the countdown");
    set_interval(yard, LONGEST_INTERVAL);
    assert_eq!([words.slot_of_pop(), late.slot_of_pop()], [id.slot(), other.slot()]);
    assert!(yard.platform().pop_inlined(&words).is_some());
}
