//! Marks a slow path under way by a word in its call's stack frame; the thread records the word's
//! address. While the frame exists, no other code writes there, whichever stack a handler or a
//! coroutine runs on; so once the word differs from the mark's value, the frame is gone.
//!
//! Neighbour: [`crate::ThreadWords`] stores the address. A slow path of a yard sets its mark; a
//! call that finds its thread in a slow path checks that slow path's mark ([`Threads::is_other`]).
//! Invariant: while the thread stores an address without the bit [`PASSING`], the gate counts this
//! thread once.

use crate::Threads;
use crate::sync::Ordering;
use core::cell::UnsafeCell;

/// What a mark holds while its slow path is under way.
pub const MARKED: u32 = 0x51ab_f7a3;

/// A word in the frame of a call.
pub struct Mark(UnsafeCell<u32>);

impl Mark {
    /// A mark without a slow path. It is written at once: where a frame lies that is gone, its mark
    /// is no more.
    #[allow(clippy::new_without_default, reason = "it is for a frame, where it stays")]
    #[inline(always)]
    pub fn new() -> Self {
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
pub const PASSING: usize = 1;

impl Mark {
    /// A slow path begins that this marks.
    #[inline(always)]
    pub fn begin<P: Threads>(&self, p: &P) {
        if P::HAS_MARKS {
            let frame = &p.thread().frame;
            self.write(MARKED);
            frame.store(self.0.get().expose_provenance() | PASSING, Ordering::Relaxed);
        }
    }

    /// From here on the gate counts this slow path, and a jump out of it must be repaired.
    #[inline(always)]
    pub fn is_counted<P: Threads>(&self, p: &P) {
        if P::HAS_MARKS {
            let frame = &p.thread().frame;
            frame.store(self.0.get().expose_provenance(), Ordering::Relaxed);
        }
    }
}

/// A slow path, which may have a mark, is about to pass the gate.
#[inline(always)]
pub fn about_to_leave<P: Threads>(p: &P) {
    if P::HAS_MARKS {
        let frame = &p.thread().frame;
        // The thread's own word.
        frame.store(frame.load(Ordering::Relaxed) | PASSING, Ordering::Relaxed);
    }
}

/// The thread has left its slow path: its word holds no mark.
#[inline(always)]
pub fn left<P: Threads>(p: &P) {
    if P::HAS_MARKS {
        let frame = &p.thread().frame;
        frame.store(0, Ordering::Relaxed);
    }
}
