//! Random lives of several caches, from seeds: threads make caches, with debugging and without,
//! allocate one by one, in bulk and from prefilled sheaves, hand objects over, free, shrink, drop
//! handles that have objects, and destroy. An oracle knows what each object holds and which cache
//! it is of, and the whole yard is checked at each life's end.

use super::in_modes::{check, in_each_mode, in_each_mode_of_any, nr_caches};
use slabyard::created::abandoned;
use slabyard::engine::{Any, Engine};
use slabyard::pages::finding::{FindingKind, Hooks};
use slabyard::typed::{DebugFlags, Fresh, Kept};
use slabyard::{CacheBox, ObjectCache, ProcessYard};
use slabyard_testkit::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const LIVES: u64 = 60;
/// Of these every call of some caches takes a slow path, and each look at all objects is one.
const DEBUGGED_LIVES: u64 = 20;
const THREADS: usize = 4;
const STEPS: usize = 600;

/// What the oracle knows of a cache: live objects.
type Count = Arc<AtomicI64>;

/// A value that is only right while nobody else writes to it.
struct Value {
    mark: u64,
    copy: u64,
    text: String,
    count: Count,
}

impl Value {
    fn new(mark: u64, count: &Count) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Value { mark, copy: !mark, text: mark.to_string(), count: count.clone() }
    }

    fn check(&self) {
        assert_eq!(self.mark, !self.copy);
        assert_eq!(self.text, self.mark.to_string());
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.check();
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An object that is kept: empty whenever it is handed out.
#[derive(Default)]
struct Tray(Vec<u64>);

type ValueBox<E> = CacheBox<Value, Fresh, ProcessYard<E>>;

struct Values<E: Engine> {
    cache: Option<ObjectCache<Value, Fresh, ProcessYard<E>>>,
    flags: DebugFlags,
    count: Count,
}

struct Life<E: Engine> {
    yard: &'static ProcessYard<E>,
    flags: fn(&mut Random) -> DebugFlags,
    values: Vec<Mutex<Values<E>>>,
    trays: ObjectCache<Tray, Kept, ProcessYard<E>>,
    handed: Mutex<Vec<ValueBox<E>>>,
}

/// No debugging.
fn plain(_: &mut Random) -> DebugFlags {
    DebugFlags::NONE
}

/// Any flags, none in a third of the caches. Not those that print.
fn any_flags(random: &mut Random) -> DebugFlags {
    match random.below(3) {
        0 => DebugFlags::NONE,
        1 => DebugFlags::DEFAULT,
        _ => DebugFlags::of(random.below(1 << 7) as u8).without(DebugFlags::TRACE),
    }
}

impl<E: Engine> Life<E> {
    fn new(yard: &'static ProcessYard<E>, seed: u64, flags: fn(&mut Random) -> DebugFlags) -> Self {
        let empty =
            || Mutex::new(Values { cache: None, flags: DebugFlags::NONE, count: Count::default() });
        let debug = flags(&mut Random::new(seed)).without(DebugFlags::FAIL);
        let builder = ObjectCache::<Tray>::builder("trays").debug(debug).constructor(Tray::default);
        let trays = builder.reset(|tray| tray.0.clear()).create(yard).expect("a cache");
        let values = (0..5).map(|_| empty()).collect();
        Life { yard, flags, values, trays, handed: Mutex::default() }
    }

    /// One thread's steps.
    fn live(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut held: Vec<ValueBox<E>> = Vec::new();
        let mut trays: Vec<CacheBox<Tray, Kept, ProcessYard<E>>> = Vec::new();
        for step in 0..STEPS as u64 {
            let mut values = self.values[random.below(self.values.len())].lock().expect("no panic");
            let Values { cache, flags, count } = &mut *values;
            let mark = seed << 32 | step;
            match (cache.as_ref(), random.below(18)) {
                (None, _) => {
                    let align = 8 << random.below(6);
                    let capacity = 1 + random.below(200) as u32;
                    *flags = (self.flags)(&mut random);
                    let builder = ObjectCache::<Value>::builder("values").align(align);
                    let builder = builder.sheaf_capacity(capacity).debug(*flags);
                    *cache = Some(builder.create(self.yard).expect("a cache"));
                    *count = Count::default();
                }
                (Some(cache), 0..4) => match cache.try_alloc(Value::new(mark, count)) {
                    Ok(object) => held.push(object),
                    Err(_) => assert!(flags.has(DebugFlags::FAIL)),
                },
                (Some(cache), 4) => {
                    let bulk = cache.try_alloc_bulk(std::array::from_fn::<_, 40, _>(|nth| {
                        Value::new(mark << 8 | nth as u64, count)
                    }));
                    match bulk {
                        Ok(bulk) => held.extend(bulk),
                        Err(_) => assert!(flags.has(DebugFlags::FAIL)),
                    }
                }
                (Some(cache), 5) => {
                    let most = random.below(held.len() + 1);
                    cache.free_bulk(held.drain(most / 2..most));
                }
                (Some(cache), 6) => assert!(cache.shrink()),
                (Some(_), 7) if random.chance(20) => {
                    let gone = cache.take();
                    let live = count.load(Ordering::Relaxed);
                    drop(values);
                    match gone.expect("a cache").destroy() {
                        // Objects of others may have come back meanwhile.
                        Ok(()) => {}
                        Err(in_use) => {
                            assert!(live > 0, "{:?} live, none as the oracle has it", in_use.live);
                            drop(in_use.cache);
                        }
                    }
                }
                (Some(_), 8) => trays.push(self.trays.take()),
                (Some(_), 9) => drop(trays.pop()),
                (Some(_), 10) => self.handed.lock().expect("no panic").extend(held.pop()),
                (Some(_), 11) => held.extend(self.handed.lock().expect("no panic").pop()),
                (Some(cache), 12) => {
                    let wanted = random.below(100);
                    let Ok(mut spare) = cache.prefill(wanted) else {
                        assert!(flags.has(DebugFlags::FAIL));
                        continue;
                    };
                    assert_eq!(spare.len(), wanted);
                    let used = random.below(wanted + 1);
                    held.extend((0..used).map(|_| spare.alloc(Value::new(mark, count))));
                }
                (Some(_), 13) => {
                    if let Ok(mut spare) = self.trays.prefill(3) {
                        trays.push(spare.take());
                    }
                }
                _ if !held.is_empty() => drop(held.swap_remove(random.below(held.len()))),
                _ => {}
            }
            if let Some(value) = held.last() {
                value.check();
            }
            for tray in trays.iter_mut().rev().take(2) {
                tray.0.push(mark);
                assert!(tray.0.iter().all(|mark| mark >> 32 == seed));
            }
        }
    }

    /// All threads are gone: what the oracle has is what the caches have.
    fn compare(&self) {
        let handed = self.handed.lock().expect("no panic");
        for values in &self.values {
            let values = values.lock().expect("no panic");
            if let Some(cache) = &values.cache {
                let live = values.count.load(Ordering::Relaxed) as u64;
                assert_eq!(cache.live(), Some(live));
                let mut addresses = vec![std::ptr::null(); live as usize];
                let walked = cache.live_objects(&mut addresses).expect("no slow path");
                assert!(walked.count == live as usize || walked.with_free, "{walked:?}");
                let is_of = |object: &&ValueBox<E>| Arc::ptr_eq(&object.count, &values.count);
                let has = |object: &ValueBox<E>| addresses.contains(&&raw const **object);
                assert!(walked.with_free || handed.iter().filter(is_of).all(has));
            }
        }
        assert_eq!(self.trays.live(), Some(0));
    }
}

fn run<E: Engine>(yard: &'static ProcessYard<E>, seed: u64, flags: fn(&mut Random) -> DebugFlags) {
    let life = Life::new(yard, seed, flags);
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let life = &life;
            scope.spawn(move || life.live(seed << 8 | thread));
        }
    });
    life.compare();
    check(yard);
    drop(life);
    abandoned::sweep_abandoned(yard.start().expect("started"));
    assert_eq!(nr_caches(yard), 0, "seed {seed}");
    check(yard);
}

#[test]
fn lives_are_as_the_oracle_has_them() {
    in_each_mode("properties::lives_are_as_the_oracle_has_them", |yard| {
        (0..LIVES).for_each(|seed| run(yard, seed, plain));
    });
}

/// What was found wrong, in this process.
static WRONG: AtomicU64 = AtomicU64::new(0);
/// Allocations of caches that fail by rule.
static ASKED: AtomicU64 = AtomicU64::new(0);

const HOOKS: Hooks = Hooks {
    report: |finding| {
        // A cache is destroyed while it has objects: as planned.
        if finding.what != FindingKind::Remaining {
            eprintln!("{finding:?}");
            WRONG.fetch_add(1, Ordering::Relaxed);
        }
    },
    track: |track| (track.thread, track.frames[0]) = (1, 1),
    trace: |_, _, _| {},
    fails: || ASKED.fetch_add(1, Ordering::Relaxed).is_multiple_of(64),
};

/// A yard whose caches may have debugging, in which nothing is wrong.
fn check_debugged(yard: &'static ProcessYard<Any>) {
    let started = yard.start().expect("started");
    assert_eq!(started.validate(), Some(0));
    assert_eq!(WRONG.load(Ordering::Relaxed), 0);
}

#[test]
fn lives_with_debugging_are_as_the_oracle_has_them() {
    in_each_mode_of_any("properties::lives_with_debugging_are_as_the_oracle_has_them", |yard| {
        yard.start().expect("memory").on_findings(HOOKS);
        for seed in 0..DEBUGGED_LIVES {
            run(yard, seed, any_flags);
            check_debugged(yard);
        }
        assert!(ASKED.load(Ordering::Relaxed) > 0, "no allocation was asked to fail");
    });
}

/// Planted: in the middle of such a life somebody writes a byte behind an object.
#[test]
fn a_byte_behind_an_object_is_detected() {
    in_each_mode_of_any("properties::a_byte_behind_an_object_is_detected", |yard| {
        yard.start().expect("memory").on_findings(HOOKS);
        let life = Life::new(yard, 0, |_| DebugFlags::RED_ZONE);
        life.live(1);
        let cache = ObjectCache::<Value>::builder("values").debug(DebugFlags::RED_ZONE);
        let cache = cache.create(yard).expect("a cache");
        let object = CacheBox::into_raw(cache.alloc(Value::new(1, &Count::default())));
        check_debugged(yard);
        // SAFETY: the red zone, which the cache has behind each object.
        unsafe { object.add(1).cast::<u8>().write(0) };
        // SAFETY: of a box of this cache, and not used otherwise.
        drop(unsafe { CacheBox::from_raw(&cache, object) });
        assert_eq!(WRONG.load(Ordering::Relaxed), 1);
        std::panic::set_hook(Box::new(|_| {}));
        let checked = catch_unwind(AssertUnwindSafe(|| check_debugged(yard)));
        let _ = std::panic::take_hook();
        assert!(checked.is_err());
        // Its slab was set aside, with the object alone in it.
        drop((cache, life));
        std::process::exit(0);
    });
}

/// Planted: an object whose box is forgotten is live for the cache, and gone for the oracle.
#[test]
fn a_lost_object_is_detected() {
    in_each_mode("properties::a_lost_object_is_detected", |yard| {
        let life = Life::new(yard, 1, plain);
        life.live(1);
        let cache = ObjectCache::new("values", yard).expect("a cache");
        let count = Count::default();
        std::mem::forget(cache.alloc(Value::new(1, &count)));
        count.fetch_sub(1, Ordering::Relaxed);
        let flags = DebugFlags::NONE;
        *life.values[0].lock().expect("no panic") = Values { cache: Some(cache), flags, count };
        std::panic::set_hook(Box::new(|_| {}));
        let compared = catch_unwind(AssertUnwindSafe(|| life.compare()));
        let _ = std::panic::take_hook();
        assert!(compared.is_err());
    });
}
