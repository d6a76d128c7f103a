//! The words of a profile: what a reader in another process writes and reads, and what the fast
//! path's limit depends on.
//!
//! Neighbours: `slabyard_abi::profile` numbers the words; [`crate::profile`] changes them;
//! [`crate::state`] asks whether calls must be counted. Invariant: no code is here that could ask
//! for anything else of the crate.

use slabyard::cache::classes::LARGEST;
use slabyard::platform::rseq::ARE_SUPPORTED;
use slabyard::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use slabyard_abi::profile::{State, control};

/// The words that a reader sees.
pub(crate) static CONTROL: [AtomicU64; control::WORDS] =
    [const { AtomicU64::new(0) }; control::WORDS];
/// The process that switched the profile on: a child may have a copy of its words.
pub(crate) static OWNER: AtomicU32 = AtomicU32::new(0);
/// What the counting sequence counts is smaller than this: 0 while no profile is on.
pub(crate) static COUNTED: AtomicUsize = AtomicUsize::new(0);

/// By its number in `slabyard_abi::profile::control`.
#[inline(always)]
pub(crate) fn word(word: usize) -> &'static AtomicU64 {
    &CONTROL[word]
}

/// The number of the last profile.
pub(crate) fn number() -> u32 {
    word(control::GENERATION).load(Ordering::Relaxed) as u32
}

/// A profile begins in this memory, where all is ready for it.
pub(crate) fn switch_on(memory: usize) {
    word(control::MEMORY).store(memory as u64, Ordering::Relaxed);
    word(control::GENERATION).fetch_add(1, Ordering::Relaxed);
    // Release: pairs with the loads of `is_on` and of the reader.
    word(control::STATE).store(State::On as u64, Ordering::Release);
}

/// The memory, once it is mapped.
pub(crate) fn memory() -> usize {
    word(control::MEMORY).load(Ordering::Relaxed) as usize
}

/// True while allocations are sampled.
pub(crate) fn is_on() -> bool {
    // Acquire: the memory is mapped. Pairs with the store that begins a profile.
    word(control::STATE).load(Ordering::Acquire) == State::On as u64
}

/// True if slow paths must look at the profile: one is on, or asked for.
#[inline(always)]
pub(crate) fn is_wanted() -> bool {
    let [rate, state] = [control::RATE, control::STATE].map(|it| word(it).load(Ordering::Relaxed));
    ARE_SUPPORTED && (rate != 0 || state == State::On as u64)
}

/// Sets [`COUNTED`]: `closed` where no call may take the fast path.
pub(crate) fn choose_counted(closed: bool) {
    let counts = is_on() && !closed;
    // Release: as the limit's.
    COUNTED.store(if counts { LARGEST + 1 } else { 0 }, Ordering::Release);
}
