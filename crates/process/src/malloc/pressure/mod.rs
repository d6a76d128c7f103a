//! Memory pressure: with `SLABYARD_PRESSURE`, a thread of the library waits until the kernel
//! reports that memory is short. It then returns parked and free memory to the kernel, even if the
//! program makes no call. Only the package `slabyard-engines` has this thread, to keep the preload
//! library small.
//!
//! Neighbours: [`sources`] opens what is watched, [`watcher`] says how far the thread is, [`cgroup`] finds the cgroup's directory,
//! [`crate::helper`] creates threads like this one, `slabyard::observe` drains. Invariants:
//! * The thread has its own file-descriptor table, which contains only its own files. A daemon that
//!   closes all its files does not close these, no fork or exec inherits them, and the thread keeps
//!   no end of the program's pipes open.
//! * It is created in the constructor and in the child of a fork, with all signals blocked, and
//!   never during an allocation (like the helper).
//! * The process ends as if the thread did not exist: if the main thread ends alone, this one ends
//!   first.
//! * A pause follows each drain that returned little, so that pressure caused by other processes
//!   costs at most ten drains per second.

mod cgroup;
pub mod files;
pub mod sources;
mod watcher;

use crate::errno::keeping_errno;
use crate::library::Library;
use crate::options::{self, Keep, Options};
use crate::{helper, say};
use core::ptr::{null, null_mut};
use slabyard::calls::help;
use slabyard::calls::help::Relief;
use slabyard::mail::header;
use slabyard::platform::{Park, Time};
use slabyard::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use slabyard_abi::pressure::{PressureCounter, parse};
use slabyard_abi::region::Word;
use slabyard_kernels::settings::EngineKey;
use slabyard_kernels::settings::choices::PressureDrain;
use sources::{Sources, WaitOutcome};
use watcher::{BEGINS, END, FAILED, WATCHES, WORD, end, publish, watch};

/// Bytes of the longest value of the variable.
const LONGEST: usize = 256;

/// Milliseconds that the constructor waits for the thread to be ready.
const START_TIMEOUT_MS: u64 = 1000;
/// A drain of fewer bytes is followed by a pause of this many milliseconds.
const SMALL_DRAIN_BYTES: u64 = 64 << 10;
const PAUSE_MS: u64 = 100;

static ENABLED: AtomicBool = AtomicBool::new(false);
static EMPTIES: AtomicBool = AtomicBool::new(false);
/// The value of the variable: a copy, because programs that set their title write over their
/// environment. A zero ends it.
static TEXT: [AtomicU8; LONGEST] = [const { AtomicU8::new(0) }; LONGEST];
/// The thread, as the C library names it; 0: none.
static THREAD: AtomicUsize = AtomicUsize::new(0);
/// Its destructor runs where the main thread ends alone.
static KEY: AtomicU32 = AtomicU32::new(0);
static COUNTS: [AtomicU64; PressureCounter::NAMES.len()] =
    [const { AtomicU64::new(0) }; PressureCounter::NAMES.len()];

unsafe extern "C" {
    fn prctl(what: i32, ...) -> i32;
    fn pthread_join(thread: usize, result: *mut *mut u8) -> i32;
    fn pthread_key_create(key: *mut u32, destructor: Option<unsafe extern "C" fn(*mut u8)>) -> i32;
    fn pthread_setspecific(key: u32, value: *const u8) -> i32;
}

/// What a drain under pressure returns.
pub fn set_drain(options: &Options) {
    let drain = PressureDrain::of_number(options.of_engines(EngineKey::PressureDrain));
    EMPTIES.store(drain == Some(PressureDrain::Empties), Ordering::Relaxed);
}

/// The counts, if anything is watched.
pub(super) fn counts<L: Library>() -> Option<[u64; PressureCounter::NAMES.len()]> {
    let mut counts: [u64; PressureCounter::NAMES.len()] = core::array::from_fn(get);
    counts[PressureCounter::Refused as usize] = L::yard().platform().refusals();
    counts[PressureCounter::Returned as usize] = L::yard().platform().drained_bytes();
    let any = ENABLED.load(Ordering::Relaxed) || counts.iter().any(|n| *n != 0);
    any.then_some(counts)
}

/// Shows the counts to readers outside.
pub fn show<L: Library>() {
    let [refused, returned] = L::yard().platform().drains_at();
    for (word, value) in [
        (Word::Pressure, COUNTS[0].as_ptr() as u64),
        (Word::NrPressure, PressureCounter::NAMES.len() as u64),
        (Word::RefusedAt, refused as u64),
        (Word::ReturnedAt, returned as u64),
    ] {
        header::publish_word(L::yard(), word, value);
    }
}

/// The program gave back what is free.
pub(super) fn trimmed() {
    add(PressureCounter::Trims, 1);
}

fn get(nth: usize) -> u64 {
    COUNTS[nth].load(Ordering::Relaxed)
}

/// Makes the thread if the variable requests it, and waits until it watches: the program may then
/// give up the privileges or the root directory that it had. The main thread calls it, before all
/// others.
pub fn begin<L: Library>() {
    options::look_up("SLABYARD_PRESSURE", |value| {
        let value = value.to_bytes();
        if value.len() < LONGEST && parse(value).is_some() {
            TEXT.iter().zip(value).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
            ENABLED.store(true, Ordering::Relaxed);
        } else if !value.is_empty() {
            say!("SLABYARD_PRESSURE does not parse and is ignored");
        }
        Keep::Yes
    });
    if !ENABLED.load(Ordering::Relaxed) {
        return;
    }
    let mut key = 0;
    // SAFETY: the destructor has the signature that the C library requires.
    if unsafe { pthread_key_create(&raw mut key, Some(main_thread_ends::<L>)) } != 0 {
        ENABLED.store(false, Ordering::Relaxed);
        return say!("no key is left: memory pressure is not watched");
    }
    KEY.store(key, Ordering::Relaxed);
    make::<L>();
    let platform = L::yard().platform();
    let begin = platform.now_ns();
    while THREAD.load(Ordering::Relaxed) != 0
        && WORD.load(Ordering::Relaxed) == BEGINS
        && platform.now_ns() - begin < START_TIMEOUT_MS * 1_000_000
    {
        platform.wait_at_most(&WORD, BEGINS, START_TIMEOUT_MS);
    }
}

/// In the child of a fork, which has its one thread alone.
pub fn after_fork<L: Library>() {
    if !ENABLED.load(Ordering::Relaxed) {
        return;
    }
    THREAD.store(0, Ordering::Relaxed);
    WORD.store(BEGINS, Ordering::Relaxed);
    COUNTS.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    L::yard().platform().prepare_fence();
    // fork's caller must not see our error number.
    keeping_errno(make::<L>);
}

fn make<L: Library>() {
    match helper::make_thread(work::<L>) {
        Some(thread) => {
            THREAD.store(thread, Ordering::Relaxed);
            let any = core::ptr::without_provenance(1);
            // SAFETY: our own key.
            unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), any) };
        }
        None => say!("the thread that watches memory pressure cannot be made"),
    }
}

extern "C" fn work<L: Library>(_: *mut u8) -> *mut u8 {
    const PR_SET_NAME: i32 = 15;
    // SAFETY: a string that lives for ever.
    unsafe { prctl(PR_SET_NAME, c"slabyard-watch".as_ptr(), 0usize, 0usize, 0usize) };
    let mut text = [0u8; LONGEST];
    text.iter_mut().zip(&TEXT).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
    let length = text.iter().position(|c| *c == 0).unwrap_or(LONGEST);
    let found = parse(&text[..length]).and_then(|wanted| Sources::open(&wanted, "/proc/self"));
    let Some(mut sources) = found else {
        publish(L::yard().platform(), FAILED);
        return null::<u8>().cast_mut();
    };
    COUNTS[PressureCounter::Watches as usize].store(1, Ordering::Relaxed);
    watch(L::yard().platform(), files::thread_id(), sources.bell());
    while WORD.load(Ordering::Relaxed) != END {
        match sources.wait() {
            WaitOutcome::Nothing => {}
            WaitOutcome::Refused => L::yard().platform().wait_at_most(&WORD, WATCHES, PAUSE_MS),
            WaitOutcome::Short(why) => {
                add(PressureCounter::Events, 1);
                add(PressureCounter::Stalls, why.stalled.into());
                add(PressureCounter::Cgroup, why.cgroup.into());
                let bytes = relieve::<L>();
                sources.drained();
                if bytes < SMALL_DRAIN_BYTES {
                    L::yard().platform().wait_at_most(&WORD, WATCHES, PAUSE_MS);
                }
            }
            // Nothing is left that could say something.
            WaitOutcome::Gone => L::yard().platform().wait(&WORD, WATCHES),
        }
    }
    COUNTS[PressureCounter::Watches as usize].store(0, Ordering::Relaxed);
    null::<u8>().cast_mut()
}

/// Drains, and counts it; returns the bytes that were returned to the kernel.
fn relieve<L: Library>() -> u64 {
    let platform = L::yard().platform();
    let begin = platform.now_ns();
    let what = if EMPTIES.load(Ordering::Relaxed) { Relief::Empties } else { Relief::Full };
    if let Some(bytes) = help::relieve(L::yard(), what) {
        let ns = platform.now_ns().saturating_sub(begin);
        add(PressureCounter::Drains, 1);
        add(PressureCounter::Drained, bytes);
        add(PressureCounter::Ns, ns);
        COUNTS[PressureCounter::LongestNs as usize].fetch_max(ns, Ordering::Relaxed);
        COUNTS[PressureCounter::LastNs as usize].store(ns, Ordering::Relaxed);
        return bytes;
    }
    0
}

fn add(count: PressureCounter, n: u64) {
    COUNTS[count as usize].fetch_add(n, Ordering::Relaxed);
}

/// Destructor of the key: the main thread ends, and others may continue, without a watch.
unsafe extern "C" fn main_thread_ends<L: Library>(_: *mut u8) {
    let thread = THREAD.swap(0, Ordering::Relaxed);
    if thread == 0 {
        return;
    }
    let platform = L::yard().platform();
    if let Some([thread, bell]) = end() {
        files::ring(thread, bell);
    }
    platform.wake(&WORD);
    // SAFETY: our own thread, which no other thread joins.
    unsafe { pthread_join(thread, null_mut()) };
}
