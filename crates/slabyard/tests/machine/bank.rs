//! The banks of a CPU: freed runs stay whole for the next requests of their size, within bounds.

use slabyard::calls::resize;
use slabyard::pages::bank::{CPU_BYTES, bank_of};
use slabyard::pages::runs;
use slabyard::platform::{GRANULE, PerCpu, Takes, Threads};
use slabyard::sync::Ordering;
use slabyard::yard::{AddressKind, Settings, Yard};
use slabyard_abi::region::row;
use slabyard_testkit::machine::{Config, Machine};

fn yard() -> Box<Yard<Machine>> {
    let yard: Box<Yard<Machine>> = Box::new(Yard::new(Machine::new(Config::default())));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    yard
}

/// Each slow path adds to it.
fn slow_paths(yard: &Yard<Machine>) -> u32 {
    yard.platform().thread().depth.load(Ordering::Relaxed)
}

fn alloc(yard: &Yard<Machine>, bytes: usize) -> usize {
    yard.alloc(bytes, 16).expect("memory")
}

#[test]
fn a_cpu_that_uses_all_sizes_keeps_what_all_banks_may_have_together() {
    let yard = yard();
    let sizes = (9..=128).map(|granules| granules * GRANULE);
    let runs: Vec<_> = sizes.rev().map(|bytes| alloc(&yard, bytes)).collect();
    runs.iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
    let parked = yard.quiesce(|quiesced| quiesced.parked_runs()).expect("no slow path");
    let banked = parked.banked_granules * GRANULE;
    assert!((CPU_BYTES / 4..=CPU_BYTES).contains(&banked), "{banked} bytes");
    yard.verify().expect("no slow path").expect("sound");
}

#[test]
fn a_freed_run_serves_the_next_request_of_its_size_without_a_slow_path() {
    let yard = yard();
    for bytes in [40_000, 100_000, 200_000, 500_000] {
        let run = alloc(&yard, bytes);
        assert_eq!(yard.free(run), Ok(()));
        let paths = slow_paths(&yard);
        for _ in 0..100 {
            assert_eq!(yard.alloc(bytes, 16), Some(run));
            assert_eq!(yard.free(run), Ok(()));
        }
        assert_eq!(slow_paths(&yard), paths);
        assert_eq!(yard.free(run), Err(AddressKind::Free), "freed twice");
        assert_eq!(yard.verify().expect("no slow path").expect("sound").runs, 0);
        yard.trim();
    }
}

#[test]
fn a_bank_holds_few_runs_and_a_trim_empties_it() {
    let yard = yard();
    let parked = || yard.quiesce(|quiesced| quiesced.parked_runs()).expect("no slow path");
    for (bytes, most) in [(500_000, 2), (200_000, 4), (40_000, row::MOST_BANKED)] {
        let runs = [(); 30].map(|()| alloc(&yard, bytes));
        runs.iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
        assert_eq!(parked().banked, most);
        let (runs, granules) = yard.heap.buddy.runs();
        assert_eq!((runs, granules), (most, parked().banked_granules));
        yard.trim();
        assert_eq!((parked().banked, yard.heap.buddy.runs()), (0, (0, 0)));
        assert_eq!(runs::free_count(&yard.heap).dirty, 0);
        yard.verify().expect("no slow path").expect("sound");
    }
}

/// The ticker runs as long as a bank has runs, however long they were in use.
#[test]
fn what_an_idle_bank_has_goes_back_to_the_system() {
    let yard = yard();
    let p = yard.platform();
    let runs = [40_000, 200_000].map(|bytes| alloc(&yard, bytes));
    runs.iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
    let object = yard.alloc_fast(64, 16).expect("memory");
    let mut object = Some(object);
    for ms in 0..4000 {
        p.advance(1);
        if ms < 2000 {
            let run = alloc(&yard, 40_000);
            assert_eq!(yard.free_fast(run), Ok(()));
        }
        for _ in 0..20 {
            assert_eq!(object.take().map(|object| yard.free_fast(object)), Some(Ok(())));
            object = yard.alloc_fast(64, 16);
        }
        assert!(ms >= 2000 || yard.is_ticking());
    }
    let parked = yard.quiesce(|quiesced| quiesced.parked_runs()).expect("no slow path");
    assert_eq!((parked.banked, runs::free_count(&yard.heap).dirty / 64), (0, 0));
    assert!(!yard.is_ticking(), "nothing is left to do");
}

/// A request that the system refuses gets what banks have.
#[test]
fn a_refused_request_takes_what_banks_have() {
    let yard: Box<Yard<Machine>> = Box::new(Yard::new(Machine::new(Config::default())));
    assert!(yard.init(Settings { reserve_bytes: 16 << 20, decay_ms: 250 }));
    let mut runs: Vec<_> = std::iter::from_fn(|| yard.heap.alloc_run(64 << 10, 16)).collect();
    runs.sort_unstable();
    runs[..8].iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
    assert!(yard.heap.alloc_run(100_000, 16).is_none());
    let run = yard.alloc(100_000, 16).expect("what the bank had");
    assert!((runs[0]..runs[8]).contains(&run));
}

/// Of another size, or aligned otherwise, it stays where it is; all of it may hold other than
/// zeros.
#[test]
fn a_banked_run_serves_no_other_request_and_is_dirty() {
    let yard = yard();
    let run = alloc(&yard, 100_000);
    assert_eq!(yard.free(run), Ok(()));
    for (bytes, align) in [(110_000, 16), (80_000, 16), (100_000, 1 << 20)] {
        let other = yard.alloc(bytes, align).expect("memory");
        assert!(other != run && other.is_multiple_of(align));
    }
    assert_eq!(yard.alloc(100_000, 16), Some(run));
    let mut dirty = 0;
    resize::each_dirty_part(&yard.heap, run, 100_000, |_, bytes| dirty += bytes);
    assert_eq!(dirty, 100_000);
}

#[test]
fn a_bank_that_is_full_of_other_sizes_takes_a_new_one() {
    let yard = yard();
    let sizes = [36_864, 49_152];
    for bytes in sizes {
        let runs = [(); 30].map(|()| alloc(&yard, bytes));
        runs.iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
    }
    let run = alloc(&yard, sizes[1]);
    assert_eq!(yard.free(run), Ok(()));
    assert_eq!(yard.alloc(sizes[1], 16), Some(run));
    let paths = slow_paths(&yard);
    assert_eq!(yard.free(run), Ok(()));
    assert_eq!(yard.alloc(sizes[1], 16), Some(run));
    assert_eq!(slow_paths(&yard), paths);
    yard.verify().expect("no slow path").expect("sound");
}

/// Pages that it takes when it grows may be clean.
#[test]
fn a_banked_run_that_grows_in_place_is_not_known_to_be_dirty() {
    let yard = yard();
    let run = alloc(&yard, 40_000);
    for _ in 0..2 {
        assert_eq!(yard.free(run), Ok(()));
        assert_eq!(yard.alloc(40_000, 16), Some(run));
    }
    assert!(yard.heap.grow_run(run, 80_000).is_some_and(|clean| clean > 0));
    yard.verify().expect("no slow path").expect("sound");
    assert_eq!(yard.free(run), Ok(()));
    yard.verify().expect("no slow path").expect("sound");
}

#[test]
fn a_run_that_is_in_a_bank_twice_is_found() {
    let yard = yard();
    let runs = [(); 2].map(|()| alloc(&yard, 40_000));
    runs.iter().for_each(|run| assert_eq!(yard.free(*run), Ok(())));
    let slot = bank_of(10).expect("a bank");
    assert!(yard.platform().push(slot, runs[0], Takes::Each));
    let found = yard.verify().expect("no slow path");
    assert_eq!(found.expect_err("a fault").what, "runs in banks");
}
