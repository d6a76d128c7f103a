//! Caches of values: what boxes guarantee across threads, panics, forks and handles that are gone.

use super::in_modes::{check, in_each_mode, nr_caches};
use slabyard::created::abandoned;
use slabyard::platform::linux::Mode;
use slabyard::typed::CreateError;
use slabyard::yard::Settings;
use slabyard::{CacheBox, ObjectCache, ProcessYard};
use slabyard_testkit::Random;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, mpsc};

/// More than there are CPUs.
const THREADS: usize = 8;

/// A value that knows where it was written, and counts its drops.
struct Marked<'a> {
    mark: u64,
    copies: [u64; 5],
    drops: &'a AtomicUsize,
}

impl<'a> Marked<'a> {
    fn new(mark: u64, drops: &'a AtomicUsize) -> Self {
        Marked { mark, copies: [mark; 5], drops }
    }

    fn check(&self) {
        assert!(self.copies.iter().all(|copy| *copy == self.mark), "{:?}", self.copies);
    }
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        self.check();
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn objects_change_threads_and_keep_their_values() {
    in_each_mode("values::objects_change_threads_and_keep_their_values", |yard| {
        const ROUNDS: usize = 20;
        const OBJECTS: usize = 3000;
        let drops = AtomicUsize::new(0);
        let cache = ObjectCache::<Marked<'_>, _, _>::new("marked", yard).expect("a cache");
        let handed: [Mutex<Vec<CacheBox<Marked<'_>>>>; THREADS] = Default::default();
        let barrier = Barrier::new(THREADS);
        let work = |thread: usize| {
            let mut random = Random::new(thread as u64);
            for round in 0..ROUNDS {
                let mark = |nth: usize| ((thread * ROUNDS + round) * OBJECTS + nth) as u64;
                let mut own: Vec<_> =
                    (0..OBJECTS).map(|nth| cache.alloc(Marked::new(mark(nth), &drops))).collect();
                for _ in 0..OBJECTS / 2 {
                    own.swap_remove(random.below(own.len()));
                }
                handed[(thread + 1) % THREADS].lock().expect("no panic").extend(own);
                barrier.wait();
                let mine = std::mem::take(&mut *handed[thread].lock().expect("no panic"));
                mine.iter().for_each(|object| object.check());
                barrier.wait();
            }
        };
        let work = &work;
        std::thread::scope(|scope| {
            (0..THREADS).for_each(|nth| drop(scope.spawn(move || work(nth))));
        });
        assert_eq!(drops.load(Ordering::Relaxed), THREADS * ROUNDS * OBJECTS);
        assert_eq!(cache.live(), Some(0));
        assert_eq!(nr_caches(yard), 1);
        drop(cache);
        assert_eq!(nr_caches(yard), 0);
    });
}

#[test]
fn live_objects_are_counted_exactly() {
    in_each_mode("values::live_objects_are_counted_exactly", |yard| {
        let cache = ObjectCache::<[u64; 3], _, _>::new("counted", yard).expect("a cache");
        let mut random = Random::new(1);
        let mut held = Vec::new();
        for _ in 0..200 {
            for _ in 0..random.below(100) {
                held.push(cache.alloc([7; 3]));
            }
            for _ in 0..random.below(held.len() + 1) {
                held.swap_remove(random.below(held.len()));
            }
            assert_eq!(cache.live(), Some(held.len() as u64));
        }
    });
}

#[test]
fn boxes_outlive_their_handle() {
    in_each_mode("values::boxes_outlive_their_handle", |yard| {
        for objects in [1, 63, 5000] {
            let cache = ObjectCache::<String, _, _>::new("orphans", yard).expect("a cache");
            let boxes: Vec<_> = (0..objects).map(|n| cache.alloc(n.to_string())).collect();
            drop(cache);
            assert_eq!(nr_caches(yard), 1);
            for (n, object) in boxes.into_iter().enumerate() {
                assert_eq!(nr_caches(yard), 1);
                assert_eq!(*object, n.to_string());
            }
            assert_eq!(nr_caches(yard), 0);
        }
    });
}

/// The last box goes in another thread, while the handle goes in this one.
#[test]
fn the_last_box_destroys_the_cache_in_any_thread() {
    in_each_mode("values::the_last_box_destroys_the_cache_in_any_thread", |yard| {
        for round in 0..300 {
            let cache = ObjectCache::<u64, _, _>::new("orphans", yard).expect("a cache");
            let barrier = Barrier::new(4);
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let boxes: Vec<_> = (0..round % 80).map(|n| cache.alloc(n * thread)).collect();
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        for (n, object) in (0..).zip(boxes) {
                            assert_eq!(*object, n * thread);
                        }
                    });
                }
                barrier.wait();
                drop(cache);
            });
            if yard.start().expect("started").platform().mode() == Mode::Slots {
                // A push may have come after the last look.
                abandoned::sweep_abandoned(yard.start().expect("started"));
            }
            assert_eq!(nr_caches(yard), 0, "round {round}");
        }
    });
}

#[test]
fn a_cache_with_objects_is_not_destroyed() {
    in_each_mode("values::a_cache_with_objects_is_not_destroyed", |yard| {
        let cache = ObjectCache::<u64, _, _>::new("busy", yard).expect("a cache");
        let boxes: Vec<_> = (0..100).map(|n| cache.alloc(n)).collect();
        let in_use = cache.destroy().expect_err("100 objects");
        assert_eq!(in_use.live, Some(100));
        assert!(in_use.to_string().contains("100 objects"));
        let cache = in_use.cache;
        assert_eq!(*cache.alloc(7), 7);
        drop(boxes);
        assert!(cache.destroy().is_ok());
        assert_eq!(nr_caches(yard), 0);
    });
}

#[test]
fn a_panic_in_drop_frees_the_memory() {
    struct Panics(bool);
    impl Drop for Panics {
        fn drop(&mut self) {
            assert!(!self.0, "as planned");
        }
    }
    in_each_mode("values::a_panic_in_drop_frees_the_memory", |yard| {
        std::panic::set_hook(Box::new(|_| {}));
        let cache = ObjectCache::<Panics, _, _>::new("panics", yard).expect("a cache");
        for n in 0..5000 {
            let object = cache.alloc(Panics(n % 2 == 0));
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(object)));
            assert_eq!(dropped.is_err(), n % 2 == 0);
        }
        let _ = std::panic::take_hook();
        assert_eq!(cache.live(), Some(0));
    });
}

#[test]
fn objects_are_aligned_as_asked() {
    #[repr(align(4096))]
    struct Page([u8; 100]);
    in_each_mode("values::objects_are_aligned_as_asked", |yard| {
        let pages = ObjectCache::<Page, _, _>::new("pages", yard).expect("a cache");
        let held: Vec<_> = (0..50).map(|n| pages.alloc(Page([n; 100]))).collect();
        for (n, page) in held.iter().enumerate() {
            assert!(std::ptr::from_ref(&**page).addr().is_multiple_of(4096));
            assert_eq!(page.0, [n as u8; 100]);
        }
        for align in (0..=14).map(|order| 1usize << order) {
            let builder = ObjectCache::<u8>::builder("bytes").align(align);
            let bytes = builder.create(yard).expect("a cache");
            let held: Vec<_> = (0..20).map(|n| bytes.alloc(n)).collect();
            assert!(held.iter().all(|b| std::ptr::from_ref(&**b).addr().is_multiple_of(align)));
        }
        for align in [0, 3, 48, 32 << 10] {
            let error = ObjectCache::<u8>::builder("bytes").align(align).create(yard);
            let error = error.expect_err("no such alignment");
            assert_eq!(error, CreateError::Object { bytes: 1, align });
        }
        #[allow(clippy::large_stack_arrays, reason = "never made")]
        let large = ObjectCache::<[u8; 32769], _, _>::new("large", yard);
        assert!(large.is_err());
    });
}

/// Objects without bytes have addresses of their own, and are counted as others are.
#[test]
fn objects_without_bytes_are_objects() {
    thread_local!(static DROPS: Cell<usize> = const { Cell::new(0) });
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPS.set(DROPS.get() + 1);
        }
    }
    in_each_mode("values::objects_without_bytes_are_objects", |yard| {
        let cache = ObjectCache::<Nothing, _, _>::new("nothing", yard).expect("a cache");
        let held: Vec<_> = (0..1000).map(|_| cache.alloc(Nothing)).collect();
        let mut addresses: Vec<_> = held.iter().map(|o| std::ptr::from_ref(&**o)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 1000);
        assert_eq!(cache.live(), Some(1000));
        drop(held);
        assert_eq!((DROPS.get(), cache.live()), (1000, Some(0)));
    });
}

#[test]
fn a_pointer_goes_out_and_comes_back() {
    in_each_mode("values::a_pointer_goes_out_and_comes_back", |yard| {
        let cache = ObjectCache::<String, _, _>::new("names", yard).expect("a cache");
        let pointers: Vec<_> =
            (0..500).map(|n| CacheBox::into_raw(cache.alloc(n.to_string()))).collect();
        assert_eq!(cache.live(), Some(500));
        for (n, pointer) in pointers.into_iter().enumerate() {
            // SAFETY: it came from `into_raw` of this cache.
            let name = unsafe { CacheBox::from_raw(&cache, pointer) };
            assert_eq!(CacheBox::into_inner(name), n.to_string());
        }
        assert_eq!(cache.live(), Some(0));
        let leaked: &'static mut String = CacheBox::leak(cache.alloc("leaked".into()));
        drop(cache);
        assert_eq!(leaked, "leaked");
        assert_eq!(nr_caches(yard), 1);
    });
}

#[test]
fn a_box_is_two_words_with_its_option() {
    assert_eq!(size_of::<CacheBox<[u64; 9]>>(), 16);
    assert_eq!(size_of::<Option<CacheBox<[u64; 9]>>>(), 16);
}

#[test]
fn shrinking_ends_what_no_object_needs() {
    in_each_mode("values::shrinking_ends_what_no_object_needs", |yard| {
        let cache = ObjectCache::<[u64; 32], _, _>::new("burst", yard).expect("a cache");
        let mut held: Vec<_> = (0..20_000).map(|n| cache.alloc([n; 32])).collect();
        let most = cache.bytes();
        held.truncate(100);
        assert!(cache.shrink());
        assert!(cache.bytes() * 20 < most, "{} of {most}", cache.bytes());
        assert!((0..).zip(&held).all(|(n, object)| **object == [n; 32]));
    });
}

/// Each yard needs rows with others of zeros 4 GiB behind them, among the terabytes of all yards.
#[test]
fn many_yards_start_in_one_process() {
    static YARDS: [ProcessYard; 8] = [const { ProcessYard::new() }; 8];
    in_each_mode("values::many_yards_start_in_one_process", |_| {
        for yard in &YARDS {
            let cache = ObjectCache::<u64, _, _>::new("numbers", yard).expect("a cache");
            assert_eq!(*cache.alloc(7), 7);
        }
    });
}

#[test]
fn both_sides_of_a_fork_go_on() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(status: i32) -> !;
    }
    in_each_mode("values::both_sides_of_a_fork_go_on", |yard| {
        let cache = ObjectCache::<u64, _, _>::new("forked", yard).expect("a cache");
        let held: Vec<_> = (0..2000).map(|n| cache.alloc(n)).collect();
        let (stop, stopped) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let (cache, stopped) = (&cache, stopped);
            scope.spawn(move || {
                while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    let boxes: Vec<_> = (0..500).map(|n| cache.alloc(n)).collect();
                    assert!((0..).zip(boxes).all(|(n, object)| *object == n));
                }
            });
            for _ in 0..20 {
                // SAFETY: the child makes no call that needs a lock of the other thread's.
                match unsafe { fork() } {
                    0 => {
                        let own = cache.alloc(7);
                        let sound = *own == 7 && (0..).zip(&held).all(|(n, o)| **o == n);
                        let verified = yard.start().expect("started").verify();
                        let sound = sound && verified.is_some_and(|result| result.is_ok());
                        // SAFETY: it ends the child.
                        unsafe { _exit(if sound { 17 } else { 1 }) }
                    }
                    child => {
                        let mut status = 0;
                        // SAFETY: our child.
                        assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
                        assert_eq!(status, 17 << 8);
                    }
                }
            }
            drop(stop);
        });
    });
}

/// Threads come and go, more than there are private slots.
#[test]
fn many_threads_come_and_go() {
    in_each_mode("values::many_threads_come_and_go", |yard| {
        let cache = ObjectCache::<u64, _, _>::new("threads", yard).expect("a cache");
        for round in 0..40 {
            std::thread::scope(|scope| {
                for thread in 0..16 {
                    let cache = &cache;
                    scope.spawn(move || {
                        let held: Vec<_> = (0..200).map(|n| cache.alloc(n * thread)).collect();
                        assert!((0..).zip(held).all(|(n, object)| *object == n * thread));
                    });
                }
            });
            assert_eq!(cache.live(), Some(0), "round {round}");
        }
    });
}

/// Several yards have the same threads: with private slots, each thread's slot is a row of each.
#[test]
fn a_process_may_have_several_yards() {
    static OTHER: ProcessYard = ProcessYard::new();
    static SLOTS: ProcessYard = ProcessYard::new().mode(Mode::Slots);
    in_each_mode("values::a_process_may_have_several_yards", |yard| {
        let mode = yard.start().expect("memory").platform().mode();
        let other = if mode == Mode::Slots { &SLOTS } else { &OTHER };
        let (one, two): (ObjectCache<u64>, ObjectCache<u64>) = (
            ObjectCache::new("one", yard).expect("a cache"),
            ObjectCache::new("two", other).expect("a cache"),
        );
        let work = |first: &ObjectCache<u64>, second: &ObjectCache<u64>, mark: u64| {
            let mut held = HashMap::new();
            for n in 0..20_000 {
                let cache = if n % 3 == 0 { first } else { second };
                if let Some((_, object)) = held.insert(n % 700, (n ^ mark, cache.alloc(n ^ mark))) {
                    drop(object);
                }
                held.values().take(3).for_each(|(mark, object)| assert_eq!(**object, *mark));
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let (one, two) = if thread % 2 == 0 { (&one, &two) } else { (&two, &one) };
                scope.spawn(move || work(one, two, thread << 40));
            }
        });
        assert_eq!((one.live(), two.live()), (Some(0), Some(0)));
        check(other);
    });
}

/// A yard whose address space is used up refuses, and serves again once there is room.
#[test]
fn refused_memory_is_an_error() {
    static SMALL: ProcessYard = ProcessYard::new().settings(FEW);
    static SMALL_SLOTS: ProcessYard = ProcessYard::new().settings(FEW).mode(Mode::Slots);
    const FEW: Settings = Settings { reserve_bytes: 16 << 20, decay_ms: 250 };
    in_each_mode("values::refused_memory_is_an_error", |yard| {
        let mode = yard.start().expect("memory").platform().mode();
        let small = if mode == Mode::Slots { &SMALL_SLOTS } else { &SMALL };
        let cache = ObjectCache::<[u64; 512], _, _>::new("limited", small).expect("a cache");
        let mut held = Vec::new();
        let error = loop {
            match cache.try_alloc([1; 512]) {
                Ok(object) => held.push(object),
                Err(error) => break error,
            }
        };
        assert_eq!((error.value, error.to_string().is_empty()), ([1; 512], false));
        assert!((3000..4096).contains(&held.len()), "{}", held.len());
        let panics = catch_unwind(AssertUnwindSafe(|| cache.alloc([1; 512])));
        assert!(panics.is_err());
        let full = held.len();
        held.truncate(full / 2);
        held.push(cache.try_alloc([2; 512]).expect("there is room"));
        assert_eq!(cache.live(), Some(full as u64 / 2 + 1));
        // Caches are refused, too, and come once there is room.
        while let Ok(object) = cache.try_alloc([3; 512]) {
            held.push(object);
        }
        let others = (0..).map_while(|_| ObjectCache::<u64, _, _>::new("other", small).ok());
        let others: Vec<_> = others.take(5000).collect();
        assert!(others.len() < 5000);
        drop((others, held));
        assert!(ObjectCache::<u64, _, _>::new("other", small).is_ok());
        check(small);
    });
}
