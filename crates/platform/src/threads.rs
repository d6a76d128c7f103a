//! Threads: the running thread's words, including those as an RCU reader, and the child of a fork,
//! in which the other threads do not exist.
//!
//! Neighbours: [`crate::birth`] distinguishes a child from its parent; [`crate::mark`] marks slow
//! paths; [`crate::reader`] defines a reader's slot.

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::{birth, reader};

/// What a thread keeps for the allocator. It alone changes these words, and its signal handlers.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ThreadWords {
    /// Of slow paths: bit 0 is set inside of one, so that a signal handler that interrupts it sees
    /// it; the rest counts them.
    pub depth: AtomicU32,
    /// The ranks of the locks that it holds ([`crate::Park::held`]).
    pub held: AtomicU32,
    /// As a reader of RCU, 0 at first: the address of its place, and its sections without one.
    pub reader: [AtomicUsize; 2],
    /// The address of the mark of its slow path ([`crate::mark`]), and 0 outside of one.
    pub frame: AtomicUsize,
}

/// The thread that runs, and the others of its process.
pub trait Threads {
    /// True if slow paths have [marks](crate::mark).
    const HAS_MARKS: bool = false;

    /// What the calling thread keeps here, at an address that stays until it ends.
    fn thread(&self) -> &ThreadWords;

    /// True if a word of this process, which may not be there any more, is there and not `value`.
    fn is_other(&self, _at: usize, _value: u32) -> bool {
        false
    }

    /// Runs `f` while no signal handler of this thread does. `None` if signals cannot be held back.
    fn without_handlers<R>(&self, _f: impl FnOnce() -> R) -> Option<R> {
        None
    }

    /// The word by which the child of a fork is told from its parent ([`birth`]).
    fn birth(&self) -> &AtomicU32;

    /// In a handler that the C library calls before a fork: from here on the thread may be the
    /// child's before a handler says so.
    fn begin_fork(&self) {}

    /// In a handler after a fork, of either process.
    fn end_fork(&self) {}

    /// In a handler that the C library calls in the child of a fork: says so where the kernel has
    /// not, and no slow path has seen it since.
    fn mark_child(&self) {
        self.birth().store(birth::CHILD, Ordering::Relaxed);
    }

    /// In the child of a fork, before its first slow path: what the kernel does not keep for it is
    /// made anew when it is needed.
    fn begin_child(&self) {}

    /// Has a place taken back when this thread ends. False if the platform cannot: then the
    /// thread must not have the place.
    fn on_thread_end(&self, place: &reader::ReaderSlot) -> bool;

    /// Stores to a word that this thread alone changes. The store may reach other CPUs after loads
    /// that follow, unless a fence is between.
    #[inline(always)]
    fn announce(&self, word: &AtomicU64, value: u64) {
        // Release pairs with the Acquire of who waits for readers.
        word.store(value, Ordering::Release);
    }

    /// What this thread announced last.
    #[inline(always)]
    fn announced(&self, word: &AtomicU64) -> u64 {
        word.load(Ordering::Relaxed)
    }

    /// When it returns, what this thread announced has reached the other CPUs.
    #[inline(always)]
    fn fence_reader(&self) {
        crate::sync::fence(Ordering::SeqCst);
    }

    /// When it returns true, each thread of the process has made a full fence since the call.
    /// False if the kernel refuses, now and from now on.
    fn fence_readers(&self) -> bool;
}
