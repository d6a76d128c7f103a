//! A mark of a slow path: a word in the stack frame of its call; the thread records the word's
//! address. As long as the frame is alive no other code writes there, whichever stack a handler or
//! a coroutine runs on; so once the word differs from the mark, the frame is gone.
//!
//! Neighbours: `slow_path` sets it; [`crate::jumped`] compares it.
//! Invariant: while the thread's word holds a mark without [`PASSING`], the gate counts this thread
//! once.

use super::Threads;
use crate::sync::Ordering;
use core::cell::UnsafeCell;

/// What a mark holds while its slow path is under way.
pub(crate) const MARKED: u32 = 0x51ab_f7a3;

/// A word in the frame of a call.
pub(crate) struct Mark(UnsafeCell<u32>);

impl Mark {
    /// A mark without a slow path. It is written at once: where a frame lies that is gone, its mark
    /// is no more.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        let mark = Mark(UnsafeCell::new(0));
        mark.write(0);
        mark
    }

    #[inline(always)]
    fn write(&self, value: u32) {
        // SAFETY: our own word; no thread reads it but through the system.
        unsafe { self.0.get().write_volatile(value) };
    }
}

/// Bit of the thread's word: the gate may not count the slow path, which enters or leaves, and has
/// changed nothing yet, or no more does.
pub(crate) const PASSING: usize = 1;

impl Mark {
    /// A slow path begins that this marks.
    #[inline(always)]
    pub(crate) fn begin<P: Threads>(&self, p: &P) {
        if P::HAS_MARKS {
            let frame = &p.thread().frame;
            self.write(MARKED);
            frame.store(self.0.get().expose_provenance() | PASSING, Ordering::Relaxed);
        }
    }

    /// The gate counts it.
    #[inline(always)]
    pub(crate) fn is_counted<P: Threads>(&self, p: &P) {
        if P::HAS_MARKS {
            let frame = &p.thread().frame;
            frame.store(self.0.get().expose_provenance(), Ordering::Relaxed);
        }
    }
}

/// A slow path, which may have a mark, is about to pass the gate.
#[inline(always)]
pub(crate) fn about_to_leave<P: Threads>(p: &P) {
    if P::HAS_MARKS {
        let frame = &p.thread().frame;
        // The thread's own word.
        frame.store(frame.load(Ordering::Relaxed) | PASSING, Ordering::Relaxed);
    }
}

/// The thread is outside.
#[inline(always)]
pub(crate) fn left<P: Threads>(p: &P) {
    if P::HAS_MARKS {
        let frame = &p.thread().frame;
        frame.store(0, Ordering::Relaxed);
    }
}
