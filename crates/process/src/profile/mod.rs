//! Sampled allocations: who allocates how much, at a cost that is nothing while nobody asks.
//!
//! While a profile is on, the limit of [`FAST`] is 0, so each `malloc` leaves
//! its fast path at the first test, for a sequence that counts the request's bytes off the thread's
//! gap and then pops as the fast path does (`crate::malloc::counting`). Where the gap ends, `malloc`
//! comes here: the block is a *sample*. Gaps are drawn from the exponential distribution (`gap`), so that a
//! request of `n` bytes is a sample with probability 1 - exp(-n / rate), whatever came before it,
//! and counts for 1 / (1 - exp(-n / rate)) of its kind: estimates are unbiased (this is Poisson
//! sampling, as in tcmalloc's `docs/sampling.md` and jemalloc's profiles).
//!
//! ```text
//! reader                        this process
//! RATE = 524288, LIMIT = 0  ->  next malloc: [`look`] maps the memory, State::On
//! takes samples and frees   <-  rings of records, each with registers and a copy of the stack
//! RATE = 0                  ->  next malloc: State::Off, fast paths as before
//! ```
//!
//! A small sample is a run of its own, not an object of a slab: so its free takes the slow path,
//! and the frees of all other objects cost nothing more. `blocks` has the samples that live.
//! Neighbours: `slabyard_abi::profile` describes words and memory; `rings` writes records.
//! Invariants: nothing here allocates but the sampled block itself, waits for a lock or for another
//! thread, or fails a request that would be served without it; a small sample that lives is in
//! `blocks`, also after the profile; the child of a fork samples nothing.

mod arch;
mod blocks;
mod gap;
pub(crate) mod left;
mod pace;
mod rings;
mod stack;

use crate::control::{CONTROL, COUNTED, OWNER, is_on, is_wanted, memory, number, switch_on, word};
use crate::debug;
use crate::library::Library;
use crate::state::{FAST, choose_limit, is_closed};
use slabyard::cache::classes::LARGEST;
use slabyard::mail::header;
use slabyard::platform::rseq::ARE_SUPPORTED;
use slabyard::platform::{Memory, Park, Time};
use slabyard::sync::{AtomicU32, AtomicU64, Ordering, TryLock};
use slabyard_abi::profile::{BYTES, LEAST_RATE, MOST_RATE, PATIENCE_NS, State, control};
use slabyard_abi::region::Word;

/// Taken while a thread switches.
static SWITCHING: TryLock = TryLock::new();
/// The alignment of a small sample: no class has one as large, so the yard gives a run for it.
const RUN_ALIGN: usize = 32 << 10;

/// The mean distance of samples that an option asks for; 0: it asks for none.
static BY_OPTION: AtomicU64 = AtomicU64::new(0);
/// By the monotonic clock in nanoseconds.
static BEGAN: AtomicU64 = AtomicU64::new(0);

/// Shows the words to other processes, and notes what an option asks for.
pub(crate) fn show<L: Library>(rate: u64) {
    if ARE_SUPPORTED {
        word(control::LIMIT).store(FAST.limit.as_ptr() as u64, Ordering::Relaxed);
        BY_OPTION.store(rate, Ordering::Relaxed);
        header::publish_word(L::yard(), Word::Profile, CONTROL.as_ptr() as u64);
    }
}

/// Begins the profile that the option asks for.
pub(crate) fn begin_by_option<L: Library>() {
    let rate = BY_OPTION.load(Ordering::Relaxed);
    if rate != 0 {
        word(control::RATE).store(rate, Ordering::Relaxed);
        look::<L>();
    }
}

/// Begins or ends what the reader asks for.
#[cold]
fn look<L: Library>() {
    let is_asked = || word(control::RATE).load(Ordering::Relaxed) != 0;
    if is_asked() == is_on() || !SWITCHING.try_acquire() {
        return;
    }
    // Once more: that thread may have done it.
    match (is_asked(), is_on()) {
        (true, false) => begin::<L>(),
        (false, true) => {
            word(control::STATE).store(State::Off as u64, Ordering::Relaxed);
            choose_limit::<L>();
        }
        _ => {}
    }
    SWITCHING.release();
}

fn begin<L: Library>() {
    let refuse = |why: State| {
        word(control::RATE).store(0, Ordering::Relaxed);
        word(control::STATE).store(why as u64, Ordering::Relaxed);
    };
    if L::DEBUGS && (debug::is_on() || L::yard().is_guarded()) {
        return refuse(State::Debugging);
    }
    let mut memory = memory();
    if memory == 0 {
        let Some(mapped) = L::yard().platform().map(BYTES, 4096) else {
            return refuse(State::NoMemory);
        };
        memory = mapped;
    }
    rings::begin(memory);
    let now_ns = L::yard().platform().now_ns();
    pace::begin(now_ns);
    BEGAN.store(now_ns, Ordering::Relaxed);
    OWNER.store(getpid().cast_unsigned(), Ordering::Relaxed);
    word(control::ENDING).store(0, Ordering::Relaxed);
    gap::seed(now_ns ^ memory as u64);
    switch_on(memory);
    choose_limit::<L>();
}

/// The mean distance of samples with which gaps are drawn now.
fn distance() -> u64 {
    let asked = word(control::RATE).load(Ordering::Relaxed).clamp(LEAST_RATE, MOST_RATE);
    pace::distance(asked, MOST_RATE)
}

/// An allocation while [`is_wanted`]: `Some` if it is a sample. Else the caller serves it as ever.
#[cold]
#[inline(never)]
pub(crate) fn allocate<L: Library>(bytes: usize, align: usize) -> Option<usize> {
    if is_closed() {
        return None;
    }
    look::<L>();
    if !is_on() {
        return None;
    }
    take::<L>(bytes, align, ended(bytes, align)?)
}

/// The block that a small one is copied to, counted as an allocation: `Some` if it is a sample.
pub(crate) fn allocate_resized<L: Library>(bytes: usize) -> Option<usize> {
    if !is_on() || is_closed() {
        return None;
    }
    take::<L>(bytes, 16, counted_off(bytes)?)
}

/// Allocates a sample, if there is room for one.
fn take<L: Library>(bytes: usize, align: usize, distance: u64) -> Option<usize> {
    let small = bytes <= LARGEST && align <= 16;
    let now_ns = count_sample::<L>();
    let place = rings::claim_sample(memory())?;
    let block = if small {
        L::yard().alloc(bytes.max(1), RUN_ALIGN)
    } else {
        L::yard().alloc(bytes, align)
    };
    let Some(address) = block else {
        place.forget();
        return None;
    };
    if !blocks::add(memory(), address, place.sequence()) {
        place.lose();
        if small {
            let freed = L::yard().free(address);
            debug_assert!(freed.is_ok(), "it was allocated here");
            return None;
        }
        return Some(address);
    }
    place.write::<L>(bytes, distance, now_ns);
    Some(address)
}

/// A large block that was resized: its new size is an allocation.
pub(crate) fn note<L: Library>(address: usize, bytes: usize) {
    if !is_on() || is_closed() {
        return;
    }
    let Some(distance) = counted_off(bytes) else { return };
    let now_ns = count_sample::<L>();
    let Some(place) = rings::claim_sample(memory()) else { return };
    if blocks::add(memory(), address, place.sequence()) {
        place.write::<L>(bytes, distance, now_ns);
    } else {
        place.lose();
    }
}

/// The mean distance with which the thread's gap was drawn, if it ends in this request.
fn ended(bytes: usize, align: usize) -> Option<u64> {
    // The sequence counted it already.
    let is_counted = align <= 16 && bytes < COUNTED.load(Ordering::Relaxed);
    counted_off(if is_counted { 0 } else { bytes })
}

/// Counts a request off the thread's gap; the mean distance with which it was drawn, if it ends.
fn counted_off(bytes: usize) -> Option<u64> {
    let (gap, number) = (left::of_thread(), number());
    let part = gap.left() - i64::try_from(bytes).unwrap_or(i64::MAX);
    if part > 0 {
        gap.set_part(part);
        return None;
    }
    let draw = || {
        let distance = distance();
        gap.set_drawn(number, distance);
        i64::from(gap::draw(distance))
    };
    let mut left = gap.behind() + part;
    if gap.distance() == 0 {
        left += draw();
    } else if left > 0 && gap.profile() != number {
        left = draw();
    }
    let ended = (left <= 0).then(|| gap.distance());
    gap.set(if ended.is_some() { draw() } else { left });
    ended
}

/// True if a reader looked lately, or the profile began lately.
fn is_attended(now_ns: u64) -> bool {
    let seen = word(control::ATTENDED).load(Ordering::Relaxed);
    let seen = seen.max(BEGAN.load(Ordering::Relaxed));
    now_ns.saturating_sub(seen) <= PATIENCE_NS
}

/// At each sample: counts it, and ends a profile whose reader is gone, which the next `malloc`
/// switches off. The time.
fn count_sample<L: Library>() -> u64 {
    let now_ns = L::yard().platform().now_ns();
    pace::count(now_ns);
    if !is_attended(now_ns) {
        word(control::RATE).store(0, Ordering::Relaxed);
    }
    now_ns
}

/// True if samples live, so that frees must be [`take_off`].
#[inline(always)]
pub(crate) fn has_blocks() -> bool {
    blocks::any()
}

/// A block is freed, before it is: its sample's sequence, if it is one.
#[cold]
pub(crate) fn take_off(address: usize) -> Option<u64> {
    blocks::remove(memory(), address)
}

/// Takes back what [`take_off`] did: the block lives on.
pub(crate) fn put_back(address: usize, sequence: u64) {
    blocks::add(memory(), address, sequence);
}

/// True for a block that is a sample.
#[cold]
pub(crate) fn is_sample(address: usize) -> bool {
    blocks::has(memory(), address)
}

/// The block of a sample was freed.
pub(crate) fn freed<L: Library>(sequence: u64) {
    if is_on() {
        rings::add_free(memory(), sequence, L::yard().platform().now_ns());
    }
}

/// A block is freed, before it is.
#[cold]
#[inline(never)]
pub(crate) fn note_free<L: Library>(address: usize) {
    if let Some(sequence) = take_off(address) {
        freed::<L>(sequence);
    }
}

/// The process ends: waits until the reader has what there is, if it looks at all. `run` will,
/// where it is the reader.
#[cold]
pub(crate) fn at_exit<L: Library>(is_runs: bool) {
    const LOOKS: u32 = 2000;
    let is_asked = || word(control::RATE).load(Ordering::Relaxed) != 0;
    if !is_on() || !is_asked() || is_closed() || !is_owner() {
        return;
    }
    // Where nobody ever looked, nobody will, but `run`.
    if word(control::ATTENDED).load(Ordering::Relaxed) == 0 && !is_runs {
        return;
    }
    // Release: the reader, who reads 1, finds all records. That it has taken them, this process need not
    // see: it ends.
    word(control::ENDING).store(1, Ordering::Release);
    for _ in 0..LOOKS {
        let is_attended = is_attended(L::yard().platform().now_ns());
        if !is_attended || !is_asked() || word(control::ENDING).load(Ordering::Relaxed) == 0 {
            break;
        }
        L::yard().platform().wait_at_most(&PAUSE, 0, 1);
    }
}

unsafe extern "C" {
    safe fn getpid() -> i32;
}

fn is_owner() -> bool {
    OWNER.load(Ordering::Relaxed) == getpid().cast_unsigned()
}

/// What [`at_exit`] sleeps on; nobody wakes it.
static PAUSE: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork: it has no reader.
pub(crate) fn after_fork<L: Library>() {
    if is_wanted() {
        word(control::RATE).store(0, Ordering::Relaxed);
        word(control::STATE).store(State::Off as u64, Ordering::Relaxed);
        word(control::ENDING).store(0, Ordering::Relaxed);
        choose_limit::<L>();
    }
    SWITCHING.abandon();
}
