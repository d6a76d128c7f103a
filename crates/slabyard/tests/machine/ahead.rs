//! Memory that slabs take for the first time is faulted in ahead, of a heap that grows.

use slabyard::pages::ahead::MOST;
use slabyard::pages::runs;
use slabyard::platform::GRANULE;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

const OBJECT: usize = 2048;

fn yard(config: Config) -> Box<Yard<Machine>> {
    let yard: Box<Yard<Machine>> = Box::new(Yard::new(Machine::new(config)));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    yard
}

fn fill(yard: &Yard<Machine>, bytes: usize) -> Vec<usize> {
    (0..bytes / OBJECT).map(|_| yard.alloc_fast(OBJECT, 16).expect("memory")).collect()
}

/// Bytes of the yard that were faulted in by calls for several pages.
fn ahead(yard: &Yard<Machine>) -> usize {
    yard.platform().tally().touched_bytes as usize
}

#[test]
fn a_heap_that_grows_is_faulted_in_by_calls_for_many_pages() {
    let yard = yard(Config::default());
    fill(&yard, 8 << 20);
    let (before, calls) = (ahead(&yard), yard.platform().tally().touches);
    fill(&yard, 16 << 20);
    let calls = (yard.platform().tally().touches - calls) as usize;
    let bytes = ahead(&yard) - before;
    assert!((15 << 20..18 << 20).contains(&bytes), "{bytes} bytes of 16 MiB");
    assert!(bytes / calls >= MOST * GRANULE * 9 / 10, "{bytes} bytes in {calls} calls");
    yard.verify().expect("no slow path").expect("sound");
}

#[test]
fn what_is_faulted_in_and_not_used_is_small_beside_the_heap_and_goes_back() {
    let yard = yard(Config::default());
    let mut objects = Vec::new();
    for mib in 1..24 {
        objects.extend(fill(&yard, 1 << 20));
        let dirty = runs::free_count(&yard.heap).dirty;
        assert!(dirty * GRANULE <= mib << 15, "{dirty} granules of {mib} MiB");
    }
    objects.into_iter().for_each(|object| assert_eq!(yard.free_fast(object), Ok(())));
    yard.trim();
    assert_eq!(runs::free_count(&yard.heap).dirty, 0);
    fill(&yard, 1 << 20);
    let parked = yard.quiesce(|it| it.parked_runs().granules).expect("no slow path");
    assert!(parked <= MOST, "{parked} granules are parked");
}

/// What is dirty serves first.
#[test]
fn memory_that_was_used_is_not_faulted_in_again() {
    let yard = yard(Config::default());
    let objects = fill(&yard, 16 << 20);
    let before = ahead(&yard);
    for object in objects {
        assert_eq!(yard.free_fast(object), Ok(()));
    }
    fill(&yard, 12 << 20);
    let again = ahead(&yard) - before;
    assert!(again <= 1 << 20, "{again} bytes");
    yard.verify().expect("no slow path").expect("sound");
}

/// What is left over goes back once.
#[test]
fn a_heap_that_does_not_grow_takes_no_run_again_and_again() {
    let yard = yard(Config { cpus: 1, can_stop: false, ..Config::default() });
    fill(&yard, 16 << 20);
    let before = ahead(&yard);
    for _ in 0..100 {
        let objects = fill(&yard, 16 << 10);
        objects.into_iter().for_each(|object| assert_eq!(yard.free_fast(object), Ok(())));
        yard.trim();
    }
    let again = ahead(&yard) - before;
    assert!(again <= 1 << 20, "{again} bytes");
}

#[test]
fn a_small_heap_is_faulted_in_page_by_page() {
    let yard = yard(Config::default());
    fill(&yard, 256 << 10);
    assert!(ahead(&yard) <= 64 << 10, "descriptors alone");
}
