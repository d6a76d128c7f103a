//! Threads of a real process, in each way to tell CPUs apart, with the fence of all threads and
//! without: each in a process of its own.
//!
//! Two structures at once, with readers and writers of both:
//! * objects with a token, published, replaced, and freed after readers;
//! * objects of a cache whose memory is type-safe for readers, found by a key, freed at once, and
//!   rechecked, while another thread ends the slabs and another cache takes their pages.
//!
//! Threads begin and end, signal handlers have sections of their own, and children of forks are
//! checked too. The planted bugs: a free that waits for nobody, a slab that ends at once, a reader
//! that does not look again.
//!
//! * `STRESS_OPS`: reads and writes of each process.

use super::Section;
use slabyard::cache::{CacheFlags, CacheId, CacheSettings};
use slabyard::calls::readers;
use slabyard::child;
use slabyard::platform::linux::{Linux, Mode};
use slabyard::waiting::NotTaken;
use slabyard::yard::{Settings, Yard};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CHILD: &str = "SLABYARD_RCU_CHILD";
const OPS: &str = "STRESS_OPS";
const FEW_OPS: u64 = 1_000_000;
/// Far more than a planted bug needs to show.
const PLANTED_OPS: u64 = 100_000_000;
/// What a child says that found nothing, that found what it looked for, and that is not possible.
const SOUND: i32 = 17;
const FOUND: i32 = 18;
const NOT_THERE: i32 = 19;

const READERS: usize = 6;
const WRITERS: usize = 2;
const KEYS: usize = 64;
/// Operations after which a reader ends, and another begins.
const LIFE: u64 = 20_000;
const TYPE: u64 = 0x7e57_ab1e;

static YARD: Yard<Linux> = Yard::new(Linux::new());

/// When the system refuses the fence of all threads.
#[derive(Clone, Copy, PartialEq)]
enum Refused {
    Never,
    AtStart,
    Later,
}

/// The planted bug.
#[derive(Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    FreesAtOnce,
    EndsAtOnce,
    ReadsOnce,
}

macro_rules! tests {
    ($($name:ident: $mode:expr, $refused:expr, $planted:expr;)*) => {$(
        #[test]
        fn $name() {
            in_child(stringify!($name), $mode, $refused, $planted);
        }
    )*};
}

tests! {
    readers_with_the_librarys_sequences: Mode::Library, Refused::Never, Planted::Nothing;
    readers_with_own_sequences: Mode::Own, Refused::Never, Planted::Nothing;
    readers_with_private_slots: Mode::Slots, Refused::Never, Planted::Nothing;
    readers_without_the_fence: Mode::Library, Refused::AtStart, Planted::Nothing;
    readers_with_a_fence_that_is_refused_later: Mode::Library, Refused::Later, Planted::Nothing;
    a_free_that_waits_for_nobody_is_found: Mode::Library, Refused::Never, Planted::FreesAtOnce;
    a_slab_that_ends_at_once_is_found: Mode::Library, Refused::Never, Planted::EndsAtOnce;
    a_reader_that_does_not_look_again_is_found: Mode::Library, Refused::Never, Planted::ReadsOnce;
}

fn in_child(test: &str, mode: Mode, refused: Refused, planted: Planted) {
    if std::env::var_os(CHILD).is_some() {
        std::process::exit(run(mode, refused, planted));
    }
    let exe = std::env::current_exe().expect("this test");
    let mut command = Command::new(exe);
    command.args(["--exact", &format!("rcu::on_linux::{test}"), "--nocapture", "--test-threads=1"]);
    command.env(CHILD, "1");
    if mode == Mode::Own {
        command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    }
    let status = command.status().expect("a child");
    let expected = if planted == Planted::Nothing { SOUND } else { FOUND };
    let frees_early = matches!(planted, Planted::EndsAtOnce | Planted::FreesAtOnce);
    match status.code() {
        // The object's memory is gone.
        None if frees_early && status.signal() == Some(libc::SIGSEGV) => {}
        Some(NOT_THERE) => eprintln!("not run: this way to tell CPUs apart is not there"),
        code => assert_eq!(code, Some(expected), "{status}"),
    }
}

/// Refuses `membarrier` from now on, as a filter that a program installs.
fn refuse_membarrier() {
    const LOAD: u16 = 0x20;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let errno = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut ops = [
        op(LOAD, 0, 0, 0),
        op(JUMP_EQUAL, 0, 1, libc::SYS_membarrier as u32),
        op(RETURN, 0, 0, errno),
        op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: ops.len() as u16, filter: ops.as_mut_ptr() };
    // SAFETY: a filter of four instructions, for all threads of this process.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let (set, all) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
        assert_eq!(libc::syscall(libc::SYS_seccomp, set, all, &raw const program), 0);
    }
}

struct Scene {
    tokens: CacheId,
    typed: CacheId,
    other: CacheId,
    planted: Planted,
    tokens_given: AtomicU64,
    published: [AtomicUsize; KEYS],
    index: [AtomicUsize; KEYS],
    ops: AtomicU64,
    most: u64,
    refused: AtomicU64,
    found: AtomicBool,
}

/// A word of an object: others may read it while this thread changes it.
fn word(object: usize, nth: usize) -> &'static AtomicU64 {
    // SAFETY: a word of the region, which stays committed.
    unsafe { &*((object + 8 * nth) as *const AtomicU64) }
}

/// Some readers let others run in the middle of a section.
fn pause(n: usize) {
    match n / KEYS % 16384 {
        0 => std::thread::sleep(Duration::from_micros(200)),
        nth if nth.is_multiple_of(512) => std::thread::yield_now(),
        _ => {}
    }
}

impl Scene {
    fn goes_on(&self) -> bool {
        self.ops.load(Ordering::Relaxed) < self.most && !self.found.load(Ordering::Relaxed)
    }

    fn expect(&self, found: u64, expected: u64, what: &str) {
        if found != expected {
            self.found.store(true, Ordering::Relaxed);
            if self.planted == Planted::Nothing {
                eprintln!("{what}: found {found:#x}, expected {expected:#x}");
                std::process::exit(1);
            }
        }
    }

    fn publish(&self, key: usize) {
        let new = YARD.alloc_from(self.tokens).expect("memory");
        // No other object ever has the same.
        word(new, 1).store(self.tokens_given.fetch_add(1, Ordering::Relaxed), Ordering::Release);
        let old = self.published[key].swap(new, Ordering::AcqRel);
        if old == 0 {
            return;
        }
        if self.planted == Planted::FreesAtOnce {
            return YARD.free_to(self.tokens, old).expect("live");
        }
        match YARD.free_to_rcu(self.tokens, old) {
            Ok(()) => {}
            Err(NotTaken::Full) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                readers::free_after_waiting(&YARD, old).expect("no section").expect("live");
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn read_published(&self, key: usize, n: usize) {
        YARD.rcu_read_lock();
        let found = self.published[key].load(Ordering::Acquire);
        if found != 0 {
            let token = word(found, 1).load(Ordering::Relaxed);
            for _ in 0..4 {
                pause(n);
                let read = word(found, 1).load(Ordering::Relaxed);
                self.expect(read, token, "a reader lost its object");
            }
        }
        YARD.rcu_read_unlock();
    }

    /// Gives a key another object, or, one time in two, none.
    fn replace(&self, key: usize, n: usize) {
        let new = if n.is_multiple_of(2) { 0 } else { self.new_typed(key) };
        let old = self.index[key].swap(new, Ordering::AcqRel);
        if old != 0 {
            // An exchange, so that the value of the next key comes after it.
            word(old, 1).swap(0, Ordering::AcqRel);
            YARD.free_to(self.typed, old).expect("live");
        }
    }

    fn new_typed(&self, key: usize) -> usize {
        let new = YARD.alloc_from(self.typed).expect("memory");
        word(new, 0).store(TYPE, Ordering::Relaxed);
        word(new, 2).store(100 * key as u64 + 7, Ordering::Release);
        word(new, 1).store(key as u64 + 1, Ordering::Release);
        new
    }

    fn look_up(&self, key: usize, n: usize) {
        let _section = Section::of(&YARD);
        loop {
            let object = self.index[key].load(Ordering::Acquire);
            if object == 0 {
                break;
            }
            pause(n);
            self.expect(word(object, 0).load(Ordering::Relaxed), TYPE, "memory of another type");
            if word(object, 1).load(Ordering::Acquire) != key as u64 + 1 {
                if self.goes_on() {
                    continue;
                }
                break;
            }
            pause(n);
            let value = word(object, 2).load(Ordering::Acquire);
            let again = word(object, 1).load(Ordering::Acquire);
            if again != key as u64 + 1 && self.planted != Planted::ReadsOnce {
                continue;
            }
            self.expect(value, 100 * key as u64 + 7, "another object's value");
            break;
        }
    }

    /// Reads or writes for a while; says whether the load goes on.
    fn live(&self, seed: usize, body: impl Fn(&Self, usize)) -> bool {
        let mut key = seed;
        for _ in 0..LIFE / 100 {
            if !self.goes_on() {
                return false;
            }
            for _ in 0..100 {
                key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed * 2 + 1);
                body(self, key >> 20);
            }
            self.ops.fetch_add(100, Ordering::Relaxed);
        }
        true
    }

    fn read(&self, n: usize) {
        match n % 2 {
            0 => self.read_published(n / 2 % KEYS, n / 2),
            _ => self.look_up(n / 2 % KEYS, n / 2),
        }
    }

    fn write(&self, n: usize, writer: usize) {
        let key = n / 2 % (KEYS / WRITERS) * WRITERS + writer;
        match n % 2 {
            0 => self.publish(key),
            _ => self.replace(key, n / 2 / KEYS),
        }
    }

    /// Ends slabs, and has another cache take their pages.
    fn take_pages(&self) {
        while self.goes_on() {
            YARD.shrink_cache(self.typed);
            let objects = [(); 64].map(|()| YARD.alloc_from(self.other).expect("memory"));
            for object in objects {
                (0..3).for_each(|nth| word(object, nth).store(0xbad, Ordering::Relaxed));
            }
            for object in objects {
                YARD.free_to(self.other, object).expect("live");
            }
            YARD.shrink_cache(self.other);
            // SAFETY: a plain call of the C library, for readers' handlers.
            unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
        }
    }
}

extern "C" fn on_signal(_: i32) {
    // A section within whatever it interrupted.
    YARD.rcu_read_lock();
    YARD.rcu_read_lock();
    YARD.rcu_read_unlock();
    YARD.rcu_read_unlock();
}

/// A child of a fork waits for none of the threads that it does not have.
fn fork_and_wait() {
    // SAFETY: the child does nothing but waits for readers and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // A child that waits for ever for a lock of its parent's fails the test.
        // SAFETY: the default action of the signal ends the child.
        unsafe { libc::alarm(120) };
        child::mark_child(YARD.platform());
        let waited = YARD.synchronize_rcu().is_ok();
        // SAFETY: as above.
        unsafe { libc::_exit(if waited { SOUND } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: our child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(libc::WEXITSTATUS(status), SOUND);
}

static FORKS: AtomicI32 = AtomicI32::new(0);

fn run(mode: Mode, refused: Refused, planted: Planted) -> i32 {
    if refused == Refused::AtStart {
        refuse_membarrier();
    }
    if !YARD.platform().init(Some(mode)) || YARD.platform().mode() != mode {
        return NOT_THERE;
    }
    assert!(YARD.init(Settings { reserve_bytes: 1 << 34, decay_ms: 20 }));
    let settings = CacheSettings {
        orders: (0, 0),
        min_partial: Some(0),
        sheaf_capacity: Some(2),
        ..CacheSettings::of(2048)
    };
    let flags = match planted {
        Planted::EndsAtOnce => CacheFlags::NONE,
        _ => CacheFlags::TYPESAFE_BY_RCU,
    };
    let most = match std::env::var(OPS) {
        _ if planted != Planted::Nothing => PLANTED_OPS,
        Ok(ops) => ops.parse().expect("a number"),
        Err(_) => FEW_OPS,
    };
    let scene = &Scene {
        tokens: YARD.create_cache("tokens", &CacheSettings::of(64)).expect("a cache"),
        typed: YARD.create_cache("typed", &CacheSettings { flags, ..settings }).expect("a cache"),
        other: YARD.create_cache("other", &settings).expect("a cache"),
        planted,
        tokens_given: AtomicU64::new(1),
        published: [const { AtomicUsize::new(0) }; KEYS],
        index: [const { AtomicUsize::new(0) }; KEYS],
        ops: AtomicU64::new(0),
        most,
        refused: AtomicU64::new(0),
        found: AtomicBool::new(false),
    };
    // SAFETY: the handler has sections and nothing else.
    unsafe { libc::signal(libc::SIGUSR1, on_signal as *const () as usize) };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            scope.spawn(move || {
                // Each life is a thread of its own.
                let live = || scene.live(reader + 3, Scene::read);
                while std::thread::scope(|scope| scope.spawn(live).join().expect("a reader")) {}
            });
        }
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let write = move |scene: &Scene, n: usize| scene.write(n, writer);
                while scene.live(writer + 11, write) {}
            });
        }
        scope.spawn(|| scene.take_pages());
        scope.spawn(|| {
            while scene.goes_on() {
                let half = scene.ops.load(Ordering::Relaxed) >= scene.most / 2;
                if refused == Refused::Later && half && FORKS.load(Ordering::Relaxed) < 1000 {
                    refuse_membarrier();
                    FORKS.store(1000, Ordering::Relaxed);
                }
                YARD.synchronize_rcu().expect("no section");
                if FORKS.fetch_add(1, Ordering::Relaxed) % 16 == 0 {
                    fork_and_wait();
                }
            }
        });
    });
    if planted != Planted::Nothing {
        return if scene.found.load(Ordering::Relaxed) { FOUND } else { 1 };
    }
    let ops = scene.ops.load(Ordering::Relaxed);
    let ns = begun.elapsed().as_nanos() as f64 / ops as f64;
    let refused = scene.refused.load(Ordering::Relaxed);
    println!("{ops} reads and writes, {ns:.0} ns each; {refused} frees waited");
    for key in 0..KEYS {
        for (cache, words) in [(scene.tokens, &scene.published), (scene.typed, &scene.index)] {
            match words[key].swap(0, Ordering::Relaxed) {
                0 => {}
                object => YARD.free_to(cache, object).expect("live"),
            }
        }
    }
    for cache in [scene.tokens, scene.typed, scene.other] {
        // SAFETY: no other thread.
        unsafe { YARD.destroy_cache(cache) }.expect("no object is live");
    }
    YARD.verify().expect("no slow path").expect("a sound yard");
    SOUND
}
