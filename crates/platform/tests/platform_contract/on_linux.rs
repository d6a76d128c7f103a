//! The contract on Linux, each mode in a process of its own.

use crate::checks::{self, Surroundings};
use crate::storm::Storm;
use slabyard_platform::linux::{Linux, Mode};
use slabyard_platform::sync::lock::Park;
use slabyard_platform::sync::{AtomicU32, Ordering, count};
use slabyard_platform::{Advice, Memory, PerCpu, Slot, Stack, Stretch, Use};
use slabyard_testkit::{read_word, stay_on_this_cpu, write_word};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// Marks the child.
const MODE: &str = "SLABYARD_TEST_PLATFORM_MODE";
/// Marks the child that looks before it has a second thread.
const ALONE: &str = "SLABYARD_TEST_PLATFORM_ALONE";

#[test]
fn linux_with_the_librarys_sequences() {
    in_child("linux_with_the_librarys_sequences", Mode::Library);
}

#[test]
fn linux_with_own_sequences() {
    in_child("linux_with_own_sequences", Mode::Own);
}

#[test]
fn linux_with_private_slots() {
    in_child("linux_with_private_slots", Mode::Slots);
}

const TIMES: u32 = 200_000;
static WORD: AtomicU32 = AtomicU32::new(0);
/// What is said before the harness makes threads: nothing, or whether this is the only one.
static EARLY: OnceLock<bool> = OnceLock::new();

fn alone() -> &'static Linux {
    static LINUX: Linux = Linux::new();
    &LINUX
}

fn add() {
    (0..TIMES).for_each(|_| count(alone(), &WORD, 1, Ordering::SeqCst));
}

extern "C" fn early() {
    if std::env::var_os(ALONE).is_some() {
        assert!(alone().init(None));
        EARLY.set(alone().is_only_thread()).expect("once");
        add();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CALL_EARLY: extern "C" fn() = early;

/// A count loses nothing when the process gets more threads than its first.
#[test]
fn the_only_thread_is_known_as_long_as_it_is() {
    let Some(only) = EARLY.get() else {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "on_linux::the_only_thread_is_known_as_long_as_it_is"]);
        let output = child.env(ALONE, "1").output().expect("a child");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    };
    // Only a C library that has the byte says so (glibc since 2.32).
    assert_eq!(*only, cfg!(all(target_arch = "x86_64", target_env = "gnu")));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                assert!(!alone().is_only_thread());
                add();
            });
        }
    });
    assert_eq!(WORD.load(Ordering::SeqCst), 3 * TIMES);
}

/// Runs the test `name` in a child, which runs the checks.
fn in_child(name: &str, mode: Mode) {
    if std::env::var_os(MODE).is_some() {
        return run(mode);
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", &format!("on_linux::{name}"), "--nocapture"]).env(MODE, "1");
    if mode == Mode::Own {
        child.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    }
    let output = child.output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}\n{errors}", output.status);
    assert!(text.contains("1 passed"), "{name} ran no test:\n{text}");
    for line in errors.lines().filter(|line| line.starts_with("not run")) {
        eprintln!("{line}");
    }
}

fn run(mode: Mode) {
    static LINUX: Linux = Linux::new();
    assert!(LINUX.init(Some(mode)));
    if LINUX.mode() != mode {
        // An old kernel or C library, another architecture, valgrind.
        eprintln!("not run: {mode:?} is not there, only {:?}", LINUX.mode());
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| keeps_the_contract(&LINUX, mode));
    });
    if mode == Mode::Slots {
        begins_the_use_of_many_rows(&LINUX);
    }
    moves_back_what_has_no_room(&LINUX);
    tells_what_is_in_memory(&LINUX);
    loses_and_doubles_nothing(&LINUX);
}

/// More rows than a word has bits of use.
fn begins_the_use_of_many_rows(linux: &Linux) {
    const THREADS: usize = 80;
    let all_have_one = Barrier::new(THREADS);
    let uses_its_row = || {
        linux.enter();
        let row = linux.row_hint();
        let exchanged = linux.exchange(Slot(300), Stack::NONE).is_ok();
        let is_used = exchanged && linux.rows().used().any(|used| Some(used) == row);
        all_have_one.wait();
        linux.give_slot_back();
        (row, is_used)
    };
    let rows: BTreeSet<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(uses_its_row)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    assert!(rows.len() == THREADS && rows.iter().all(|(row, used)| row.is_some() && *used));
}

/// There is memory for the pages that move out, and none for the mapping to grow.
fn moves_back_what_has_no_room(linux: &Linux) {
    const BYTES: usize = 8 << 20;
    let arena = linux.reserve(2 * BYTES, 4096, Use::Arena).expect("address space");
    assert!(linux.commit(arena, BYTES));
    // SAFETY: committed just now.
    unsafe { write_word(linux, arena + BYTES / 2, 77) };
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmData:")).expect("VmData");
    let kib: usize = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("KiB");
    let most = (kib << 10) + 2 * BYTES;
    let mut moved = None;
    if !can_refuse() {
        return;
    }
    while_limited(most as u64, &mut || moved = linux.move_out(arena, BYTES, 16 * BYTES));
    assert_eq!(moved, None);
    // SAFETY: as above.
    assert_eq!(unsafe { read_word(linux, arena + BYTES / 2) }, 77);
    assert!(linux.commit(arena + BYTES, BYTES), "the pages are where they were");
}

/// More pages than are asked for by one call, of which two are written and one went back.
fn tells_what_is_in_memory(linux: &Linux) {
    let page = linux.page_bytes();
    let bytes = 600 * page;
    let arena = linux.reserve(bytes, page, Use::Arena).expect("address space");
    linux.advise(arena, bytes, Advice::SmallPages);
    assert!(linux.commit(arena, bytes));
    assert_eq!(linux.resident(arena, bytes), 0);
    for nth in [0, 7, 599] {
        // SAFETY: committed above, and ours alone.
        unsafe { ((arena + nth * page) as *mut u8).write(1) };
    }
    linux.give_back(&mut [Stretch { address: arena + 7 * page, bytes: page }]);
    assert_eq!(linux.resident(arena, bytes), 2 * page);
    assert_eq!(linux.resident(arena + page, bytes - page), page);
}

fn keeps_the_contract(linux: &Linux, mode: Mode) {
    stay_on_this_cpu();
    let in_a_fresh_thread = |check: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                check();
                linux.give_slot_back();
            });
        });
    };
    checks::contract(
        linux,
        &Surroundings {
            late_rows: mode != Mode::Library,
            in_a_fresh_thread: &in_a_fresh_thread,
            while_refused: can_refuse().then_some(&while_refused),
            pass_time: &|| std::thread::sleep(Duration::from_millis(30)),
        },
    );
}

fn loses_and_doubles_nothing(linux: &Linux) {
    let storm = Storm::new(linux, 4, 1);
    let end = Instant::now() + Duration::from_millis(1000);
    // Looking at the clock takes longer than a turn.
    let until_end = |n: u64| !n.is_multiple_of(256) || Instant::now() < end;
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let storm = &storm;
            scope.spawn(move || storm.work(linux, worker, &mut { until_end }));
        }
        scope.spawn(|| storm.stop(linux, &mut |_| Instant::now() < end));
    });
    storm.check(linux);
}

/// Runs a check while this process may not have more private memory. The limit
/// is a page: Linux takes 0 for no limit at all, for valgrind's sake.
fn while_refused(check: &mut dyn FnMut()) {
    while_limited(4096, check);
}

/// qemu-user takes such a limit, and neither keeps nor names it.
fn can_refuse() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    while_limited(1 << 40, &mut || {
        // SAFETY: a plain call with a structure of ours.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_DATA, &raw mut limit) }, 0);
    });
    limit.rlim_cur == 1 << 40
}

fn while_limited(bytes: u64, check: &mut dyn FnMut()) {
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain calls with structures of ours.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_DATA, &raw mut old), 0);
        let none = libc::rlimit { rlim_cur: bytes, ..old };
        assert_eq!(libc::setrlimit(libc::RLIMIT_DATA, &raw const none), 0);
    }
    check();
    // SAFETY: as above.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const old) };
    assert_eq!(done, 0);
}
