//! Caches of objects that are kept: their constructor, reset and drop, when they run and when they
//! panic; and bulk calls of both kinds.

use super::in_modes::{in_each_mode, nr_caches};
use slabyard::{CacheBox, ObjectCache};
use slabyard_testkit::{Random, stay_on_this_cpu};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static MADE: AtomicUsize = AtomicUsize::new(0);
static RESET: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);
static PANICS: AtomicBool = AtomicBool::new(false);

/// Counts what happens to it; its memory is on the heap, so that a value that is lost or dropped
/// twice is detected.
struct Buffer {
    bytes: Vec<u8>,
    users: u32,
}

impl Buffer {
    fn new() -> Self {
        assert!(!PANICS.load(Ordering::Relaxed), "as planned");
        MADE.fetch_add(1, Ordering::Relaxed);
        Buffer { bytes: vec![7; 100], users: 0 }
    }

    fn reset(&mut self) {
        assert!(!PANICS.load(Ordering::Relaxed), "as planned");
        RESET.fetch_add(1, Ordering::Relaxed);
        self.bytes.fill(7);
        self.users += 1;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        assert_eq!(self.bytes.len(), 100);
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

fn count(what: &AtomicUsize) -> usize {
    what.load(Ordering::Relaxed)
}

#[test]
fn objects_are_made_once_and_dropped_with_their_slabs() {
    in_each_mode("kept::objects_are_made_once_and_dropped_with_their_slabs", |yard| {
        // What it left in rows of other CPUs would not be among the objects that are taken again.
        stay_on_this_cpu();
        let builder = ObjectCache::builder("buffers").constructor(Buffer::new);
        let cache = builder.reset(Buffer::reset).create(yard).expect("a cache");
        for _ in 0..50 {
            let mut held: Vec<_> = (0..1000).map(|_| cache.take()).collect();
            for buffer in &mut held {
                assert!(buffer.bytes.iter().all(|byte| *byte == 7));
                buffer.bytes.fill(9);
            }
        }
        let slabs = cache.bytes();
        assert_eq!(count(&RESET), 50_000);
        assert!((1000..2000).contains(&count(&MADE)), "{} of {slabs} bytes", count(&MADE));
        assert_eq!(count(&DROPPED), 0);
        let users: u32 =
            (0..1000).map(|_| cache.take()).collect::<Vec<_>>().iter().map(|b| b.users).sum();
        assert!(users > 30_000, "{users}");
        let one = cache.take();
        assert!(cache.shrink());
        assert!(count(&DROPPED) >= count(&MADE) - 200, "{} of {}", count(&DROPPED), count(&MADE));
        drop(cache);
        assert!(count(&DROPPED) < count(&MADE));
        drop(one);
        assert_eq!((count(&DROPPED), nr_caches(yard)), (count(&MADE), 0));
    });
}

#[test]
fn panics_leave_every_object_whole() {
    in_each_mode("kept::panics_leave_every_object_whole", |yard| {
        std::panic::set_hook(Box::new(|_| {}));
        let builder = ObjectCache::builder("buffers").constructor(Buffer::new);
        let cache = builder.reset(Buffer::reset).create(yard).expect("a cache");
        let mut random = Random::new(1);
        let mut held = Vec::new();
        let (mut panicked, mut refused) = (0, 0);
        for _ in 0..20_000 {
            PANICS.store(random.chance(10), Ordering::Relaxed);
            if random.chance(50) {
                match catch_unwind(AssertUnwindSafe(|| cache.take())) {
                    Ok(buffer) => held.push(buffer),
                    Err(_) => refused += 1,
                }
            } else if !held.is_empty() {
                let buffer: CacheBox<_, _, _> = held.swap_remove(random.below(held.len()));
                panicked += usize::from(catch_unwind(AssertUnwindSafe(|| drop(buffer))).is_err());
            }
            assert!(held.iter().all(|buffer| buffer.bytes.len() == 100));
        }
        PANICS.store(false, Ordering::Relaxed);
        let _ = std::panic::take_hook();
        assert!(panicked > 500 && refused > 20, "{panicked} {refused}");
        assert_eq!(cache.live(), Some(held.len() as u64));
        assert_eq!(count(&DROPPED), panicked);
        drop((held, cache));
        assert_eq!(count(&DROPPED), count(&MADE));
    });
}

/// Constructors allocate and free objects of the same yard; so do drops, at the end of a slab.
#[test]
fn objects_hold_objects_of_other_caches() {
    in_each_mode("kept::objects_hold_objects_of_other_caches", |yard| {
        struct Holder(CacheBox<String>);
        static INNER: std::sync::OnceLock<ObjectCache<String>> = std::sync::OnceLock::new();
        let inner = INNER.get_or_init(|| ObjectCache::new("inner", yard).expect("a cache"));
        let make = || {
            let inner = INNER.get().expect("made above");
            drop(inner.alloc("gone".into()));
            Holder(inner.alloc("held".into()))
        };
        let cache = ObjectCache::builder("outer").constructor(make).create(yard).expect("a cache");
        for _ in 0..5 {
            let held: Vec<_> = (0..3000).map(|_| cache.take()).collect();
            assert!(held.iter().all(|holder| *holder.0 == "held"));
            drop(held);
            assert!(cache.shrink());
            // The slow path that ended the slabs frees what their objects held.
            assert!(inner.shrink());
            assert_eq!(inner.live(), Some(0));
        }
        assert_eq!(cache.live(), Some(0));
    });
}

#[test]
fn kept_objects_change_threads() {
    in_each_mode("kept::kept_objects_change_threads", |yard| {
        let builder = ObjectCache::builder("buffers").constructor(Buffer::new);
        let cache = builder.reset(Buffer::reset).create(yard).expect("a cache");
        let barrier = Barrier::new(8);
        let (send, receive) = std::sync::mpsc::sync_channel(1000);
        let receive = std::sync::Mutex::new(receive);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (cache, barrier, send, receive) = (&cache, &barrier, send.clone(), &receive);
                scope.spawn(move || {
                    barrier.wait();
                    (0..20_000).for_each(|_| send.send(cache.take()).expect("a receiver"));
                });
                scope.spawn(move || {
                    barrier.wait();
                    for _ in 0..20_000 {
                        let next = receive.lock().expect("no panic").recv();
                        let mut buffer: CacheBox<Buffer, _, _> = next.expect("a sender");
                        assert!(buffer.bytes.iter().all(|byte| *byte == 7));
                        buffer.bytes[99] = 1;
                    }
                });
            }
        });
        assert_eq!((cache.live(), count(&RESET)), (Some(0), 80_000));
        drop((send, receive));
        cache.destroy().expect("no object is live");
        assert_eq!(count(&DROPPED), count(&MADE));
    });
}

#[test]
fn bulks_are_as_single_calls() {
    in_each_mode("kept::bulks_are_as_single_calls", |yard| {
        let cache = ObjectCache::<String, _, _>::new("names", yard).expect("a cache");
        let mut random = Random::new(3);
        let mut held = Vec::new();
        for round in 0..3000 {
            match random.below(4) {
                0 => held.extend(
                    cache.alloc_bulk(
                        std::array::from_fn::<_, 32, _>(|n| (round, (round * 100 + n).to_string()))
                            .map(|(_, name)| name),
                    ),
                ),
                1 => held.extend(cache.alloc_bulk([round.to_string(), String::new()])),
                _ => {
                    let most = held.len().min(random.below(100));
                    cache.free_bulk(held.drain(..most));
                }
            }
        }
        let mut addresses: Vec<_> = held.iter().map(|o| std::ptr::from_ref(&**o)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!((addresses.len(), cache.live()), (held.len(), Some(held.len() as u64)));
        let other = ObjectCache::<String, _, _>::new("others", yard).expect("a cache");
        held.extend(other.alloc_bulk(["a".into(), "b".into()]));
        cache.free_bulk(held);
        assert_eq!((cache.live(), other.live()), (Some(0), Some(0)));
    });
}

#[test]
fn a_panic_in_a_bulk_frees_all() {
    struct Panics(bool);
    impl Drop for Panics {
        fn drop(&mut self) {
            assert!(!self.0, "as planned");
        }
    }
    in_each_mode("kept::a_panic_in_a_bulk_frees_all", |yard| {
        std::panic::set_hook(Box::new(|_| {}));
        let cache = ObjectCache::<Panics, _, _>::new("panics", yard).expect("a cache");
        for nth in 0..32 {
            let objects = cache.alloc_bulk(std::array::from_fn::<_, 32, _>(|n| Panics(n == nth)));
            let freed = catch_unwind(AssertUnwindSafe(|| cache.free_bulk(objects)));
            assert!(freed.is_err());
        }
        let made = catch_unwind(AssertUnwindSafe(|| {
            cache.try_alloc_bulk_with::<32>(|nth| {
                assert!(nth < 20, "as planned");
                Panics(false)
            })
        }));
        assert!(made.is_err());
        let _ = std::panic::take_hook();
        assert_eq!(cache.live(), Some(0));
    });
}
