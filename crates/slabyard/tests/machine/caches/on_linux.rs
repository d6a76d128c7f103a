//! Threads of a real process: 16 of them make 4,000 caches, allocate from all of them, free what
//! the next thread allocated, destroy the caches and make them again; in each way to tell CPUs
//! apart. Malloc's classes are in use meanwhile. Objects of a word are freed by other threads,
//! too.
//!
//! * `SLABYARD_CACHES_ROUNDS`: how often all caches are made and destroyed; the ignored test has
//!   1,000 rounds.

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::calls::trim;
use slabyard::child;
use slabyard::created::NotDestroyed;
use slabyard::observe::count;
use slabyard::platform::linux::{Linux, Mode};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::{read_word, write_word};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Instant;

const CHILD: &str = "SLABYARD_CACHES_CHILD";
const ROUNDS: &str = "SLABYARD_CACHES_ROUNDS";
const CACHES: usize = 4000;
const THREADS: usize = 16;
const FEW_ROUNDS: usize = 3;
/// Rounds after which the whole yard is checked, beside the last.
const CHECKS: usize = 50;
const FORKS: usize = 30;
/// The threads that work while another forks, and the objects of a sheaf of theirs.
const WORKERS: usize = 4;
const SHEAF: u32 = 16;
/// What a child says that found nothing.
const SOUND: i32 = 17;

static YARD: Yard<Linux> = Yard::new(Linux::new());

#[test]
fn thousands_of_caches_with_the_librarys_sequences() {
    in_child("thousands_of_caches_with_the_librarys_sequences", Mode::Library, FEW_ROUNDS);
}

#[test]
fn thousands_of_caches_with_private_slots() {
    in_child("thousands_of_caches_with_private_slots", Mode::Slots, FEW_ROUNDS);
}

#[test]
fn small_objects_change_threads_with_the_librarys_sequences() {
    with_body("small_objects_change_threads_with_the_librarys_sequences", || {
        small_objects(Mode::Library);
    });
}

#[test]
fn small_objects_change_threads_with_private_slots() {
    with_body("small_objects_change_threads_with_private_slots", || small_objects(Mode::Slots));
}

#[test]
#[ignore = "takes some minutes: `ci/caches-by-hand` runs it"]
fn a_thousand_rounds_of_thousands_of_caches() {
    in_child("a_thousand_rounds_of_thousands_of_caches", Mode::Library, 1000);
}

#[test]
fn children_destroy_caches_with_the_librarys_sequences() {
    with_body("children_destroy_caches_with_the_librarys_sequences", || forks(Mode::Library));
}

#[test]
fn children_destroy_caches_with_private_slots() {
    with_body("children_destroy_caches_with_private_slots", || forks(Mode::Slots));
}

fn in_child(name: &str, mode: Mode, rounds: usize) {
    with_body(name, || {
        let rounds = std::env::var(ROUNDS).map_or(rounds, |n| n.parse().expect("a number"));
        run(mode, rounds);
    });
}

/// Runs a test in a process of its own: a yard is never given up.
fn with_body(name: &str, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args([
        "--exact",
        &format!("caches::on_linux::{name}"),
        "--include-ignored",
        "--nocapture",
    ]);
    let status = child.env(CHILD, "1").status().expect("a child");
    assert!(status.success(), "{status}");
}

/// False if the machine has no such mode.
fn begin(mode: Mode) -> bool {
    assert!(YARD.platform().init(Some(mode)));
    assert!(YARD.init(Settings::default()));
    YARD.platform().prepare_fence();
    if YARD.platform().mode() != mode {
        println!("{mode:?} is not there");
    }
    YARD.platform().mode() == mode
}

/// Threads fill objects of a word, look that they keep it, and free those of another thread.
fn small_objects(mode: Mode) {
    const OBJECTS: usize = 10_000;
    if !begin(mode) {
        return;
    }
    let id = YARD.create_cache("small", &CacheSettings::of(8)).expect("a cache");
    let handed: [Mutex<Vec<usize>>; 4] = Default::default();
    let barrier = Barrier::new(handed.len());
    let work = |thread: usize| {
        for round in 0..20 {
            let mark = |nth: usize| (thread * 1000 + round) * OBJECTS + nth;
            let own: Vec<usize> =
                (0..OBJECTS).map(|_| YARD.alloc_from(id).expect("memory")).collect();
            for (nth, object) in own.iter().enumerate() {
                // SAFETY: a word of an object that is this thread's.
                unsafe { write_word(YARD.platform(), *object, mark(nth)) };
            }
            barrier.wait();
            for (nth, object) in own.iter().enumerate() {
                // SAFETY: as above.
                assert_eq!(unsafe { read_word(YARD.platform(), *object) }, mark(nth));
            }
            *handed[thread].lock().expect("no panic") = own;
            barrier.wait();
            let others = &handed[(thread + 1) % handed.len()];
            for object in std::mem::take(&mut *others.lock().expect("no panic")) {
                assert_eq!(YARD.free_to(id, object), Ok(()));
            }
        }
        trim::drain_thread(&YARD);
    };
    let work = &work;
    std::thread::scope(|scope| {
        (0..handed.len()).for_each(|nth| drop(scope.spawn(move || work(nth))))
    });
    let sound = YARD.verify().expect("outside of a slow path").expect("a sound yard");
    assert_eq!(sound.live, 0);
    // SAFETY: no other thread runs.
    assert_eq!(unsafe { YARD.destroy_cache(id) }, Ok(()));
    assert_eq!(count::set_aside(&YARD.heap), 0);
}

/// Threads make caches, use and destroy them, while another forks: each child checks the yard,
/// and destroys the caches whose objects all were free, wherever its parent's threads had
/// parked them. A thread of the parent's may have had one sheaf in its hands, which is lost.
fn forks(mode: Mode) {
    if !begin(mode) {
        return;
    }
    let create = |n: usize| {
        let settings = CacheSettings {
            sheaf_capacity: Some(SHEAF),
            ..CacheSettings::of(bytes_of(n, 0) as u32)
        };
        YARD.create_cache(n, &settings).expect("a cache")
    };
    let idle: Vec<CacheId> = (0..200).map(create).collect();
    let (done, parked) = (AtomicBool::new(false), Barrier::new(WORKERS + 1));
    std::thread::scope(|scope| {
        for thread in 0..WORKERS {
            let (idle, done, parked) = (&idle, &done, &parked);
            scope.spawn(move || {
                for id in idle {
                    let object = YARD.alloc_from(*id).expect("memory");
                    assert_eq!(YARD.free_to(*id, object), Ok(()));
                }
                parked.wait();
                while !done.load(Ordering::Relaxed) {
                    let own = create(thread);
                    let objects: Vec<usize> =
                        (0..50).map(|_| YARD.alloc_from(own).expect("memory")).collect();
                    objects.iter().for_each(|o| assert_eq!(YARD.free_to(own, *o), Ok(())));
                    // SAFETY: no other thread knows it.
                    assert_eq!(unsafe { YARD.destroy_cache(own) }, Ok(()));
                }
            });
        }
        parked.wait();
        // The threads end though an assertion fails.
        let _done = OnDrop(|| done.store(true, Ordering::Relaxed));
        for _ in 0..FORKS {
            // SAFETY: the child makes calls on the yard and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                in_fork(&idle);
            }
            let mut status = 0;
            // SAFETY: a child of ours.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, SOUND << 8, "the child found something");
        }
    });
    YARD.verify().expect("outside of a slow path").expect("a sound yard");
}

/// Calls a function when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// In the child of a fork, whose parent's locks may be held for ever: it ends with a number.
fn in_fork(idle: &[CacheId]) -> ! {
    let platform = YARD.platform();
    child::mark_child(YARD.platform());
    platform.prepare_fence();
    trim::adopt_rows(&YARD, platform.foreign_slots());
    let is_sound = || matches!(YARD.verify(), Some(Ok(_)));
    let mut found = if is_sound() { SOUND } else { 1 };
    let mut lost = 0;
    for id in idle {
        // SAFETY: there is no other thread.
        match unsafe { YARD.destroy_cache(*id) } {
            Ok(()) => {}
            Err(NotDestroyed::Live(nr)) if nr <= SHEAF.into() && lost < WORKERS => lost += 1,
            Err(NotDestroyed::Live(nr)) => found = 32 + nr.min(200) as i32,
            Err(_) => found = 2,
        }
    }
    if !is_sound() {
        found = 3;
    }
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(found) }
}

fn run(mode: Mode, rounds: usize) {
    if !begin(mode) {
        return;
    }
    let scene = Scene {
        ids: (0..CACHES).map(|_| Mutex::new(None)).collect(),
        barrier: Barrier::new(THREADS),
        handed: (0..THREADS).map(|_| Mutex::default()).collect(),
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let scene = &scene;
            scope.spawn(move || (0..rounds).for_each(|round| scene.round(thread, round)));
        }
    });
    let sound = YARD.verify().expect("outside of a slow path").expect("a sound yard");
    // What a thread's private slot has parked of malloc's classes is not live.
    println!("{rounds} rounds in {:?}: {sound:?}", began.elapsed());
    if mode != Mode::Slots {
        assert_eq!(sound.live, 0);
    }
    assert!(YARD.caches().numbers().eq(0..slabyard::cache::classes::CLASSES));
    assert_eq!(count::set_aside(&YARD.heap), 0);
}

struct Scene {
    ids: Vec<Mutex<Option<CacheId>>>,
    barrier: Barrier,
    handed: Vec<Mutex<Vec<(usize, usize)>>>,
}

fn bytes_of(cache: usize, round: usize) -> usize {
    8 + (cache * 31 + round) % 90 * 8
}

impl Scene {
    fn id(&self, cache: usize) -> CacheId {
        self.ids[cache].lock().expect("no panic").expect("a cache that is there")
    }

    /// One life of all caches.
    fn round(&self, thread: usize, round: usize) {
        for cache in (thread..CACHES).step_by(THREADS) {
            let settings = CacheSettings::of(bytes_of(cache, round) as u32);
            let id = YARD.create_cache(format_args!("cache-{cache}"), &settings);
            *self.ids[cache].lock().expect("no panic") = Some(id.expect("a cache"));
        }
        self.barrier.wait();
        // Each thread begins elsewhere: caches are taken into use by several at once.
        for nth in 0..CACHES {
            let cache = (nth + thread * CACHES / THREADS) % CACHES;
            let address = YARD.alloc_from(self.id(cache)).expect("memory");
            let token = address ^ thread << 56;
            // SAFETY: a live object of 8 bytes at least.
            unsafe { (address as *mut usize).write(token) };
            self.handed[thread].lock().expect("no panic").push((cache, address));
            let other = YARD.alloc_fast(nth % 500, 16).expect("memory");
            assert_eq!(YARD.free_fast(other), Ok(()));
        }
        self.barrier.wait();
        if thread == 0 {
            // SAFETY: no other thread makes a call on a cache before the next barrier.
            let kept = unsafe { YARD.destroy_cache(self.id(round % CACHES)) };
            assert_eq!(kept, Err(NotDestroyed::Live(THREADS as u64)));
            if round.is_multiple_of(CHECKS) {
                YARD.verify().expect("outside of a slow path").expect("a sound yard");
            }
        }
        self.barrier.wait();
        let neighbour = (thread + 1) % THREADS;
        for (cache, address) in self.handed[neighbour].lock().expect("no panic").drain(..) {
            // SAFETY: a live object that its owner handed over.
            let token = unsafe { (address as *const usize).read() };
            assert_eq!(token, address ^ neighbour << 56, "the object of another");
            assert_eq!(YARD.free_to(self.id(cache), address), Ok(()));
        }
        // Half of the caches go while other threads still free objects of the other half.
        let [first, second] = [0, 1].map(|half| {
            (thread..CACHES).step_by(THREADS).filter(move |cache| cache / THREADS % 2 == half)
        });
        self.barrier.wait();
        first.chain(second).for_each(|cache| {
            // SAFETY: all threads have freed what they had of it.
            let destroyed = unsafe { YARD.destroy_cache(self.id(cache)) };
            assert_eq!(destroyed, Ok(()), "cache {cache}");
            *self.ids[cache].lock().expect("no panic") = None;
        });
        self.barrier.wait();
    }
}
