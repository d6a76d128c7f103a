//! Prefilled sheaves of typed caches, and walks over their live objects.

use super::in_modes::{check, in_each_mode};
use slabyard::platform::PerCpu;
use slabyard::platform::linux::Mode;
use slabyard::yard::Settings;
use slabyard::{CacheBox, ObjectCache, ProcessYard};
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

type Large = [u64; 512];

const FEW: Settings = Settings { reserve_bytes: 16 << 20, decay_ms: 250 };
static SMALL: ProcessYard = ProcessYard::new().settings(FEW);
static SMALL_SLOTS: ProcessYard = ProcessYard::new().settings(FEW).mode(Mode::Slots);

/// A yard of the same mode, whose memory a test can use up.
fn small(yard: &'static ProcessYard) -> &'static ProcessYard {
    let mode = yard.start().expect("memory").platform().mode();
    if mode == Mode::Slots { &SMALL_SLOTS } else { &SMALL }
}

/// Whichever page is the first to be refused, between prefill and use or long before: what was
/// prefilled is there, and an allocation beside it is refused.
#[test]
fn what_was_prefilled_is_there_whatever_is_refused() {
    in_each_mode("prefilled::what_was_prefilled_is_there_whatever_is_refused", |yard| {
        let small = small(yard);
        let cache = ObjectCache::<Large, _, _>::new("limited", small).expect("a cache");
        for wanted in [1, 2, 7, 8, 9, 63, 64, 65, 500, 1500] {
            let mut spare = cache.prefill(wanted).expect("memory");
            assert_eq!((spare.len(), cache.live()), (wanted, Some(wanted as u64)));
            let mut held: Vec<CacheBox<Large>> = Vec::new();
            // Each of these pages might be the one that the sheaf's next object needs.
            while let Ok(object) = cache.try_alloc([1; 512]) {
                held.push(object);
            }
            let had = held.len();
            assert!(cache.prefill(wanted).is_err(), "there is no memory for it");
            assert!(cache.try_alloc([2; 512]).is_err());
            held.extend((0..wanted).map(|nth| spare.alloc([nth as u64; 512])));
            assert!(spare.try_alloc([3; 512]).is_err_and(|value| value == [3; 512]));
            for (nth, object) in held[had..].iter().enumerate() {
                assert_eq!(**object, [nth as u64; 512]);
            }
            // Refused half way, it keeps what it has; filled again once there is room.
            assert!(spare.refill(wanted).is_err());
            held.truncate(had / 2);
            spare.refill(wanted).expect("there is room");
            assert!(spare.len() >= wanted);
            drop((spare, held));
            assert_eq!(cache.live(), Some(0));
        }
        check(small);
    });
}

static MADE: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Kept;

impl Kept {
    fn new() -> Self {
        MADE.fetch_add(1, Ordering::Relaxed);
        Kept
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Kept objects of a sheaf are made when they are taken, and keep their value when they go back
/// without having been.
#[test]
fn kept_objects_of_a_sheaf_are_made_as_they_are_taken() {
    in_each_mode("prefilled::kept_objects_of_a_sheaf_are_made_as_they_are_taken", |yard| {
        let made = || MADE.load(Ordering::Relaxed);
        let builder = ObjectCache::<Kept>::builder("kept").constructor(Kept::new);
        let cache = builder.create(yard).expect("a cache");
        let mut spare = cache.prefill(100).expect("memory");
        assert_eq!((made(), cache.live()), (0, Some(100)));
        let taken: Vec<_> = (0..60).map(|_| spare.take()).collect();
        assert_eq!((made(), spare.len()), (60, 40));
        drop((taken, spare));
        assert_eq!(cache.live(), Some(0));
        let mut spare = cache.prefill(100).expect("memory");
        let taken: Vec<_> = std::iter::from_fn(|| spare.try_take()).collect();
        assert_eq!(taken.len(), 100);
        // Those of CPUs on which the thread ran before may lie there still.
        assert!((100..160).contains(&made()), "{}", made());
        drop((taken, spare));
        drop(cache);
        assert_eq!(DROPPED.load(Ordering::Relaxed), made());
    });
}

/// A sheaf goes from thread to thread, and its objects too.
#[test]
fn a_sheaf_is_used_and_dropped_by_another_thread() {
    in_each_mode("prefilled::a_sheaf_is_used_and_dropped_by_another_thread", |yard| {
        let cache = ObjectCache::<u64>::new("sent", yard).expect("a cache");
        std::thread::scope(|scope| {
            for nth in 0..8 {
                let mut spare = cache.prefill(2000).expect("memory");
                scope.spawn(move || {
                    let some: Vec<_> = (0..1500).map(|_| spare.alloc(nth)).collect();
                    assert!(some.iter().all(|object| **object == nth));
                });
            }
        });
        assert_eq!(cache.live(), Some(0));
    });
}

/// The walk has what the boxes have, in each thread, of whatever else the cache has parked.
#[test]
fn a_walk_has_the_addresses_of_all_boxes() {
    in_each_mode("prefilled::a_walk_has_the_addresses_of_all_boxes", |yard| {
        const THREADS: usize = 6;
        let cache = ObjectCache::<u64>::new("walked", yard).expect("a cache");
        let (begun, walked) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
        let (cache, begun, walked) = (&cache, &begun, &walked);
        std::thread::scope(|scope| {
            let threads = [(); THREADS].map(|()| {
                scope.spawn(move || {
                    let mut held: Vec<_> = (0..1000).map(|n| cache.alloc(n)).collect();
                    held.retain(|object| **object % 3 == 0);
                    begun.wait();
                    walked.wait();
                    held.iter().map(|object| (&raw const **object).addr()).collect::<Vec<_>>()
                })
            });
            begun.wait();
            let mut addresses = vec![std::ptr::null(); 100_000];
            let live = cache.live_objects(&mut addresses).expect("outside of a slow path");
            walked.wait();
            let found: BTreeSet<usize> =
                addresses[..live.count].iter().map(|object| object.addr()).collect();
            assert_eq!(found.len(), live.count, "none twice");
            let held: BTreeSet<usize> =
                threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
            assert!(held.is_subset(&found));
            let can_stop = yard.start().expect("started").platform().can_stop();
            assert!(live.with_free || found == held);
            assert!(!(can_stop && live.with_free));
            // Too little room: the count is exact.
            let mut few = [std::ptr::null(); 3];
            assert_eq!(cache.live_objects(&mut few).map(|live| live.with_free), Some(false));
        });
    });
}
