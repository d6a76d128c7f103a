//! Random lives of several caches, from seeds: threads make caches, allocate one by one and in bulk,
//! hand objects over, free, shrink, drop handles that have objects, and destroy. An oracle knows what
//! each object holds and which cache it is of, and the whole yard is checked at each life's end.

use super::in_modes::{check, in_each_mode, nr_caches};
use super::random::Random;
use slabyard::typed::{Fresh, Kept};
use slabyard::{CacheBox, ObjectCache, ProcessYard};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

const LIVES: u64 = 60;
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

struct Values {
    cache: Option<ObjectCache<Value>>,
    count: Count,
}

struct Life {
    yard: &'static ProcessYard,
    values: Vec<Mutex<Values>>,
    trays: ObjectCache<Tray, Kept>,
    handed: Mutex<Vec<CacheBox<Value>>>,
}

impl Life {
    fn new(yard: &'static ProcessYard) -> Self {
        let empty = || Mutex::new(Values { cache: None, count: Count::default() });
        let builder = ObjectCache::<Tray>::builder("trays").constructor(Tray::default);
        let trays = builder.reset(|tray| tray.0.clear()).create(yard).expect("a cache");
        Life { yard, values: (0..5).map(|_| empty()).collect(), trays, handed: Mutex::default() }
    }

    /// One thread's steps.
    fn live(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut held: Vec<CacheBox<Value, Fresh>> = Vec::new();
        let mut trays: Vec<CacheBox<Tray, Kept>> = Vec::new();
        for step in 0..STEPS as u64 {
            let mut values = self.values[random.below(self.values.len())].lock().expect("no panic");
            let Values { cache, count } = &mut *values;
            let mark = seed << 32 | step;
            match (cache.as_ref(), random.below(16)) {
                (None, _) => {
                    let align = 8 << random.below(6);
                    let capacity = 1 + random.below(200) as u32;
                    let builder = ObjectCache::<Value>::builder("values").align(align);
                    let builder = builder.sheaf_capacity(capacity);
                    *cache = Some(builder.create(self.yard).expect("a cache"));
                    *count = Count::default();
                }
                (Some(cache), 0..4) => held.push(cache.alloc(Value::new(mark, count))),
                (Some(cache), 4) => {
                    held.extend(cache.alloc_bulk(std::array::from_fn::<_, 40, _>(|nth| {
                        Value::new(mark << 8 | nth as u64, count)
                    })));
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
        for values in &self.values {
            let values = values.lock().expect("no panic");
            if let Some(cache) = &values.cache {
                let live = values.count.load(Ordering::Relaxed) as u64;
                assert_eq!(cache.live(), Some(live));
            }
        }
        assert_eq!(self.trays.live(), Some(0));
    }
}

fn run(yard: &'static ProcessYard, seed: u64) {
    let life = Life::new(yard);
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let life = &life;
            scope.spawn(move || life.live(seed << 8 | thread));
        }
    });
    life.compare();
    check(yard);
    drop(life);
    yard.start().expect("started").sweep_abandoned();
    assert_eq!(nr_caches(yard), 0, "seed {seed}");
    check(yard);
}

#[test]
fn lives_are_as_the_oracle_has_them() {
    in_each_mode("properties::lives_are_as_the_oracle_has_them", |yard| {
        (0..LIVES).for_each(|seed| run(yard, seed));
    });
}

/// Planted: an object whose box is forgotten is live for the cache, and gone for the oracle.
#[test]
fn a_lost_object_is_detected() {
    in_each_mode("properties::a_lost_object_is_detected", |yard| {
        let life = Life::new(yard);
        life.live(1);
        let cache = ObjectCache::new("values", yard).expect("a cache");
        let count = Count::default();
        std::mem::forget(cache.alloc(Value::new(1, &count)));
        count.fetch_sub(1, Ordering::Relaxed);
        *life.values[0].lock().expect("no panic") = Values { cache: Some(cache), count };
        std::panic::set_hook(Box::new(|_| {}));
        let compared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| life.compare()));
        let _ = std::panic::take_hook();
        assert!(compared.is_err());
    });
}
