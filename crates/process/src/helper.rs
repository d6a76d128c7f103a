//! The helper: with `SLABYARD_HELPER=1`, a thread of the library executes slices of reclaim passes
//! while the program makes no calls, and serves requests of other processes.
//!
//! It sleeps until the reclaim ticker starts, or until another process wakes it because a request
//! waits in the mailbox (`abi::region::helper`). Until the ticker ends, it reads the clock once per
//! tick and executes the pass's slices ([`help_reclaim`](slabyard::calls::help::help_reclaim)).
//!
//! The helper is created in the constructor and in the child of a fork. It is never created during
//! an allocation, not even after the slow path: the C library frees memory while it holds its lock
//! of thread stacks, which `pthread_create` takes.
//!
//! The process ends as if the helper did not exist: if the main thread ends alone (`pthread_exit`),
//! the helper ends first, so that the process ends with the program's last thread.
//!
//! [`help_reclaim`]: slabyard::calls::help::help_reclaim

use crate::errno::keeping_errno;
use crate::library::Library;
use crate::say;
use core::ptr::{null, null_mut};
use slabyard::calls::help;
use slabyard::mail::header;
use slabyard::platform::Park;
use slabyard::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use slabyard_abi::region::{Word, helper as shown};

/// Values of [`word`]: nothing new; or the reclaim ticker began, another process asks, or the
/// helper must end ([`ENDS`]). Another process writes the second one, and so nobody writes a third.
const CALM: u32 = 0;
const WOKEN: u32 = shown::WOKEN;

/// Bytes of its stack. More only where the program's thread-local data, which are on it, do not
/// fit.
const STACKS: [usize; 3] = [64 << 10, 1 << 20, 64 << 20];

/// The option.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// What other processes see: the word that the helper sleeps on, and its number.
static SHOWN: [AtomicU32; shown::WORDS] = [const { AtomicU32::new(0) }; shown::WORDS];
/// The helper must end.
static ENDS: AtomicBool = AtomicBool::new(false);
/// The helper, as the C library names it; 0: there is none.
static THREAD: AtomicUsize = AtomicUsize::new(0);
/// Its destructor runs where the main thread ends alone.
static KEY: AtomicU32 = AtomicU32::new(0);

type Signals = [u64; 16];
/// `pthread_attr_t`, or more.
type Attributes = [u64; 16];

unsafe extern "C" {
    fn prctl(what: i32, ...) -> i32;
    fn pthread_attr_destroy(attributes: *mut Attributes) -> i32;
    fn pthread_attr_init(attributes: *mut Attributes) -> i32;
    fn pthread_attr_setstacksize(attributes: *mut Attributes, bytes: usize) -> i32;
    fn pthread_create(
        thread: *mut usize,
        attributes: *const Attributes,
        begin: extern "C" fn(*mut u8) -> *mut u8,
        argument: *mut u8,
    ) -> i32;
    fn pthread_join(thread: usize, result: *mut *mut u8) -> i32;
    fn pthread_key_create(key: *mut u32, destructor: Option<unsafe extern "C" fn(*mut u8)>) -> i32;
    fn pthread_setspecific(key: u32, value: *const u8) -> i32;
    fn pthread_sigmask(how: i32, signals: *const Signals, old: *mut Signals) -> i32;
}

/// Sets whether the process has a helper.
pub(crate) fn set_enabled(enabled: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
}

/// Shows the helper to other processes. The yard is published.
pub(crate) fn show<L: Library>() {
    header::publish_word(L::yard(), Word::Helper, SHOWN.as_ptr() as u64);
}

fn word() -> &'static AtomicU32 {
    &SHOWN[shown::WORD]
}

/// Makes the helper if the option requests it. The main thread calls it, before all others.
pub(crate) fn begin<L: Library>() {
    if !ENABLED.load(Ordering::Relaxed) {
        return;
    }
    let mut key = 0;
    // SAFETY: the destructor has the signature that the C library requires.
    if unsafe { pthread_key_create(&raw mut key, Some(main_thread_ends::<L>)) } != 0 {
        ENABLED.store(false, Ordering::Relaxed);
        return say!("no key is left: there is no helper thread");
    }
    KEY.store(key, Ordering::Relaxed);
    make::<L>();
}

/// In the child of a fork, which has its one thread alone.
pub(crate) fn after_fork<L: Library>() {
    if !ENABLED.load(Ordering::Relaxed) {
        return;
    }
    THREAD.store(0, Ordering::Relaxed);
    SHOWN.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    ENDS.store(false, Ordering::Relaxed);
    // While there is one thread: see there.
    L::yard().platform().prepare_fence();
    // fork's caller must not see our error number.
    keeping_errno(make::<L>);
}

/// The reclaim ticker began. In a slow path, which holds no lock here.
pub(crate) fn wake<L: Library>() {
    if THREAD.load(Ordering::Relaxed) != 0 {
        rouse::<L>();
    }
}

/// Wakes the helper: also where the word says so already, because another process that wrote it
/// may have ended before it woke the thread.
fn rouse<L: Library>() {
    // SeqCst: see `work`.
    word().store(WOKEN, Ordering::SeqCst);
    L::yard().platform().wake(word());
}

fn make<L: Library>() {
    match make_thread(work::<L>) {
        Some(thread) => {
            THREAD.store(thread, Ordering::Relaxed);
            let any = core::ptr::without_provenance(1);
            // SAFETY: our own key.
            unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), any) };
        }
        None => say!("the helper thread cannot be made"),
    }
}

/// What a thread does.
pub(crate) type Begin = extern "C" fn(*mut u8) -> *mut u8;

/// Makes a thread of ours, with all signals blocked from its first instruction.
pub(crate) fn make_thread(begin: Begin) -> Option<usize> {
    const SIG_SETMASK: i32 = 2;
    let all: Signals = [u64::MAX; 16];
    let mut old: Signals = [0; 16];
    // SAFETY: our own sets, of the C library's size.
    unsafe { pthread_sigmask(SIG_SETMASK, &raw const all, &raw mut old) };
    let thread = STACKS.iter().find_map(|bytes| create(*bytes, begin));
    // SAFETY: as above.
    unsafe { pthread_sigmask(SIG_SETMASK, &raw const old, null_mut()) };
    thread
}

fn create(stack_bytes: usize, begin: Begin) -> Option<usize> {
    let mut attributes: Attributes = [0; 16];
    let mut thread = 0;
    // SAFETY: our own attributes and handle; the function fits.
    unsafe {
        pthread_attr_init(&raw mut attributes);
        pthread_attr_setstacksize(&raw mut attributes, stack_bytes);
        let failed = pthread_create(&raw mut thread, &raw const attributes, begin, null_mut());
        pthread_attr_destroy(&raw mut attributes);
        (failed == 0).then_some(thread)
    }
}

extern "C" fn work<L: Library>(_: *mut u8) -> *mut u8 {
    const PR_SET_NAME: i32 = 15;
    // SAFETY: a string that lives for ever.
    unsafe { prctl(PR_SET_NAME, c"slabyard".as_ptr(), 0usize, 0usize, 0usize) };
    let yard = L::yard();
    let platform = yard.platform();
    SHOWN[shown::THREAD].store(platform.thread_number(), Ordering::Relaxed);
    loop {
        let woken = word().swap(CALM, Ordering::SeqCst) == WOKEN;
        // SeqCst: the word was written after it. Pairs with the store in `main_thread_ends`.
        if ENDS.load(Ordering::SeqCst) {
            return null::<u8>().cast_mut();
        }
        // `is_ticking` below sees the ticker whose begin this word or an earlier one announced:
        // the exchange that began it is SeqCst, too.
        fence(Ordering::SeqCst);
        if woken {
            help::help_answer(yard);
        }
        while yard.is_ticking() && !ENDS.load(Ordering::Relaxed) && help::help_reclaim(yard) {}
        if yard.is_ticking() {
            platform.wait_at_most(word(), CALM, yard.period_ms());
        } else {
            platform.wait(word(), CALM);
        }
    }
}

/// Destructor of the key: the main thread ends, and others may continue. They have no helper then:
/// which of them is the last cannot be seen in time.
unsafe extern "C" fn main_thread_ends<L: Library>(_: *mut u8) {
    let thread = THREAD.swap(0, Ordering::Relaxed);
    if thread == 0 {
        return;
    }
    ENDS.store(true, Ordering::SeqCst);
    SHOWN[shown::THREAD].store(0, Ordering::Relaxed);
    rouse::<L>();
    // SAFETY: our own thread, which no other thread joins.
    unsafe { pthread_join(thread, null_mut()) };
}
