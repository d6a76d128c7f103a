//! How far the thread that watches memory pressure is, and by what it is ended.
//!
//! Neighbour: [`super`] makes the thread, and waits for it.

use slabyard::platform::Park;
use slabyard::sync::{AtomicI32, AtomicU32, Ordering};

/// Values of [`WORD`]: the thread is not ready yet, it watches, it cannot, or it must end.
pub(super) const BEGINS: u32 = 0;
pub(super) const WATCHES: u32 = 1;
pub(super) const FAILED: u32 = 2;
pub(super) const END: u32 = 3;

pub(super) static WORD: AtomicU32 = AtomicU32::new(BEGINS);
/// The thread, as the kernel names it.
pub(super) static TID: AtomicI32 = AtomicI32::new(0);
/// The end of a pipe in the thread's table of files: what is written there ends it.
pub(super) static BELL: AtomicI32 = AtomicI32::new(-1);

/// The thread of this number watches, until this bell rings.
pub(super) fn watch<P: Park>(p: &P, thread: i32, bell: i32) {
    BELL.store(bell, Ordering::Relaxed);
    TID.store(thread, Ordering::Relaxed);
    publish(p, WATCHES);
}

/// Says how far the thread is, unless it must end.
pub(super) fn publish<P: Park>(p: &P, state: u32) {
    // Release: who ends the thread sees the bell. Pairs with `end`.
    let _ = WORD.compare_exchange(BEGINS, state, Ordering::Release, Ordering::Relaxed);
    p.wake(&WORD);
}

/// Says that the thread must end: its number and its bell, if it watches. One that is not ready yet
/// finds it when it is.
pub(super) fn end() -> Option<[i32; 2]> {
    // Acquire pairs with the Release in `publish`.
    let watches = WORD.swap(END, Ordering::Acquire) == WATCHES;
    watches.then(|| [TID.load(Ordering::Relaxed), BELL.load(Ordering::Relaxed)])
}
