//! A reader slot: words of one thread that show other threads whether it is in an RCU read section.
//! A yard assigns the slots; a platform takes them back when threads exit.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Value of a thread's first word as a reader while it takes a place: a signal handler that
/// interrupts it must do without one.
pub const TAKING: usize = 1;
/// Value of that word after the thread's place was taken back: it gets none any more.
pub const ENDED: usize = 2;

/// One thread's place, in a cache line of its own. The word is 0 while nobody has the place.
#[repr(C, align(64))]
pub struct ReaderSlot {
    /// The thread's sections, in the layout that the yard chooses.
    pub word: AtomicU64,
    /// Whose place it is: the address of the thread's words; 0 if it is nobody's.
    pub thread: AtomicUsize,
}

impl ReaderSlot {
    /// The thread ends, or does not exist in the child of a fork. A section in which it ends is
    /// over.
    pub fn leave(&self) {
        // Release: who sees this sees the end of the thread's reads.
        self.word.store(0, Ordering::Release);
        self.thread.store(0, Ordering::Release);
    }
}
