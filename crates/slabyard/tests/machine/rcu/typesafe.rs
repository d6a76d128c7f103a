//! Caches whose memory is type-safe for readers, on the modelled machine: objects are freed at
//! once and handed out again, and another cache takes the pages of slabs that end.
//!
//! Objects have three words: a type, a key, and a value that contains the key. A writer that frees
//! an object takes its key away first; one that gets an object writes the value and then the key.
//! A reader looks up a key, and may find an object that has another key by now; it must look at
//! the key again after it has read the value. The type is always there.

use super::{Section, check, yard_on};
use slabyard::cache::{CacheFlags, CacheId, CacheSettings};
use slabyard::created::NotDestroyed;
use slabyard::platform::Park;
use slabyard::slab::ObjectFn;
use slabyard::yard::Yard;
use slabyard_testkit::machine::{Body, Config, Machine};
use slabyard_testkit::{read_word, write_word};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

const TYPE: usize = 0x7e57_ab1e;
const JUNK: usize = 0xbad;
const NO_KEY: usize = 0;
const KEYS: usize = 3;
const ROUNDS: usize = 6;
/// Looks at an object's type: as long as others need to end a slab and to take its pages.
const LOOKS: usize = 600;

#[derive(Clone, Copy, PartialEq)]
enum Reader {
    Rechecks,
    /// The planted bug of the program.
    ReadsOnce,
}

fn settings(flags: CacheFlags) -> CacheSettings {
    CacheSettings {
        flags,
        orders: (0, 0),
        min_partial: Some(0),
        sheaf_capacity: Some(1),
        ..CacheSettings::of(2048)
    }
}

struct Scene<'a> {
    yard: &'a Yard<Machine>,
    cache: CacheId,
    other: CacheId,
    index: [AtomicUsize; KEYS],
}

impl Scene<'_> {
    fn read(&self, object: usize, word: usize) -> usize {
        self.yard.platform().step();
        // SAFETY: a word of the region, whoever has it.
        unsafe { read_word(self.yard.platform(), object + 8 * word) }
    }

    fn write(&self, object: usize, word: usize, value: usize) {
        // SAFETY: a word of an object that the caller has.
        unsafe { write_word(self.yard.platform(), object + 8 * word, value) };
        self.yard.platform().step();
    }

    fn replace(&self, key: usize) {
        let new = self.yard.alloc_from(self.cache).expect("memory");
        self.write(new, 0, TYPE);
        self.write(new, 2, 100 * key + 7);
        self.write(new, 1, key);
        self.free(self.index[key - 1].swap(new, Ordering::SeqCst));
    }

    fn free(&self, old: usize) {
        if old != 0 {
            self.write(old, 1, NO_KEY);
            self.yard.free_to(self.cache, old).expect("an object");
        }
    }

    fn look_up(&self, key: usize, reader: Reader) {
        let section = Section::of(self.yard);
        loop {
            let object = self.index[key - 1].load(Ordering::SeqCst);
            if object == 0 {
                break;
            }
            for _ in 0..LOOKS {
                assert_eq!(self.read(object, 0), TYPE, "memory of another type");
            }
            if self.read(object, 1) != key {
                continue;
            }
            let value = self.read(object, 2);
            if reader == Reader::Rechecks && self.read(object, 1) != key {
                continue;
            }
            assert_eq!(value, 100 * key + 7, "another object's value");
            break;
        }
        drop(section);
    }

    /// Takes pages that slabs gave back, and writes something else there.
    fn take_pages(&self) {
        self.yard.shrink_cache(self.cache);
        let objects = [(); 12].map(|()| self.yard.alloc_from(self.other).expect("memory"));
        for object in objects {
            (0..3).for_each(|word| self.write(object, word, JUNK));
        }
        for object in objects {
            self.yard.free_to(self.other, object).expect("an object");
        }
        self.yard.shrink_cache(self.other);
    }
}

fn run(config: Config, flags: CacheFlags, reader: Reader) {
    let yard = &yard_on(config);
    let cache = yard.create_cache("typed", &settings(flags)).expect("a cache");
    let other = yard.create_cache("other", &settings(CacheFlags::NONE)).expect("a cache");
    let index = [const { AtomicUsize::new(0) }; KEYS];
    let scene = &Scene { yard, cache, other, index };
    // Readers that have ended: the others go on until then.
    let ended = &AtomicUsize::new(0);
    let reading = move || ended.load(Ordering::SeqCst) < 2;
    let writer = |begin: usize| -> Body<'_> {
        let rounds = (begin..).take_while(move |_| reading());
        Box::new(move |_| rounds.for_each(|nth| scene.replace(nth % KEYS + 1)))
    };
    let reader = || -> Body<'_> {
        Box::new(move |_| {
            (0..ROUNDS).for_each(|nth| scene.look_up(nth % KEYS + 1, reader));
            ended.fetch_add(1, Ordering::SeqCst);
        })
    };
    let taker = || -> Body<'_> {
        let rounds = (0..).take_while(move |_| reading());
        Box::new(move |_| rounds.for_each(|_: usize| scene.take_pages()))
    };
    yard.platform().run(vec![writer(0), writer(1), reader(), reader(), taker()]);
    check(yard);
    for word in &scene.index {
        scene.free(word.swap(0, Ordering::SeqCst));
    }
    // SAFETY: no other thread.
    unsafe { yard.destroy_cache(cache) }.expect("no object is live");
    check(yard);
}

fn config(seed: u64) -> Config {
    Config { seed, preemption: 200, cpus: 1 + seed as usize % 3, ..Config::default() }
}

const SAFE: CacheFlags = CacheFlags::TYPESAFE_BY_RCU;

#[test]
fn memory_keeps_its_type_while_readers_look() {
    for seed in 0..8 {
        run(config(seed), SAFE, Reader::Rechecks);
        run(Config { can_stop: false, ..config(seed) }, SAFE, Reader::Rechecks);
        run(Config { reader_fences: seed % 5, ..config(seed) }, SAFE, Reader::Rechecks);
        run(Config { finds_ends: false, ..config(seed) }, SAFE, Reader::Rechecks);
    }
}

fn is_found(what: &str, flags: CacheFlags, reader: Reader) -> bool {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let found = (0..300).any(|seed| {
        let failed = catch_unwind(AssertUnwindSafe(|| run(config(seed), flags, reader)));
        failed.is_err_and(|panic| {
            panic.downcast_ref::<String>().is_some_and(|text| text.contains(what))
        })
    });
    std::panic::set_hook(hook);
    found
}

#[test]
fn a_slab_that_ends_at_once_is_found() {
    assert!(is_found("memory of another type", CacheFlags::NONE, Reader::Rechecks));
}

#[test]
fn a_reader_that_does_not_look_again_is_found() {
    assert!(is_found("another object's value", SAFE, Reader::ReadsOnce));
}

#[test]
fn a_slab_waits_for_readers_and_no_longer() {
    let yard = yard_on(Config::default());
    let cache = yard.create_cache("typed", &settings(SAFE)).expect("a cache");
    let objects: Vec<_> = (0..64).map(|_| yard.alloc_from(cache).expect("memory")).collect();
    let section = Section::of(&yard);
    objects.into_iter().for_each(|object| yard.free_to(cache, object).expect("live"));
    yard.shrink_cache(cache);
    let granules = || {
        let count = yard.quiesce(|quiesced| Yard::count(quiesced, |_, _| ()));
        count.expect("no slow path").runs
    };
    assert_eq!(granules(), 128 << 10, "all slabs wait");
    check(&yard);
    // SAFETY: no other thread.
    assert_eq!(unsafe { yard.destroy_cache(cache) }, Err(NotDestroyed::InSection));
    let again = yard.alloc_from(cache).expect("it is there as before");
    yard.free_to(cache, again).expect("live");
    drop(section);
    for _ in 0..8 {
        yard.shrink_cache(cache);
    }
    assert_eq!(granules(), 0, "later slow paths freed them");
    // SAFETY: no other thread.
    assert_eq!(unsafe { yard.destroy_cache(cache) }, Ok(()));
    check(&yard);
}

#[test]
fn a_destroyed_cache_waits_for_its_slabs() {
    let yard = yard_on(Config { preemption: 300, ..Config::default() });
    let cache = yard.create_cache("typed", &settings(SAFE)).expect("a cache");
    let object = yard.alloc_from(cache).expect("memory");
    // SAFETY: an object of the cache's.
    unsafe { write_word(yard.platform(), object, TYPE) };
    let (begun, yard) = (&AtomicUsize::new(0), &yard);
    let reader: Body<'_> = Box::new(move |machine| {
        let section = Section::of(yard);
        begun.store(1, Ordering::SeqCst);
        for _ in 0..300 {
            machine.step();
            // SAFETY: a word of the region, whoever has it.
            assert_eq!(unsafe { read_word(machine, object) }, TYPE);
        }
        drop(section);
    });
    let writer: Body<'_> = Box::new(move |machine| {
        while begun.load(Ordering::SeqCst) == 0 {
            machine.step();
        }
        yard.free_to(cache, object).expect("live");
        // SAFETY: no other thread calls it.
        unsafe { yard.destroy_cache(cache) }.expect("no object is live");
        let other = yard.create_cache("other", &settings(CacheFlags::NONE)).expect("a cache");
        let taken = yard.alloc_from(other).expect("memory");
        // SAFETY: an object of the cache's.
        unsafe { write_word(machine, taken, JUNK) };
    });
    yard.platform().run(vec![reader, writer]);
    check(yard);
}

/// Objects are made once, and ended once, after readers.
#[test]
fn objects_end_after_readers() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    fn end(_: usize, _: usize) {
        ENDED.fetch_add(1, Ordering::SeqCst);
    }
    let yard = yard_on(Config::default());
    let settings = CacheSettings {
        constructor: Some(ObjectFn { function: |_, _| (), word: 0 }),
        destructor: Some(ObjectFn { function: end, word: 0 }),
        ..settings(SAFE)
    };
    let cache = yard.create_cache("typed", &settings).expect("a cache");
    let object = yard.alloc_from(cache).expect("memory");
    let section = Section::of(&yard);
    yard.free_to(cache, object).expect("live");
    yard.shrink_cache(cache);
    assert_eq!(ENDED.load(Ordering::SeqCst), 0);
    drop(section);
    // SAFETY: no other thread.
    unsafe { yard.destroy_cache(cache) }.expect("no object is live");
    assert!(ENDED.load(Ordering::SeqCst) > 0);
}
