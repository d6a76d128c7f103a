//! SLAB's policies of free slabs in a yard on the modelled machine: which slabs stay, which the
//! clock ends, and which thread may turn it.

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::engine::ArrayCaches;
use slabyard::engine::array_cache::clock::Reaped;
use slabyard::engine::array_cache::{Choice, Limits, Reclaim};
use slabyard::reap::{self, Turn};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

type Slab = Yard<Machine, ArrayCaches>;

/// Objects of a page each, in slabs of one.
const OBJECT: u32 = 4096;
const CPUS: u32 = 2;

fn yard(reclaim: Reclaim, has_arrays: bool) -> (Slab, CacheId) {
    let yard = Slab::new(Machine::new(Config { cpus: CPUS as usize, ..Config::default() }));
    let choice = Choice { reclaim, has_arrays };
    yard.caches().classes().iter().for_each(|cache| cache.engine.follow(choice));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 1000 }));
    let settings = CacheSettings { align: OBJECT, ..CacheSettings::of(OBJECT) };
    let id = yard.create_cache("size-4096", &settings).expect("a cache");
    assert_eq!(
        yard.cache(id.number()).engine.first().choice(),
        choice,
        "a created one follows, too"
    );
    assert_eq!(yard.cache(id.number()).shape().geometry.objects, 1);
    (yard, id)
}

/// Free slabs after so many objects were live at a time, in a sound yard.
fn free_after(yard: &Slab, id: CacheId, objects: u32) -> u32 {
    let held: Vec<usize> = (0..objects).map(|_| yard.alloc_from(id).expect("memory")).collect();
    held.into_iter().for_each(|object| yard.free_to(id, object).expect("an object of it"));
    yard.verify().expect("no slow path").expect("a sound yard");
    nr_free(yard, id)
}

fn nr_free(yard: &Slab, id: CacheId) -> u32 {
    yard.cache(id.number()).engine.first().nr_free()
}

#[test]
fn slabs_that_become_free_stay_by_the_policy() {
    for (reclaim, expected) in [
        (Reclaim::V2_4, [1, 100]),
        (Reclaim::V2_5_39, [1, 1]),
        // Batches are of 12 objects: (1 + 2 CPUs) x 12 and those of a slab.
        (Reclaim::V2_5_45, [1, 3 * 12 + 1]),
        (Reclaim::Today, [1, 3 * 12 + 1]),
    ] {
        let found = [1, 100].map(|objects| {
            let (yard, id) = yard(reclaim, false);
            free_after(&yard, id, objects)
        });
        assert_eq!(found, expected, "{reclaim:?}");
    }
}

#[test]
fn arrays_take_the_burst_first() {
    for (reclaim, limit) in [(Reclaim::V2_4, 60), (Reclaim::V2_5_39, 60), (Reclaim::V2_5_45, 24)] {
        let (yard, id) = yard(reclaim, true);
        let limits = Limits::of_cache(yard.cache(id.number()));
        assert_eq!((limits.limit, limits.batchcount, limits.sharedfactor), (limit, limit / 2, 0));
        assert_eq!(free_after(&yard, id, 4), 0, "{reclaim:?}: all in the array");
    }
}

/// The clock's hand passes over malloc's classes as well.
fn reap(yard: &Slab, turn: Turn) -> Reaped {
    let turns = (0..7).map(|_| reap::reap(yard, turn).expect("array caches").reaped);
    turns.fold(Reaped::default(), |all, one| Reaped {
        scanned: all.scanned + one.scanned,
        slabs: all.slabs + one.slabs,
        pages: all.pages + one.pages,
    })
}

#[test]
fn the_clock_ends_the_half_and_passes_over_what_grew() {
    let (yard, id) = yard(Reclaim::V2_4, false);
    assert_eq!(free_after(&yard, id, 101), 101);
    let cache = yard.cache(id.number());
    assert_eq!(reap(&yard, Turn::Wait).slabs, 0, "it grew");
    cache.engine.first().set_no_reap(true);
    assert_eq!(reap(&yard, Turn::Wait).slabs, 0, "it must not be reaped");
    cache.engine.first().set_no_reap(false);
    let reaped = reap(&yard, Turn::Wait);
    assert_eq!((reaped.slabs, reaped.pages, nr_free(&yard, id)), (51, 51, 50));
    assert_eq!(reap(&yard, Turn::Beside).slabs, 25);
    yard.verify().expect("no slow path").expect("a sound yard");
}

#[test]
fn the_clock_drains_the_arrays_of_this_cpu_or_of_all() {
    for (turn, slabs) in [(Turn::Wait, 0), (Turn::WaitAndStop, 20)] {
        let (yard, id) = yard(Reclaim::V2_4, true);
        yard.platform().set_cpu(1);
        assert_eq!(free_after(&yard, id, 40), 0);
        let parked = yard.cache(id.number()).nr_slabs();
        yard.platform().set_cpu(0);
        reap(&yard, turn);
        let reaped = reap(&yard, turn);
        assert_eq!(reaped.slabs > 0, slabs > 0, "{turn:?}: {reaped:?} of {parked} slabs");
        yard.verify().expect("no slow path").expect("a sound yard");
    }
}

/// The planted bug: slabs that another policy left.
#[test]
fn more_than_one_free_slab_is_found_where_one_may_stay() {
    let (yard, id) = yard(Reclaim::V2_4, false);
    assert_eq!(free_after(&yard, id, 2), 2);
    let choice = Choice { reclaim: Reclaim::V2_5_39, has_arrays: false };
    yard.cache(id.number()).engine.follow(choice);
    assert!(yard.verify().expect("no slow path").is_err());
}

/// Passes reap by the clock where the policy has one, and end nothing where it has none.
#[test]
fn a_pass_is_what_wants_memory() {
    for (reclaim, ends) in [(Reclaim::V2_4, true), (Reclaim::V2_5_39, false)] {
        let (yard, id) = yard(reclaim, false);
        let kept = free_after(&yard, id, 400);
        for _ in 0..4000 {
            yard.platform().advance(5);
            // Slow paths about another cache.
            let other = yard.alloc(64, 16).expect("memory");
            yard.free(other).expect("an object");
        }
        assert_eq!(nr_free(&yard, id) < kept, ends, "{reclaim:?}: {kept} slabs before");
    }
}
