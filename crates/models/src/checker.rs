//! Loom behind the atomics of `slabyard_platform::sync`: a loom atomic for each watched word.
//!
//! Invariants: a word is watched before the model's first thread starts, because loom wants each
//! access to come after its atomic was made. A fence of all threads ([`fence_all`]) ends when
//! each other thread has made one: before its next access, in a yield, or at its end.

use crate::weakened::{OrderingOf, path, weakened};
use loom::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence as loom_fence};
use loom::thread::yield_now;
use slabyard_platform::sync::modelled::{Access, Change};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// A watched word.
enum Word {
    U8(AtomicU8),
    U16(AtomicU16),
    U32(AtomicU32),
    U64(AtomicU64),
}

/// What one execution of a model knows: loom runs its threads one at a time, on one system thread.
#[derive(Default)]
struct Execution {
    words: BTreeMap<usize, Rc<Word>>,
    /// Files whose accesses watch their words, in [`watch_touched`].
    touched: Option<&'static [&'static str]>,
    /// Threads that have started and not ended, and those that must make a fence.
    threads: BTreeSet<u64>,
    must_fence: BTreeSet<u64>,
    /// Fences that a thread made for others: each aborts its sequence.
    made: BTreeMap<u64, u64>,
    nr_threads: u64,
    kept: Vec<Box<dyn std::any::Any>>,
    /// One thread runs in one way alone ([`prepare`]).
    prepares: bool,
    /// Changed by each thread at its end, and read by fences of all threads.
    ends: Option<Rc<AtomicU32>>,
    /// Changed by each access, and read by none.
    turn: Option<Rc<AtomicU32>>,
}

std::thread_local! {
    static EXECUTION: RefCell<Option<Execution>> = const { RefCell::new(None) };
}

/// Every place in the source whose access was modelled, for `SLABYARD_MODELLED`.
static SEEN: std::sync::Mutex<BTreeSet<&Location<'_>>> = std::sync::Mutex::new(BTreeSet::new());

fn see(at: &'static Location<'static>) {
    let mut seen = SEEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    seen.insert(at);
}

fn with<R>(f: impl FnOnce(&mut Execution) -> R) -> Option<R> {
    EXECUTION.with_borrow_mut(|execution| execution.as_mut().map(f))
}

/// Runs a model, one at a time, in every interleaving with at most so many preemptions.
pub fn model(preemptions: usize, body: fn()) {
    check(preemptions, true, body);
}

/// As [`model`], but an interleaving is tried once if it differs in the order of accesses to different
/// words alone: for three threads. It misses a store before which its own thread loads the word.
pub fn model_by_words(preemptions: usize, body: fn()) {
    check(preemptions, false, body);
}

fn check(preemptions: usize, turns: bool, body: fn()) {
    // A `static` of the code is every model's.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    let nr = Rc::new(std::cell::Cell::new(0u64));
    let counted = Counted(nr.clone());
    builder.check(move || {
        counted.count();
        let turn = turns.then(|| Rc::new(AtomicU32::new(0)));
        let ends = Some(Rc::new(AtomicU32::new(0)));
        EXECUTION.set(Some(Execution { turn, ends, ..Execution::default() }));
        // A stack with room for a yard.
        let main = loom::thread::Builder::new().stack_size(1 << 19).spawn(move || {
            me();
            body();
        });
        main.expect("a thread").join().expect("the model's first thread");
        EXECUTION.set(None);
    });
    eprintln!("{} interleavings", nr.get());
    if let Some(to) = std::env::var_os("SLABYARD_MODELLED") {
        let seen = SEEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let lines: String =
            seen.iter().map(|at| format!("{}:{}:{}\n", path(at), at.line(), at.column())).collect();
        std::fs::write(to, lines).expect("SLABYARD_MODELLED");
    }
}

/// A count that stays on its thread.
struct Counted(Rc<std::cell::Cell<u64>>);

// SAFETY: loom calls the model on the thread that called `model`.
unsafe impl Send for Counted {}
// SAFETY: as above.
unsafe impl Sync for Counted {}

impl Counted {
    fn count(&self) {
        self.0.set(self.0.get() + 1);
    }
}

/// The number of the running thread: 0 is the one that began the model.
pub(crate) fn me() -> u64 {
    ME.with(|me| {
        if me.get() == 0 {
            me.set(
                with(|it| {
                    it.nr_threads += 1;
                    it.nr_threads
                })
                .unwrap_or(1),
            );
        }
        me.get() - 1
    })
}

loom::thread_local! {
    static ME: std::cell::Cell<u64> = std::cell::Cell::new(0);
}

/// Starts a thread of the model.
pub fn spawn<R: Send + 'static>(
    f: impl FnOnce() -> R + Send + 'static,
) -> loom::thread::JoinHandle<R> {
    let builder = loom::thread::Builder::new().stack_size(1 << 18);
    let started = builder.spawn(move || {
        let me = me();
        with(|it| it.threads.insert(me));
        // A switch to another thread is a fence: a fence of all threads need not wait for one that
        // does not run.
        loom_fence(Ordering::SeqCst);
        let result = f();
        answer_fence();
        // Only such fences come after the end: what it did is not ordered for the others.
        if let Some(ends) = with(|it| it.ends.clone()).flatten() {
            ends.fetch_add(1, Ordering::Release);
        }
        with(|it| it.threads.remove(&me));
        result
    });
    started.expect("a thread")
}

/// What a thread does before the protocol begins: in one way alone.
pub fn prepare<R>(f: impl FnOnce() -> R) -> R {
    with(|it| it.prepares = true);
    loom::stop_exploring();
    let result = f();
    loom::explore();
    with(|it| it.prepares = false);
    result
}

/// A value that the model's threads share. It lives as long as the execution does.
pub fn keep<T: 'static>(value: T) -> &'static T {
    let kept = Box::new(value);
    // SAFETY: the box stays in the execution, whose threads have ended when it goes.
    let shared = unsafe { &*std::ptr::from_ref(&*kept) };
    with(|it| it.kept.push(kept)).expect("inside of a model");
    shared
}

/// Watches a word: from now on loom decides what its loads return. Before the first [`spawn`].
pub fn watch<T>(word: &T) {
    watch_at(std::ptr::from_ref(word).addr(), size_of::<T>());
}

/// Watches words of so many bytes each, of which the first is at an address.
pub fn watch_range(address: usize, words: usize, bytes: usize) {
    (0..words).for_each(|nth| watch_at(address + nth * bytes, bytes));
}

fn watch_at(address: usize, bytes: usize) {
    with(|it| it.watch(address, bytes)).expect("inside of a model");
}

/// Watches each word that `f` accesses by code of one of these files; returns their addresses.
pub fn watch_touched(files: &'static [&'static str], f: impl FnOnce()) -> Vec<usize> {
    let addresses = || with(|it| it.words.keys().copied().collect::<BTreeSet<_>>());
    let before = addresses().expect("inside of a model");
    with(|it| it.touched = Some(files));
    f();
    with(|it| it.touched = None);
    addresses().map(|now| now.difference(&before).copied().collect()).unwrap_or_default()
}

impl Execution {
    fn watch(&mut self, address: usize, bytes: usize) {
        assert!(self.threads.is_empty(), "watched when threads run");
        self.words.entry(address).or_insert_with(|| {
            let at = address as *const u8;
            // SAFETY: the caller's word, which no other thread uses yet.
            Rc::new(unsafe {
                match bytes {
                    1 => Word::U8(AtomicU8::new(at.read())),
                    2 => Word::U16(AtomicU16::new(at.cast::<u16>().read())),
                    4 => Word::U32(AtomicU32::new(at.cast::<u32>().read())),
                    8 => Word::U64(AtomicU64::new(at.cast::<u64>().read())),
                    _ => panic!("a word of {bytes} bytes"),
                }
            })
        });
    }
}

/// A word that a protocol guards: it is written and read without atomic instructions.
pub struct Data(loom::cell::UnsafeCell<u64>);

// SAFETY: loom checks that no two threads use it at once.
unsafe impl Sync for Data {}
// SAFETY: a number.
unsafe impl Send for Data {}

impl Data {
    /// It holds 0. Before the first [`spawn`].
    #[allow(clippy::new_without_default, reason = "loom wants it made inside of a model")]
    #[must_use]
    pub fn new() -> Self {
        Data(loom::cell::UnsafeCell::new(0))
    }

    /// What it holds.
    #[track_caller]
    pub fn read(&self) -> u64 {
        // SAFETY: loom panics if another thread writes.
        self.0.with(|at| unsafe { *at })
    }

    /// A write, which no other access may be at the same time as.
    #[track_caller]
    pub fn write(&self, value: u64) {
        // SAFETY: loom panics if another thread reads or writes.
        self.0.with_mut(|at| unsafe { *at = value });
    }
}

/// Loom compares an access with the last one of its word alone: a load that the same thread makes
/// before a store hides another thread's load, and the store is not tried before that. So every
/// access conflicts with every other one.
fn take_turn() {
    if let Some(turn) = with(|it| it.turn.clone()).flatten() {
        turn.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes the fence that another thread waits for, if one does.
pub(crate) fn answer_fence() {
    let me = me();
    let must = with(|it| it.must_fence.contains(&me)) == Some(true);
    if must {
        loom_fence(Ordering::SeqCst);
        with(|it| {
            it.must_fence.remove(&me);
            *it.made.entry(me).or_default() += 1;
        });
    }
}

/// A fence of every thread, as `membarrier` makes it.
pub(crate) fn fence_all() {
    loom_fence(Ordering::SeqCst);
    // Others may run between what came before and this.
    take_turn();
    let me = me();
    with(|it| it.must_fence = it.threads.iter().copied().filter(|thread| *thread != me).collect());
    while with(|it| it.must_fence.iter().any(|thread| it.threads.contains(thread))) == Some(true) {
        yield_now();
    }
    if let Some(ends) = with(|it| it.ends.clone()).flatten() {
        ends.fetch_add(0, Ordering::Acquire);
    }
    loom_fence(Ordering::SeqCst);
}

/// What the running thread's sequence begins with: no fence of it that is made for others.
pub(crate) fn begin_sequence() -> u64 {
    answer_fence();
    let me = me();
    with(|it| it.made.get(&me).copied().unwrap_or(0)).unwrap_or(0)
}

#[unsafe(no_mangle)]
fn slabyard_models_fence(ordering: Ordering, at: &'static Location<'static>) {
    if with(|it| !it.words.is_empty()) == Some(true) {
        see(at);
        let ordering = weakened(ordering, OrderingOf::Set, at);
        // A fence that is relaxed is none.
        if ordering != Ordering::Relaxed {
            loom_fence(ordering);
        }
    }
}

#[unsafe(no_mangle)]
fn slabyard_models_spin() {
    if with(|it| !it.words.is_empty()) == Some(true) {
        answer_fence();
        yield_now();
    }
}

#[unsafe(no_mangle)]
fn slabyard_models_access(access: &Access) -> Option<Result<u64, u64>> {
    let word = with(|it| {
        if it.touched.is_some_and(|files| files.iter().any(|at| access.at.file().contains(at))) {
            it.watch(access.address, access.bytes);
        }
        it.words.get(&access.address).cloned()
    })??;
    answer_fence();
    let at = access.at;
    if std::env::var_os("SLABYARD_TRACE").is_some() {
        eprintln!("{} {:#x} {:?} {:?} {at}", me(), access.address, access.change, access.set);
    }
    take_turn();
    see(at);
    let (set, seen) =
        (weakened(access.set, OrderingOf::Set, at), weakened(access.seen, OrderingOf::Seen, at));
    let strong = set == Ordering::SeqCst;
    if strong {
        loom_fence(Ordering::SeqCst);
    }
    let done = match &*word {
        Word::U8(word) => change_u8(word, access.change, set, seen),
        Word::U16(word) => change_u16(word, access.change, set, seen),
        Word::U32(word) => change_u32(word, access.change, set, seen),
        Word::U64(word) => change_u64(word, access.change, set, seen),
    };
    if strong {
        loom_fence(Ordering::SeqCst);
    }
    Some(done)
}

const RELAXED: Ordering = Ordering::Relaxed;

macro_rules! change {
    ($($name:ident $word:ty, $number:ty;)*) => {$(
        fn $name(
            word: &$word,
            change: Change,
            set: Ordering,
            seen: Ordering,
        ) -> Result<u64, u64> {
            let old = match change {
                // The load of an update has no ordering of its own but that of a failure.
                Change::Load if set == Ordering::Relaxed => word.load(seen),
                Change::Load => word.load(set),
                Change::Store(new) => {
                    // Loom does not know that a store comes after an exchange by another thread
                    // that ran before, unless its thread has seen that. This one fails, or writes
                    // what is there.
                    let newest = 0x5bad_c0de_5bad_c0de_u64 as $number;
                    let _ = word.compare_exchange(newest, newest, RELAXED, RELAXED);
                    let explores = with(|it| it.prepares) != Some(true);
                    if explores {
                        loom::stop_exploring();
                    }
                    word.store(new as $number, set);
                    if explores {
                        loom::explore();
                    }
                    0
                }
                Change::Swap(new) => word.swap(new as $number, set),
                Change::Add(more) => word.fetch_add(more as $number, set),
                Change::Sub(less) => word.fetch_sub(less as $number, set),
                Change::And(bits) => word.fetch_and(bits as $number, set),
                Change::Or(bits) => word.fetch_or(bits as $number, set),
                Change::Xor(bits) => word.fetch_xor(bits as $number, set),
                Change::Max(least) => word.fetch_max(least as $number, set),
                Change::Min(most) => word.fetch_min(most as $number, set),
                Change::Exchange(old, new) => {
                    return word
                        .compare_exchange(old as $number, new as $number, set, seen)
                        .map(u64::from)
                        .map_err(u64::from);
                }
            };
            Ok(old.into())
        }
    )*};
}

change! {
    change_u8 AtomicU8, u8;
    change_u16 AtomicU16, u16;
    change_u32 AtomicU32, u32;
    change_u64 AtomicU64, u64;
}
