//! Private slots: rows that belong to one thread each, for processes without restartable sequences.
//!
//! A thread has one slot, which selects the same row in each yard: so slots belong to the process.
//!
//! Neighbour: [`super::own_slot`] takes and frees slots.

use crate::sync::{AtomicU64, AtomicUsize, Once, Ordering};

unsafe extern "C" {
    fn pthread_key_create(key: *mut u32, destructor: Option<unsafe extern "C" fn(*mut u8)>) -> i32;
    fn pthread_setspecific(key: u32, value: *const u8) -> i32;
}

/// The C library's key whose destructor gives slots back, and what does so.
static END: Once<(u32, fn())> = Once::new();

/// From now on `call` gives back the slots of threads that end. False if no key is left.
pub(super) fn at_end(call: fn()) -> bool {
    let mut key = 0;
    // SAFETY: the destructor has the signature that the C library requires.
    let make = |key| unsafe { pthread_key_create(key, Some(thread_ends)) } == 0;
    END.try_get().is_some() || make(&raw mut key) && END.set((key, call))
}

/// Has the end of this thread noticed: its slot is given back in the third of the four iterations
/// of destructors that POSIX promises, because other keys' destructors may free and allocate later.
pub(super) fn remember(iteration: usize) {
    if let Some((key, _)) = END.try_get() {
        // SAFETY: our own key.
        unsafe { pthread_setspecific(*key, core::ptr::without_provenance(iteration)) };
    }
}

unsafe extern "C" fn thread_ends(iteration: *mut u8) {
    match iteration as usize {
        3.. => (END.get().1)(),
        iteration => remember(iteration + 1),
    }
}

/// Rows kept for private slots; further threads take slow paths only. Fewer where address
/// space is limited: a page of a row may take this part of it.
const MAX_SLOTS: usize = 256;
const SLOTS_PART: usize = 256;

/// The slots of all threads.
struct Slots {
    /// As many as the first yard has rows for: 0 before it is made.
    most: AtomicUsize,
    /// All slots below this number were given out at least once.
    given: AtomicUsize,
    /// Those in use, one bit each.
    used: [AtomicU64; MAX_SLOTS / 64],
}

static SLOTS: Slots = Slots {
    most: AtomicUsize::new(0),
    given: AtomicUsize::new(0),
    used: [const { AtomicU64::new(0) }; MAX_SLOTS / 64],
};

/// Rows that a yard needs for private slots, where address space has this limit: all have as
/// many as the first.
pub(super) fn nr_rows(limit: Option<usize>, page_bytes: usize) -> usize {
    let limit = limit.unwrap_or(usize::MAX);
    let wanted = (limit / SLOTS_PART / page_bytes).clamp(1, MAX_SLOTS);
    match SLOTS.most.compare_exchange(0, wanted, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => wanted,
        Err(most) => most,
    }
}

/// Slots given out until now.
pub(super) fn given() -> usize {
    SLOTS.given.load(Ordering::Relaxed)
}

/// Frees the slot of a thread that is gone.
pub(super) fn free(slot: usize) {
    if let Some(word) = SLOTS.used.get(slot / 64) {
        // Release: the next owner's Acquire sees the row as it was left.
        word.fetch_and(!(1 << (slot % 64)), Ordering::Release);
    }
}

/// Takes a free slot.
pub(super) fn take() -> Option<u32> {
    for (i, word) in SLOTS.used.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != u64::MAX {
            let bit = bits.trailing_ones();
            if i * 64 + bit as usize >= SLOTS.most.load(Ordering::Relaxed) {
                return None;
            }
            // Acquire pairs with the Release in `free`.
            let (set, seen) = (Ordering::Acquire, Ordering::Relaxed);
            match word.compare_exchange_weak(bits, bits | 1 << bit, set, seen) {
                Ok(_) => {
                    let slot = i as u32 * 64 + bit;
                    SLOTS.given.fetch_max(slot as usize + 1, Ordering::Relaxed);
                    return Some(slot);
                }
                Err(seen) => bits = seen,
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
