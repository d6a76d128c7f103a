//! Bulk calls, prefilled sheaves, and walks over live objects.

use super::{begun, sound, yard_on};
use slabyard::cache::{CacheFlags, CacheId, CacheSettings};
use slabyard::created::{NotCreated, NotDestroyed};
use slabyard::engine::cpu_slabs::Rules;
use slabyard::engine::{Any, Engine, EngineKind};
use slabyard::live::{self, Walked};
use slabyard::observe::count;
use slabyard::slab::ObjectFn;
use slabyard::yard::{AddressKind, Yard};
use slabyard_abi::engines::EngineName;
use slabyard_kernels::Release;
use slabyard_testkit::machine::{Config, Machine};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of objects around a sheaf's, a piece's and a slab's.
const COUNTS: [usize; 9] = [0, 1, 31, 32, 64, 65, 500, 1022, 3000];

fn made<E: Engine>(yard: &Yard<Machine, E>, settings: &CacheSettings) -> CacheId {
    yard.create_cache("bulk", settings).expect("a cache")
}

fn live<E: Engine>(yard: &Yard<Machine, E>, id: CacheId) -> BTreeSet<usize> {
    let mut live = BTreeSet::new();
    let walked =
        live::each_live(yard, id, |object| assert!(live.insert(object), "{object:#x} twice"));
    assert_eq!(walked, Some(Walked::Exact));
    live
}

fn of_each_engine(f: impl Fn(&Yard<Machine, Any>)) {
    for can_stop in [true, false] {
        for name in EngineName::ALL.iter().copied() {
            let config = Config { can_stop, ..Config::default() };
            let yard: Yard<Machine, Any> = Yard::new(Machine::new(config));
            yard.choose(name);
            f(&begun(yard));
        }
    }
    for release in Release::with_cpu_slabs() {
        let yard: Yard<Machine, Any> = Yard::new(Machine::new(Config::default()));
        yard.choose_cpu_slabs(&Rules::of_kind(release.freezing, release.accounting, true));
        f(&begun(yard));
    }
}

#[test]
fn a_bulk_gives_distinct_objects_and_takes_them_back() {
    of_each_engine(|yard| {
        for bytes in [8, 24, 256, 4000] {
            let id = made(yard, &CacheSettings::of(bytes));
            for count in COUNTS {
                let mut objects = vec![0; count];
                assert!(yard.alloc_bulk_from(id, &mut objects));
                let set: BTreeSet<usize> = objects.iter().copied().collect();
                assert_eq!(set.len(), count);
                assert!(set.iter().all(|at| live::cache_of(yard, *at) == Some(id)));
                assert_eq!(sound(yard).live, count as u64);
                assert_eq!(live(yard, id), set);
                let (some, others) = objects.split_at(count / 3);
                assert_eq!(yard.free_bulk_to(id, some), Ok(()));
                assert_eq!(live(yard, id), others.iter().copied().collect());
                assert_eq!(yard.free_bulk_to(id, others), Ok(()));
                assert_eq!(sound(yard).live, 0);
            }
            // SAFETY: no other thread runs.
            assert_eq!(unsafe { yard.destroy_cache(id) }, Ok(()));
        }
    });
}

#[test]
fn a_bulk_is_of_the_order_of_single_calls() {
    let yard = yard_on(Config::default());
    let id = made(&yard, &CacheSettings::of(64));
    let mut first = [0; 20];
    assert!(yard.alloc_bulk_from(id, &mut first));
    assert_eq!(yard.free_bulk_to(id, &first), Ok(()));
    let again = [0; 20].map(|_: i32| yard.alloc_from(id).expect("memory"));
    first.reverse();
    assert_eq!(again, first, "what was freed last is handed out first");
}

#[test]
fn what_is_no_object_of_the_cache_ends_a_bulk_free() {
    let yard = yard_on(Config::default());
    let (id, other) = (made(&yard, &CacheSettings::of(64)), made(&yard, &CacheSettings::of(64)));
    let foreign = yard.alloc_from(other).expect("memory");
    let mut objects = [0; 6];
    assert!(yard.alloc_bulk_from(id, &mut objects));
    let place = AddressKind::Object { class: other.number(), bytes: 64, begin: true };
    for (bad, place) in [
        (foreign, place),
        (0, AddressKind::Foreign),
        // As near to 0 as objects of a slab are to each other, at the begin of a bulk too.
        (8, AddressKind::Foreign),
        (objects[5] + 8, AddressKind::Object { class: id.number(), bytes: 64, begin: false }),
    ] {
        let mut freed = objects;
        freed[3] = bad;
        assert_eq!(yard.free_bulk_to(id, &freed), Err((3, place)));
        assert_eq!(live(&yard, id), objects[3..].iter().copied().collect());
        assert!(yard.alloc_bulk_from(id, &mut freed[..3]));
        objects[..3].copy_from_slice(&freed[..3]);
    }
    for bad in [0, 8, 64, usize::MAX - 63] {
        assert_eq!(yard.free_bulk_to(id, &[bad]), Err((0, AddressKind::Foreign)));
    }
    assert_eq!(live::cache_of(&yard, foreign + 40), Some(other));
    assert_eq!(live::cache_of(&yard, 0), None);
    assert_eq!(yard.free_bulk_to(id, &objects), Ok(()));
    assert_eq!(yard.free_to(other, foreign), Ok(()));
    assert_eq!(sound(&yard).live, 0);
}

#[test]
fn an_object_twice_in_a_row_in_a_bulk_is_freed_once() {
    let yard = yard_on(Config::default());
    let id = made(&yard, &CacheSettings::of(64));
    let mut objects = [0; 3];
    assert!(yard.alloc_bulk_from(id, &mut objects));
    let [a, b, c] = objects;
    assert_eq!(yard.free_bulk_to(id, &[a, b, b, c]), Ok(()));
    assert_eq!(count::set_aside(&yard.heap), 1);
    assert_eq!(sound(&yard).live, 0);
}

#[test]
fn a_bulk_gets_all_or_nothing() {
    let yard = yard_on(Config { memory_bytes: 40 << 20, ..Config::default() });
    let id = made(&yard, &CacheSettings::of(4096));
    let mut objects = vec![0; 20_000];
    assert!(!yard.alloc_bulk_from(id, &mut objects));
    assert_eq!(sound(&yard).live, 0);
    assert!(yard.alloc_bulk_from(id, &mut objects[..1000]));
    assert_eq!(yard.free_bulk_to(id, &objects[..1000]), Ok(()));
    for n in 0..40 {
        let yard = yard_on(Config::default());
        let id = made(&yard, &CacheSettings::of(700));
        yard.platform().refuse(Some(n));
        let mut objects = vec![0; 2000];
        let got = yard.alloc_bulk_from(id, &mut objects);
        assert_eq!(live(&yard, id).len(), if got { 2000 } else { 0 });
    }
}

#[test]
fn a_prefilled_sheaf_needs_no_memory() {
    for count in COUNTS {
        for n in 0..30 {
            let yard = yard_on(Config::default());
            let id = made(&yard, &CacheSettings::of(1000));
            // A page that is refused while the sheaf is filled: the drain that follows helps, or
            // there is no sheaf, and then none of its objects.
            yard.platform().refuse(Some(n));
            let Some(mut prefilled) = yard.prefill(id, count) else {
                assert_eq!(sound(&yard).live, 0);
                continue;
            };
            yard.platform().refuse(None);
            assert_eq!((prefilled.len(), prefilled.id()), (count, id));
            assert_eq!(live(&yard, id).len(), count, "they count as live");
            let requests = yard.platform().requests();
            // The next page is refused, and as no other is asked for, each.
            yard.platform().refuse(Some(0));
            let taken: BTreeSet<usize> = (0..count)
                .map(|_| yard.alloc_prefilled(&mut prefilled).expect("never null"))
                .collect();
            assert_eq!(taken.len(), count);
            assert_eq!(yard.alloc_prefilled(&mut prefilled), None);
            assert_eq!(yard.platform().requests(), requests);
            yard.platform().refuse(None);
            assert_eq!(live(&yard, id), taken);
            assert!(yard.refill(&mut prefilled, count / 2));
            assert!(yard.refill(&mut prefilled, count / 4), "it has more than that");
            assert_eq!(prefilled.len(), count / 2);
            yard.return_prefilled(prefilled);
            assert_eq!(live(&yard, id), taken);
            let taken: Vec<usize> = taken.into_iter().collect();
            assert_eq!(yard.free_bulk_to(id, &taken), Ok(()));
            assert_eq!(sound(&yard).live, 0);
            // SAFETY: no other thread runs.
            assert_eq!(unsafe { yard.destroy_cache(id) }, Ok(()));
        }
    }
}

#[test]
fn a_sheaf_that_cannot_be_filled_takes_nothing() {
    let yard = yard_on(Config { memory_bytes: 40 << 20, ..Config::default() });
    let id = made(&yard, &CacheSettings::of(4096));
    assert!(yard.prefill(id, 20_000).is_none());
    assert_eq!(sound(&yard).live, 0);
    let mut prefilled = yard.prefill(id, 100).expect("memory");
    assert!(!yard.refill(&mut prefilled, 20_000));
    assert!(prefilled.len() >= 100);
    let remain = NotDestroyed::Live(prefilled.len() as u64);
    // SAFETY: no other thread runs.
    assert_eq!(unsafe { yard.destroy_cache(id) }, Err(remain));
    yard.return_prefilled(prefilled);
    assert_eq!(sound(&yard).live, 0);
}

#[test]
fn settings_are_what_a_cache_has() {
    let yard = yard_on(Config::default());
    let settings = CacheSettings {
        flags: CacheFlags::HWCACHE_ALIGN.with(CacheFlags::RECLAIM_ACCOUNT),
        sheaf_capacity: Some(12),
        min_partial: Some(3),
        orders: (4, 5),
        ..CacheSettings::of(24)
    };
    let id = made(&yard, &settings);
    let shape = *yard.cache(id.number()).shape();
    assert_eq!((shape.geometry.size, shape.geometry.order), (32, 4));
    assert!(shape.flags.has(CacheFlags::RECLAIM_ACCOUNT));
    assert!(!shape.flags.has(CacheFlags::TYPESAFE_BY_RCU));
    let cache = yard.cache(id.number());
    assert_eq!((cache.sheaf_capacity(), cache.min_partial()), (12, 3));
    let mut objects = vec![0; 3000];
    assert!(yard.alloc_bulk_from(id, &mut objects));
    assert_eq!(yard.free_bulk_to(id, &objects), Ok(()));
    assert!(sound(&yard).parked <= 12 * 2 + 12 * 2 * 2);
    let flags = CacheFlags::HWCACHE_ALIGN;
    let lines = |bytes| CacheSettings { flags, ..CacheSettings::of(bytes) };
    for (bytes, size) in [(0, 8), (1, 8), (9, 16), (17, 32), (33, 64), (65, 128), (200, 256)] {
        assert_eq!(lines(bytes).geometry(0).map(|g| g.size), Some(size), "{bytes} bytes");
    }
    let fails = |settings| yard.create_cache("none", &settings).expect_err("no cache");
    let of_orders = |object, orders| CacheSettings { orders, ..CacheSettings::of(object) };
    assert_eq!(fails(of_orders(20_000, (0, 2))), NotCreated::Settings);
    assert_eq!(fails(of_orders(8, (3, 2))), NotCreated::Settings);
    assert_eq!(fails(of_orders(8, (0, 7))), NotCreated::Settings);
    let wide = CacheSettings { sheaf_capacity: Some(1023), ..CacheSettings::of(8) };
    assert_eq!(fails(wide), NotCreated::SheafCapacity);
    let other = CacheSettings { engine: Some(EngineName::Slab), ..CacheSettings::of(8) };
    assert_eq!(fails(other), NotCreated::Engine);
    assert_eq!(CacheFlags::of(CacheFlags::NO_MERGE.bits()), Some(CacheFlags::NO_MERGE));
    assert_eq!(CacheFlags::of(1 << 30), None);
}

#[test]
fn slabs_of_any_orders_serve() {
    for (nth, page_bytes) in [4 << 10, 16 << 10, 64 << 10].into_iter().enumerate() {
        for (least, most) in (0..=6).flat_map(|most| (0..=most).map(move |least| (least, most))) {
            // With assertions each pair of orders is on one page size.
            if cfg!(debug_assertions) && (least + most) as usize % 3 != nth {
                continue;
            }
            for bytes in [1, 8, 16, 100, 3000] {
                let yard = yard_on(Config { page_bytes, ..Config::default() });
                let orders = (least, most);
                let id = made(&yard, &CacheSettings { orders, ..CacheSettings::of(bytes) });
                let page_order = (page_bytes / 4096).ilog2();
                let order = yard.cache(id.number()).shape().geometry.order;
                assert!((least.max(page_order)..=most.max(page_order)).contains(&order));
                let mut objects = vec![0; 1500];
                assert!(yard.alloc_bulk_from(id, &mut objects));
                assert_eq!(objects.iter().collect::<BTreeSet<_>>().len(), 1500);
                assert_eq!(sound(&yard).live, 1500);
                assert_eq!(yard.free_bulk_to(id, &objects), Ok(()));
                assert_eq!(sound(&yard).live, 0);
            }
        }
    }
}

#[test]
fn caches_of_one_yard_may_have_several_engines() {
    let yard = begun(Yard::<Machine, Any>::new(Machine::new(Config::default())));
    let with = |name: &EngineName| {
        let id = made(&yard, &CacheSettings { engine: Some(*name), ..CacheSettings::of(100) });
        assert_eq!(yard.cache(id.number()).engine.facts().name, *name);
        id
    };
    let ids: Vec<CacheId> = EngineName::ALL.iter().map(with).collect();
    let mut objects = vec![Vec::new(); ids.len()];
    for (id, objects) in ids.iter().zip(&mut objects) {
        objects.resize(700, 0);
        assert!(yard.alloc_bulk_from(*id, objects));
        assert!(objects.iter().all(|at| live::cache_of(&yard, *at) == Some(*id)));
    }
    let malloced = yard.alloc_fast(100, 16).expect("memory");
    assert_eq!(sound(&yard).live, 700 * ids.len() as u64 + 1);
    for (id, objects) in ids.iter().zip(&objects) {
        assert_eq!(live(&yard, *id), objects.iter().copied().collect());
        assert_eq!(yard.free_bulk_to(*id, objects), Ok(()));
        // SAFETY: no other thread runs.
        assert_eq!(unsafe { yard.destroy_cache(*id) }, Ok(()));
    }
    assert_eq!(yard.free_fast(malloced), Ok(()));
    assert_eq!(sound(&yard).live, 0);
}

static MADE: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

#[test]
fn each_object_that_was_made_is_ended_once() {
    let yard = yard_on(Config::default());
    let construct = |_, word: usize| _ = MADE.fetch_add(word as u64, Ordering::Relaxed);
    let destruct = |_, word: usize| _ = ENDED.fetch_add(word as u64, Ordering::Relaxed);
    let settings = CacheSettings {
        constructor: Some(ObjectFn { function: construct, word: 3 }),
        destructor: Some(ObjectFn { function: destruct, word: 3 }),
        ..CacheSettings::of(500)
    };
    let id = made(&yard, &settings);
    let mut objects = vec![0; 1000];
    assert!(yard.alloc_bulk_from(id, &mut objects));
    let (made, ended) = (|| MADE.load(Ordering::Relaxed), || ENDED.load(Ordering::Relaxed));
    assert!(made() >= 3000 && ended() == 0);
    assert_eq!(yard.free_bulk_to(id, &objects), Ok(()));
    assert!(yard.shrink_cache(id));
    assert!(made() == ended(), "{} of {} ended", ended(), made());
    assert!(yard.alloc_bulk_from(id, &mut objects[..3]));
    assert!(made() > ended(), "new slabs are made anew");
    assert_eq!(yard.free_bulk_to(id, &objects[..3]), Ok(()));
    // SAFETY: no other thread runs.
    assert_eq!(unsafe { yard.destroy_cache(id) }, Ok(()));
    assert_eq!(made(), ended());
}
