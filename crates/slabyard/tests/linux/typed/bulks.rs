//! Bulks and batches: each object is allocated and freed once, also if a value is not made, or
//! panics as it ends, or an object lies in a mapping.

use super::in_modes::in_each_mode;
use slabyard::platform::Threads;
use slabyard::typed::Batch;
use slabyard::{ObjectCache, ProcessYard};
use slabyard_testkit::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Counts itself; one that is marked panics as it ends. Its memory is on the heap, so that a value
/// that is lost or dropped twice is detected.
struct Value {
    number: Box<usize>,
    panics: bool,
}

impl Value {
    fn new(number: usize) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Value { number: Box::new(number), panics: false }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        assert!(!self.panics, "as planned");
    }
}

/// Its sheaves have a few objects.
fn cache_of(yard: &'static ProcessYard) -> ObjectCache<Value> {
    let builder = ObjectCache::<Value>::builder("values").sheaf_capacity(30);
    builder.create(yard).expect("a cache")
}

fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// A batch whose values are as they were made.
fn is_intact<const N: usize>(batch: &Batch<'_, Value, N>) -> bool {
    batch.iter().map(|value| *value.number).eq(0..N)
}

#[test]
fn batches_come_and_go_as_a_whole() {
    in_each_mode("bulks::batches_come_and_go_as_a_whole", |yard| {
        let cache = cache_of(yard);
        let mut random = Random::new(5);
        let mut held = Vec::new();
        let mut batches = Vec::new();
        for _ in 0..3000 {
            match random.below(5) {
                // Those of 300 are more than one sequence takes, and than a sheaf has.
                0 => assert!(is_intact(&cache.alloc_batch::<300>(Value::new))),
                1 => held.extend(cache.alloc_batch::<7>(Value::new).into_boxes()),
                2 if batches.len() < 20 => batches.push(cache.alloc_batch::<32>(Value::new)),
                2 => drop(batches.swap_remove(random.below(20))),
                _ => cache.free_bulk(held.drain(random.below(held.len() + 1)..)),
            }
        }
        assert!(batches.iter().all(is_intact));
        let mut addresses: Vec<_> = batches.iter().flat_map(Batch::iter).collect();
        addresses.extend(held.iter().map(|value| &**value));
        addresses.sort_unstable_by_key(|value| std::ptr::from_ref(*value));
        addresses.dedup_by_key(|value| std::ptr::from_ref(*value));
        assert_eq!(addresses.len(), live());
        assert_eq!(cache.live(), Some(live() as u64));
        drop((batches, held));
        assert_eq!((cache.live(), live()), (Some(0), 0));
        cache.destroy().expect("no object is live");
    });
}

#[test]
fn a_panic_in_a_batch_frees_all() {
    in_each_mode("bulks::a_panic_in_a_batch_frees_all", |yard| {
        std::panic::set_hook(Box::new(|_| {}));
        let cache = cache_of(yard);
        for nth in 0..32 {
            let made = catch_unwind(AssertUnwindSafe(|| {
                drop(cache.alloc_batch::<32>(|n| {
                    assert!(n < nth, "as planned");
                    Value::new(n)
                }));
            }));
            assert!(made.is_err());
            assert_eq!((cache.live(), live()), (Some(0), 0), "{nth} were made");
            let mut batch = cache.alloc_batch::<32>(Value::new);
            batch[nth].panics = true;
            assert!(catch_unwind(AssertUnwindSafe(|| drop(batch))).is_err());
            assert_eq!((cache.live(), live()), (Some(0), 0), "{nth} panicked");
        }
        let _ = std::panic::take_hook();
    });
}

/// What a signal handler allocates that interrupted a slow path, after the thread `primed` its stack:
/// what that does not have lies in mappings.
fn in_a_handler<T>(yard: &'static ProcessYard, prime: impl Fn(), alloc: impl Fn() -> T) -> T {
    let depth = &yard.start().expect("memory").platform().thread().depth;
    prime();
    let before = depth.fetch_or(1, Ordering::Relaxed);
    let made = alloc();
    depth.store(before, Ordering::Relaxed);
    made
}

#[test]
fn an_object_in_a_mapping_may_be_one_of_a_bulk() {
    in_each_mode("bulks::an_object_in_a_mapping_may_be_one_of_a_bulk", |yard| {
        let cache = cache_of(yard);
        let whole = yard.start().expect("memory");
        let in_slab = |value: &Value| {
            whole.heap.class_at(std::ptr::from_ref(value).addr()) == Some(cache.id().number())
        };
        let prime = || drop(cache.alloc_batch::<20>(Value::new));
        let mut nr_mixed = 0;
        for round in 0..12 {
            let batch = in_a_handler(yard, prime, || cache.alloc_batch::<300>(Value::new));
            assert!(is_intact(&batch));
            let nr_in_slabs = batch.iter().filter(|value| in_slab(value)).count();
            assert!(nr_in_slabs < 300);
            nr_mixed += usize::from(nr_in_slabs > 0);
            match round % 4 {
                0 => drop(batch),
                1 => drop(batch.into_boxes()),
                2 => cache.free_bulk(batch.into_boxes()),
                _ => {
                    drop(batch);
                    let boxes = in_a_handler(yard, prime, || {
                        cache.try_alloc_bulk_with::<300>(Value::new).expect("memory")
                    });
                    assert!(boxes.iter().filter(|value| in_slab(value)).count() < 300);
                    assert!(boxes.iter().map(|value| *value.number).eq(0..300));
                    cache.free_bulk(boxes);
                }
            }
            assert_eq!((cache.live(), live()), (Some(0), 0));
        }
        // A thread may move to a CPU whose stack is empty, but not each time.
        assert!(nr_mixed > 0);
        cache.destroy().expect("no object is live");
    });
}
