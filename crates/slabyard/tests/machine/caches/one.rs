//! One thread at a time.

use super::{begun, sound, yard_on};
use slabyard::cache::classes::CLASSES;
use slabyard::cache::table::MOST_CREATED;
use slabyard::cache::{CacheId, CacheSettings};
use slabyard::calls::trim;
use slabyard::child;
use slabyard::created::{NotCreated, NotDestroyed};
use slabyard::engine::{Any, Engine, EngineKind};
use slabyard::platform::{Park, PerCpu, Planted, Threads};
use slabyard::slab::ObjectFn;
use slabyard::yard::{AddressKind, Yard};
use slabyard_abi::engines::EngineName;
use slabyard_abi::region::CacheWord;
use slabyard_testkit::machine::{Config, Machine};
use std::cell::RefCell;
use std::collections::BTreeSet;

fn destroy<E: Engine>(yard: &Yard<Machine, E>, id: CacheId) -> Result<(), NotDestroyed> {
    // SAFETY: no other thread runs.
    unsafe { yard.destroy_cache(id) }
}

/// A word that readers outside see of a cache.
fn word(yard: &Yard<Machine>, id: CacheId, word: CacheWord) -> u64 {
    let at = yard.cache(id.number()).shown_at() + word.index() * 8;
    // SAFETY: the words of a cache stay for ever.
    unsafe { *(at as *const u64) }
}

fn each_machine(mut f: impl FnMut(Config)) {
    for page_bytes in [4 << 10, 16 << 10, 64 << 10] {
        for can_stop in [true, false] {
            f(Config { page_bytes, can_stop, cpus: 4, ..Config::default() });
        }
    }
}

#[test]
fn a_cache_serves_objects_of_its_size_and_goes_when_all_are_free() {
    each_machine(|config| {
        let yard = yard_on(config);
        for (object, align) in [(1, 1), (24, 8), (100, 64), (3000, 8), (32768, 4096)] {
            let settings = CacheSettings { align, ..CacheSettings::of(object) };
            let id = yard.create_cache("tested", &settings).expect("a cache");
            assert_eq!(id.number(), CLASSES, "the lowest number that is vacant");
            let objects: BTreeSet<usize> =
                (0..200).map(|_| yard.alloc_from(id).expect("memory")).collect();
            assert_eq!(objects.len(), 200);
            for object_at in &objects {
                assert!(object_at.is_multiple_of(align as usize));
                assert!(yard.usable(*object_at) >= Some(object as usize));
            }
            let gaps = objects.iter().zip(objects.iter().skip(1)).map(|(a, b)| b - a);
            assert!(gaps.min() >= Some(object as usize));
            assert_eq!(sound(&yard).live, 200);
            assert_eq!(word(&yard, id, CacheWord::ObjectSize), object.into());
            let mut left = 200;
            for object in objects {
                assert_eq!(destroy(&yard, id), Err(NotDestroyed::Live(left)));
                assert_eq!(yard.free_to(id, object), Ok(()));
                left -= 1;
            }
            assert_ne!(word(&yard, id, CacheWord::Slot), 0);
            assert_eq!(destroy(&yard, id), Ok(()));
            assert_eq!(word(&yard, id, CacheWord::Slot), 0, "readers see that it is gone");
            let sound = sound(&yard);
            assert_eq!((sound.live, sound.slabs, sound.parked), (0, 0, 0));
        }
    });
}

#[test]
fn a_created_cache_has_the_engine_of_its_yard() {
    for name in EngineName::ALL.iter().copied() {
        let yard: Yard<Machine, Any> = Yard::new(Machine::new(Config::default()));
        yard.choose(name);
        let yard = begun(yard);
        for _ in 0..2 {
            let id = yard.create_cache("chosen", &CacheSettings::of(64)).expect("a cache");
            assert_eq!(yard.cache(id.number()).engine.facts().name, name);
            let object = yard.alloc_from(id).expect("memory");
            assert_eq!(yard.free_to(id, object), Ok(()));
            assert_eq!(sound(&yard).live, 0);
            assert_eq!(destroy(&yard, id), Ok(()));
            assert_eq!(sound(&yard).slabs, 0);
        }
    }
}

#[test]
fn an_id_names_one_cache_for_ever() {
    let yard = yard_on(Config::default());
    let settings = CacheSettings::of(64);
    let first = yard.create_cache("first", &settings).expect("a cache");
    let object = yard.alloc_from(first).expect("memory");
    assert_eq!(yard.free_to(first, object), Ok(()));
    assert_eq!(destroy(&yard, first), Ok(()));
    assert_eq!(destroy(&yard, first), Err(NotDestroyed::Unknown));
    assert_eq!(yard.alloc_from(first), None);
    let second = yard.create_cache("second", &CacheSettings::of(640)).expect("a cache");
    assert_eq!(second.number(), first.number(), "its number is used again");
    assert_ne!(second, first);
    assert_eq!(word(&yard, second, CacheWord::Generation), 2);
    assert!(yard.find_cache(first).is_none() && yard.find_cache(second).is_some());
    assert_eq!(destroy(&yard, first), Err(NotDestroyed::Unknown));
    assert_eq!(yard.alloc_from_slow(first), None);
    assert!(!yard.shrink_cache(first) && yard.shrink_cache(second));
    let object = yard.alloc_from(second).expect("memory");
    assert_eq!(yard.usable(object), Some(640));
    assert_eq!(sound(&yard).live, 1);
}

#[test]
fn an_object_of_another_cache_is_refused() {
    let yard = yard_on(Config::default());
    let ids = [24, 48].map(|bytes| yard.create_cache(bytes, &CacheSettings::of(bytes)));
    let [small, large] = ids.map(|id| id.expect("a cache"));
    let object = yard.alloc_from(small).expect("memory");
    let place = AddressKind::Object { class: small.number(), bytes: 24, begin: true };
    assert_eq!(yard.free_to(large, object), Err(place));
    let inside = AddressKind::Object { class: small.number(), bytes: 24, begin: false };
    assert_eq!(yard.free(object + 8), Err(inside));
    assert_eq!(yard.free(object), Ok(()), "a free without an id finds the cache");
    assert_eq!(destroy(&yard, small), Ok(()));
    assert_eq!(destroy(&yard, large), Ok(()));
}

#[test]
fn settings_that_no_slab_serves_are_refused() {
    let yard = yard_on(Config::default());
    for settings in [
        CacheSettings::of(32769),
        CacheSettings { align: 3, ..CacheSettings::of(8) },
        CacheSettings { align: 1 << 15, ..CacheSettings::of(8) },
        CacheSettings { first: 1 << 20, ..CacheSettings::of(8) },
    ] {
        assert_eq!(yard.create_cache("refused", &settings), Err(NotCreated::Settings));
    }
}

thread_local! {
    static MADE: RefCell<BTreeSet<usize>> = const { RefCell::new(BTreeSet::new()) };
}

#[test]
fn a_constructor_makes_each_object_once_where_its_slab_begins() {
    let construct = |address: usize, word: usize| {
        assert_eq!(word, 77);
        MADE.with(|made| assert!(made.borrow_mut().insert(address), "made twice"));
    };
    let is_made = |address: usize| MADE.with(|made| made.borrow().contains(&address));
    let constructor = Some(ObjectFn { function: construct, word: 77 });
    let yard = yard_on(Config::default());
    let settings = CacheSettings { constructor, first: 40, ..CacheSettings::of(200) };
    let id = yard.create_cache("constructed", &settings).expect("a cache");
    assert!(MADE.with(|made| made.borrow().is_empty()), "no slab has begun");
    for _ in 0..3 {
        let objects: Vec<usize> = (0..500).map(|_| yard.alloc_from(id).expect("memory")).collect();
        assert!(objects.iter().all(|object| is_made(*object)));
        objects.iter().for_each(|object| assert_eq!(yard.free_to(id, *object), Ok(())));
    }
    let geometry = yard.cache(id.number()).shape().geometry;
    assert_eq!(geometry.first, 40);
    let slabs = u64::from(yard.cache(id.number()).nr_slabs());
    assert!(MADE.with(|made| made.borrow().len() as u64) >= slabs * u64::from(geometry.objects));
    // Slabs that end begin anew.
    assert!(yard.shrink_cache(id));
    assert_eq!(yard.cache(id.number()).nr_slabs(), 0);
    MADE.with(|made| made.borrow_mut().clear());
    let object = yard.alloc_from(id).expect("memory");
    assert!(is_made(object));
}

/// All slots of a row have a cache, with objects in stacks of every CPU.
#[test]
fn as_many_caches_as_rows_have_slots_for() {
    let yard = yard_on(Config { cpus: 3, ..Config::default() });
    let create = |n: usize| {
        let settings = CacheSettings::of(16 + (n % 50) as u32 * 8);
        yard.create_cache(format_args!("n-{n}"), &settings)
    };
    for round in 1..=3 {
        let ids: Vec<CacheId> = (0..MOST_CREATED).map(|n| create(n).expect("a cache")).collect();
        const { assert!(MOST_CREATED >= 4000) };
        assert_eq!(create(0), Err(NotCreated::TooMany));
        let numbers: BTreeSet<usize> = ids.iter().map(|id| id.number()).collect();
        assert_eq!(numbers.len(), MOST_CREATED);
        for (n, id) in ids.iter().enumerate() {
            yard.platform().set_cpu(n % 3);
            let object = yard.alloc_from(*id).expect("memory");
            yard.platform().set_cpu((n + round) % 3);
            assert_eq!(yard.free_to(*id, object), Ok(()));
        }
        assert_eq!(sound(&yard).live, 0);
        let fences = yard.platform().tally().fences;
        for id in &ids {
            assert_eq!(destroy(&yard, *id), Ok(()));
        }
        let fences = yard.platform().tally().fences - fences;
        assert!(fences <= MOST_CREATED as u64, "one fence for both stacks of all rows: {fences}");
        assert_eq!(sound(&yard).slabs, 0);
    }
}

/// Each request for memory is refused in turn: nothing is lost, and it works afterwards.
#[test]
fn each_refused_request_leaves_the_caches_whole() {
    each_machine(|config| {
        for n in 0.. {
            let yard = yard_on(config.clone());
            let before = yard.platform().requests();
            yard.platform().refuse(Some(n));
            script(&yard);
            let made = yard.platform().requests() - before;
            yard.platform().refuse(None);
            script(&yard);
            if n >= made {
                assert!(n > 3, "a script of {n} requests");
                break;
            }
        }
    });
}

/// Makes caches in more pages of rows than one, uses some and destroys them all.
fn script(yard: &Yard<Machine>) {
    let ids: Vec<CacheId> = (0..600)
        .map(|n| yard.create_cache(n, &CacheSettings::of(40 + n % 7 * 100)).expect("made up for"))
        .collect();
    for id in ids.iter().step_by(97) {
        let objects: Vec<usize> = (0..20).filter_map(|_| yard.alloc_from(*id)).collect();
        assert_eq!(objects.len(), 20, "a refused request is made up for by a drain");
        objects.iter().for_each(|object| assert_eq!(yard.free_to(*id, *object), Ok(())));
    }
    sound(yard);
    ids.iter().for_each(|id| assert_eq!(destroy(yard, *id), Ok(())));
    assert_eq!(sound(yard).slabs, 0);
}

/// The child of a fork returns what threads that do not exist there have in private rows.
#[test]
fn a_child_adopts_the_stacks_of_created_caches() {
    let yard = yard_on(Config { can_stop: false, ..Config::default() });
    let id = yard.create_cache("shared", &CacheSettings::of(64)).expect("a cache");
    let kept = yard.alloc_from(id).expect("memory");
    let body = |_: &Machine| {
        let objects: Vec<usize> = (0..10).map(|_| yard.alloc_from(id).expect("memory")).collect();
        objects.iter().for_each(|object| assert_eq!(yard.free_to(id, *object), Ok(())));
    };
    yard.platform().run(vec![Box::new(body), Box::new(body)]);
    child::mark_child(yard.platform());
    trim::adopt_rows(&yard, 1..=2);
    assert_eq!(sound(&yard).live, 1);
    assert_eq!(yard.free_to(id, kept), Ok(()));
    assert_eq!(destroy(&yard, id), Ok(()));
    assert_eq!(sound(&yard).slabs, 0);
}

/// A handler that interrupts a slow path gets a constructed mapping, and its deferred free
/// leaves the object as its constructor made it.
#[test]
fn a_handler_is_served_outside_of_slow_paths() {
    let construct = |address: usize, _: usize| {
        MADE.with(|made| made.borrow_mut().insert(address));
    };
    let yard = yard_on(Config::default());
    let constructor = Some(ObjectFn { function: construct, word: 0 });
    let settings = CacheSettings { constructor, ..CacheSettings::of(64) };
    let id = yard.create_cache("handled", &settings).expect("a cache");
    let object = yard.alloc_from(id).expect("memory");
    let depth = &yard.platform().thread().depth;
    let inside = |f: &dyn Fn()| {
        let before = depth.fetch_or(1, slabyard::sync::Ordering::Relaxed);
        f();
        depth.store(before, slabyard::sync::Ordering::Relaxed);
    };
    let mapping = std::cell::Cell::new(0);
    inside(&|| {
        assert_eq!(yard.create_cache("no", &settings), Err(NotCreated::Interrupted));
        assert_eq!(destroy(&yard, id), Err(NotDestroyed::Interrupted));
        mapping.set(yard.alloc_from_slow(id).expect("a mapping"));
        MADE.with(|made| assert!(made.borrow().contains(&mapping.get())));
        MADE.with(|made| made.borrow_mut().clear());
        assert_eq!(yard.free(object), Ok(()), "it is deferred");
    });
    assert_eq!(yard.free_to(id, mapping.get()), Ok(()));
    // A slow path: it does the deferred frees.
    trim::drain_thread(&yard);
    MADE.with(|made| assert!(made.borrow().contains(&object), "made again"));
    yard.platform().step();
    assert_eq!(destroy(&yard, id), Ok(()));
}

/// The planted bug: destroying skips a row, in which a stack without objects stays.
#[test]
fn a_destroyed_cache_that_leaves_a_stack_is_found() {
    let yard = yard_on(Config::default());
    let id = yard.create_cache("left", &CacheSettings::of(4096)).expect("a cache");
    yard.platform().set_cpu(1);
    let mut objects = vec![yard.alloc_from(id).expect("memory")];
    while let Some(object) = yard.platform().pop(id.slot()) {
        objects.push(object);
    }
    yard.platform().set_cpu(0);
    objects.iter().for_each(|object| assert_eq!(yard.free_to(id, *object), Ok(())));
    yard.platform().plant(Planted::SkippedRow(1));
    assert_eq!(destroy(&yard, id), Ok(()));
    let fault = yard.verify().expect("outside of a slow path").expect_err("a stack was left");
    assert_eq!(fault.what, "stack of no cache");
}

/// The planted bug: destroying skips a row with parked objects, so these count as live.
#[test]
fn objects_in_a_skipped_row_are_found() {
    let yard = yard_on(Config::default());
    let id = yard.create_cache("left", &CacheSettings::of(64)).expect("a cache");
    yard.platform().set_cpu(1);
    let object = yard.alloc_from(id).expect("memory");
    assert_eq!(yard.free_to(id, object), Ok(()));
    yard.platform().plant(Planted::SkippedRow(1));
    assert!(matches!(destroy(&yard, id), Err(NotDestroyed::Live(1..))));
}
