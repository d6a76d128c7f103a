//! Rows become used while others look at those in use: no drain and no kick misses one that it must
//! find. A kick is an end of all countdowns; the machine has every schedule but no weak ordering,
//! for which `slabyard_platform::stack::begin_use` argues.

use crate::ticker::takes_a_slow_path;
use slabyard::cache::classes::class_for;
use slabyard::platform::{Park, PerCpu, stop};
use slabyard::sync::{AtomicU32, Ordering};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Body, Broken, Config, Machine};
use std::panic::{AssertUnwindSafe, catch_unwind};

const CPUS: usize = 24;
/// A class that one thread alone uses, and another one's.
const FIRST: usize = 448;
const OTHER: usize = 192;

fn seeds() -> u64 {
    if cfg!(debug_assertions) { 200 } else { 600 }
}

fn yard(seed: u64, broken: Broken) -> Yard<Machine> {
    let config = Config { seed, cpus: CPUS, preemption: 300, broken, ..Config::default() };
    let yard = Yard::new(Machine::new(config));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    yard
}

/// Objects that live at once, more than a sheaf has, are freed.
fn use_some(yard: &Yard<Machine>, size: usize) {
    let objects: Vec<_> = (0..20).map(|_| yard.alloc_fast(size, 16).expect("memory")).collect();
    objects.into_iter().for_each(|object| yard.free_fast(object).expect("a live object"));
}

/// A thread has freed all its objects on some CPUs; others begin to use rows while one trims: none of
/// the first one's objects may stay in a stack.
fn trim_while_rows_begin(seed: u64, broken: Broken) {
    let yard = yard(seed, broken);
    let is_done = AtomicU32::new(0);
    let first: Body<'_> = Box::new(|_| {
        use_some(&yard, FIRST);
        is_done.store(1, Ordering::Release);
    });
    let others = (0..2).map(|_| -> Body<'_> { Box::new(|_| use_some(&yard, OTHER)) });
    let trim: Body<'_> = Box::new(|machine| {
        while is_done.load(Ordering::Acquire) == 0 {
            machine.step();
        }
        yard.trim();
        let class = class_for(FIRST).expect("a class");
        assert_eq!(yard.cache(class).out(), 0, "objects stay in stacks, seed {seed}");
    });
    yard.platform().run([first, trim].into_iter().chain(others).collect());
    yard.trim();
    assert!(yard.verify().expect("no slow path").is_ok());
    let rows = yard.platform().rows();
    assert_eq!(rows.nr_used(), rows.used().count(), "seed {seed}");
    let out = |size| yard.cache(class_for(size).expect("a class")).out();
    assert_eq!((out(FIRST), out(OTHER)), (0, 0), "objects stay in stacks, seed {seed}");
}

#[test]
fn a_drain_misses_no_row() {
    (0..seeds()).for_each(|seed| trim_while_rows_begin(seed, Broken::None));
}

#[test]
fn an_exchange_on_a_row_that_is_not_in_use_is_found() {
    let is_found = |seed| {
        let run = || trim_while_rows_begin(seed, Broken::ExchangeOnAnotherRow);
        catch_unwind(AssertUnwindSafe(run)).is_err()
    };
    // One seed in twenty finds it.
    assert!((0..seeds()).any(is_found), "the planted bug was not found");
}

/// Rows in use between them are left alone: there may be a quarter of a large machine's.
#[test]
fn stops_fence_the_cpus_of_their_rows_alone() {
    let yard = yard(1, Broken::None);
    let machine = yard.platform();
    for cpu in 0..CPUS {
        machine.set_cpu(cpu);
        use_some(&yard, FIRST);
    }
    let shape = yard.cache(class_for(FIRST).expect("a class")).shape();
    let (main, spare) = (shape.main(), shape.spare());
    let mut stops = [(0, main, 0), (0, spare, 0), (CPUS - 1, main, 0)];
    let before = machine.tally().fenced_cpus;
    assert!(stop(machine, &mut stops, &|_, _, _| ()));
    assert_eq!(machine.tally().fenced_cpus - before, 2);
    for (row, slot, top) in stops {
        machine.rows().entry(row, slot).start(top);
    }
}

/// Threads are in slow paths on rows that nobody has used while the ticker starts. Each CPU's countdown
/// is at its largest number, as a slow path without an exchange leaves it.
#[test]
fn a_row_that_begins_while_the_ticker_starts_follows_it() {
    let mut begun = 0;
    for seed in 0..seeds() {
        let yard = yard(seed, Broken::None);
        let run = yard.alloc(500_000, 16).expect("memory");
        let rows = yard.platform().rows();
        for cpu in 0..CPUS {
            yard.platform().set_cpu(cpu);
            rows.countdown(cpu).store(i32::MAX as u32, Ordering::Relaxed);
        }
        let before = rows.nr_used();
        let sheaves = || -> Body<'_> {
            Box::new(|_| {
                while !yard.is_ticking() {
                    let object = yard.alloc(FIRST, 16).expect("memory");
                    yard.free(object).expect("a live object");
                }
            })
        };
        let ticker: Body<'_> = Box::new(|machine| {
            (0..seed % 80).for_each(|_| machine.step());
            yard.free(run).expect("a live run");
        });
        yard.platform().run(vec![sheaves(), sheaves(), ticker]);
        assert!(yard.is_ticking(), "pages wait to be purged");
        begun += rows.nr_used() - before;
        for row in rows.used().collect::<Vec<_>>() {
            yard.platform().set_cpu(row);
            assert!(takes_a_slow_path(&yard, 600), "row {row} does not follow, seed {seed}");
        }
    }
    assert!(begun > 0, "rows began to be used meanwhile");
}
