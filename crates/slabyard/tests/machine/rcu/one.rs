//! One thread at a time: what waits, what is refused, and forks.

use super::{Section, check, yard_on};
use slabyard::cache::CacheSettings;
use slabyard::calls::readers;
use slabyard::calls::readers::NotWaited;
use slabyard::child;
use slabyard::waiting::{BATCH, MOST_BYTES, NotTaken};
use slabyard::yard::AddressKind;
use slabyard_testkit::machine::Config;

#[test]
fn a_thread_does_not_wait_for_itself() {
    let yard = yard_on(Config::default());
    let section = Section::of(&yard);
    assert_eq!(yard.synchronize_rcu(), Err(NotWaited::InSection));
    assert_eq!(yard.rcu_barrier(), Err(NotWaited::InSection));
    let inner = Section::of(&yard);
    drop(section);
    assert_eq!(yard.synchronize_rcu(), Err(NotWaited::InSection));
    drop(inner);
    assert_eq!(yard.synchronize_rcu(), Ok(()));
}

#[test]
fn a_section_of_a_yard_does_not_hold_up_another() {
    for finds_ends in [true, false] {
        let yards = [(); 3].map(|()| yard_on(Config { finds_ends, ..Config::default() }));
        let sections = yards.each_ref().map(Section::of);
        for yard in &yards[..2] {
            assert!(readers::is_in_rcu_section(yard));
            assert!(!readers::poll_rcu(yard, readers::wanted_rcu(&yard.heap)));
        }
        drop(sections);
        for yard in &yards {
            assert_eq!(yard.synchronize_rcu(), Ok(()));
        }
    }
}

#[test]
fn a_grace_period_waits_for_sections_that_are_open_and_for_no_later_one() {
    let yard = yard_on(Config::default());
    yard.rcu_read_lock();
    let wanted = readers::wanted_rcu(&yard.heap);
    assert!(!readers::poll_rcu(&yard, wanted));
    // Reopened: a section that began after the grace period.
    yard.rcu_read_unlock();
    yard.rcu_read_lock();
    assert!(readers::poll_rcu(&yard, wanted));
    assert!(!readers::poll_rcu(&yard, readers::wanted_rcu(&yard.heap)));
    yard.rcu_read_unlock();
}

#[test]
fn objects_wait_until_readers_have_left() {
    let yard = yard_on(Config::default());
    let cache = yard.create_cache("nodes", &CacheSettings::of(200)).expect("a cache");
    let object = yard.alloc_from(cache).expect("memory");
    let large = yard.alloc(100_000, 16).expect("memory");
    yard.rcu_read_lock();
    yard.free_to_rcu(cache, object).expect("an object");
    yard.free_rcu(large).expect("a run");
    assert_eq!(yard.verify(), yard.verify());
    let sound = yard.verify().expect("no slow path").expect("sound");
    assert_eq!((sound.runs, sound.live), (1, 0), "{sound:?}");
    yard.platform().advance(100);
    for _ in 0..100 {
        let other = yard.alloc_from(cache).expect("memory");
        assert_ne!(other, object);
        readers::poll_rcu(&yard, readers::wanted_rcu(&yard.heap));
    }
    yard.rcu_read_unlock();
    yard.rcu_barrier().expect("no section");
    let sound = yard.verify().expect("no slow path").expect("sound");
    assert_eq!((sound.runs, sound.live), (0, 100), "{sound:?}");
}

#[test]
fn what_is_no_object_is_not_taken() {
    let yard = yard_on(Config::default());
    let [one, two] = ["one", "two"]
        .map(|name| yard.create_cache(name, &CacheSettings::of(64)).expect("a cache"));
    let object = yard.alloc_from(one).expect("memory");
    let is_place = |taken| matches!(taken, Err(NotTaken::Place(_)));
    assert!(is_place(yard.free_to_rcu(two, object)));
    assert!(is_place(yard.free_to_rcu(one, object + 8)));
    assert_eq!(yard.free_rcu(1 << 46), Err(NotTaken::Place(AddressKind::Foreign)));
    yard.free_to(one, object).expect("still live");
}

/// What is given up twice is found like any double free, and frees nothing of another.
#[test]
fn an_object_given_up_twice_is_a_fault() {
    let yard = yard_on(Config::default());
    let cache = yard.create_cache("nodes", &CacheSettings::of(64)).expect("a cache");
    let object = yard.alloc_from(cache).expect("memory");
    yard.rcu_read_lock();
    yard.free_rcu(object).expect("an object");
    yard.free_rcu(object).expect("nobody knows yet");
    let fault = yard.verify().expect("no slow path").expect_err("twice");
    assert_eq!(fault.misuse(), Some(slabyard::pages::Cause::DoubleFree));
    yard.rcu_read_unlock();
}

#[test]
fn while_a_reader_stays_only_so_much_waits() {
    let yard = yard_on(Config::default());
    let cache = yard.create_cache("small", &CacheSettings::of(32)).expect("a cache");
    yard.rcu_read_lock();
    let mut taken = 0;
    let refused = loop {
        let object = yard.alloc_from(cache).expect("memory");
        match yard.free_to_rcu(cache, object) {
            Ok(()) => taken += 1,
            refused => break (object, refused),
        }
    };
    assert_eq!(refused.1, Err(NotTaken::Full));
    assert!((4 * BATCH..=32 * BATCH).contains(&taken), "{taken} objects");
    let big = yard.alloc(MOST_BYTES, 16).expect("memory");
    assert_eq!(yard.free_rcu(big), Err(NotTaken::Full));
    assert_eq!(readers::free_after_waiting(&yard, big), Err(NotWaited::InSection));
    yard.rcu_read_unlock();
    assert_eq!(readers::free_after_waiting(&yard, big), Ok(Ok(())));
    yard.free_to_rcu(cache, refused.0).expect("there is room again");
    yard.rcu_barrier().expect("no section");
    let sound = yard.verify().expect("no slow path").expect("sound");
    assert_eq!((sound.live, sound.runs), (0, 0), "{sound:?}");
}

/// Without a barrier, and without another free after readers, slow paths free what waits.
#[test]
fn slow_paths_free_what_waits() {
    let yard = yard_on(Config::default());
    let cache = yard.create_cache("nodes", &CacheSettings::of(64)).expect("a cache");
    for _ in 0..100 {
        let object = yard.alloc_from(cache).expect("memory");
        yard.free_to_rcu(cache, object).expect("an object");
    }
    for _ in 0..10 {
        yard.platform().advance(10);
        let run = yard.alloc(100_000, 16).expect("memory");
        yard.free(run).expect("live");
    }
    // SAFETY: no other thread.
    assert_eq!(unsafe { yard.destroy_cache(cache) }, Ok(()));
    check(&yard);
}

/// For every n, the n-th page refused: an object is taken or stays the caller's, and readers
/// without a place are counted.
#[test]
fn refused_memory_loses_no_object() {
    let mut n = 0;
    loop {
        let yard = yard_on(Config::default());
        let cache = yard.create_cache("nodes", &CacheSettings::of(64)).expect("a cache");
        let objects: Vec<_> = (0..600).map(|_| yard.alloc_from(cache).expect("memory")).collect();
        let before = yard.platform().requests();
        yard.platform().refuse(Some(n));
        yard.rcu_read_lock();
        let wanted = readers::wanted_rcu(&yard.heap);
        let mut left = Vec::new();
        for object in objects {
            match yard.free_rcu(object) {
                Ok(()) => {}
                Err(NotTaken::Memory) => left.push(object),
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!(!readers::poll_rcu(&yard, wanted));
        yard.rcu_read_unlock();
        left.into_iter().for_each(|object| {
            readers::free_after_waiting(&yard, object).expect("no section").expect("live");
        });
        yard.rcu_barrier().expect("no section");
        let asked = yard.platform().requests() - before;
        // SAFETY: no other thread.
        unsafe { yard.destroy_cache(cache) }.expect("no object is live");
        check(&yard);
        if n >= asked {
            assert!(n > 0, "nothing was refused");
            break;
        }
        n += 1;
    }
}

#[test]
fn a_child_waits_for_no_reader_of_its_parent() {
    for finds_ends in [true, false] {
        let yard = yard_on(Config { finds_ends, preemption: 0, ..Config::default() });
        yard.platform().run(vec![Box::new(|_| yard.rcu_read_lock())]);
        assert!(!readers::poll_rcu(&yard, readers::wanted_rcu(&yard.heap)));
        yard.rcu_read_lock();
        child::mark_child(yard.platform());
        assert!(!readers::poll_rcu(&yard, readers::wanted_rcu(&yard.heap)), "its own section");
        yard.rcu_read_unlock();
        yard.synchronize_rcu().expect("no section is open");
    }
}

#[test]
fn a_section_ends_with_its_thread() {
    let yard = yard_on(Config { preemption: 0, ..Config::default() });
    yard.platform().run(vec![Box::new(|machine| {
        yard.rcu_read_lock();
        machine.end_reader();
        // A destructor that runs later.
        let _section = Section::of(&yard);
        assert!(readers::is_in_rcu_section(&yard));
    })]);
    yard.synchronize_rcu().expect("no section is open");
}
