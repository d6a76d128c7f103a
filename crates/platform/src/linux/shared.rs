//! Threads whose thread-local data a child process uses, too: the child of `vfork`, or of `clone`
//! with shared memory and without its own thread-local data.
//!
//! The kernel unregisters restartable sequences in such a child. So it would not abort the child's
//! sequence when another thread preempts the child, and the child would read its parent's last CPU
//! number (rseq(2)). Therefore the parent first unregisters its own area. Then the CPU number there
//! is -1, for the child as well, and each call of parent or child takes a slow path under locks,
//! without a row. Other threads keep their rows. The parent registers again when the child is gone.
//!
//! Neighbour: the malloc library interposes the functions that create such children.

use super::mode::Mode;
use super::on_linux::{Counting, OnLinux};
use crate::rseq::{self, flags as bits};
use crate::sync::{AtomicU32, Ordering};
use crate::sys;

const RSEQ_FLAG_UNREGISTER: usize = 1;
/// Bytes of an area, at least and at most; the C library's has as many as its kernel's features
/// need, which the kernel compares.
const LEAST: usize = 32;
const MOST: usize = 1024;
/// The length with which the C library registers its areas; 0 before it was found.
static LENGTH: AtomicU32 = AtomicU32::new(0);

/// In the thread's flags: one slow path, and so many of them after which a thread looks whether its
/// child is gone.
const ONE: u32 = 1 << 4;
const ALL: u32 = bits::SHARED - ONE;
/// The process of several children, of which one is not known.
const SEVERAL: u32 = u32::MAX / bits::SHARED;

/// What a thread gave up before it made a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Left {
    /// Nothing: it has no sequences that a child could use wrongly.
    Nothing,
    /// That of its area of restartable sequences: the child makes none with it.
    Registration,
    /// The kernel refuses that.
    Refused,
}

impl<C: Counting> OnLinux<C> {
    /// This thread has no row until it [returns](OnLinux::return_to_row). True if it had none
    /// before.
    pub fn leave_row(&self) -> bool {
        let flags = &rseq::thread().flags;
        flags.fetch_or(bits::NO_ROW, Ordering::Relaxed) & bits::NO_ROW != 0
    }

    /// This thread has its row again.
    pub fn return_to_row(&self) {
        rseq::thread().flags.fetch_and(!bits::NO_ROW, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn has_left_row(&self) -> bool {
        rseq::thread().flags.load(Ordering::Relaxed) & bits::NO_ROW != 0
    }

    fn rseq(&self, length: usize, flags: usize) -> bool {
        let thread_pointer = core::ptr::from_ref(rseq::thread()) as usize;
        // The area lies as far from the thread's block as their offsets.
        let area = thread_pointer
            .wrapping_sub(rseq::thread_offset())
            .wrapping_add(self.cs_offset().wrapping_sub(8));
        let arguments = [area, length, flags, rseq::SIGNATURE as usize, 0, 0];
        // SAFETY: this thread's own area, which is there as long as the thread.
        unsafe { sys::call(sys::RSEQ, arguments) == 0 }
    }

    /// Gives this thread's registration up, before it makes a child that shares its data.
    pub fn leave_cpu(&self) -> Left {
        let number = rseq::cpu_id(self.cs_offset().wrapping_sub(8));
        if self.mode() == Mode::Slots || number < 0 {
            return Left::Nothing;
        }
        let known = LENGTH.load(Ordering::Relaxed) as usize;
        let mut lengths = [known].into_iter().filter(|n| *n > 0).chain((LEAST..=MOST).step_by(32));
        let Some(length) = lengths.find(|length| self.rseq(*length, RSEQ_FLAG_UNREGISTER)) else {
            return Left::Refused;
        };
        LENGTH.store(length as u32, Ordering::Relaxed);
        Left::Registration
    }

    /// Registers this thread again: no child uses its data any more.
    pub fn return_to_cpu(&self) {
        self.set_child(0);
        // If the system refuses, the thread goes on without a row.
        self.rseq(LENGTH.load(Ordering::Relaxed) as usize, 0);
    }

    /// This thread registers again when its child of this process id is gone; an earlier one may
    /// still be there.
    pub fn return_after(&self, child: u32) {
        let earlier = rseq::thread().flags.load(Ordering::Relaxed) / bits::SHARED;
        self.set_child(if earlier == 0 { child.min(SEVERAL) } else { SEVERAL });
    }

    fn set_child(&self, child: u32) {
        let flags = &rseq::thread().flags;
        let others = flags.load(Ordering::Relaxed) & (ONE - 1);
        flags.store(others | (child * bits::SHARED), Ordering::Relaxed);
    }

    /// At the start of a slow path of a thread that has such a child.
    #[cold]
    #[inline(never)]
    pub(super) fn look_for_child(&self) {
        const ESRCH: isize = 3;
        let word = &rseq::thread().flags;
        let flags = word.load(Ordering::Relaxed);
        if flags & ALL != ALL {
            word.store(flags + ONE, Ordering::Relaxed);
            return;
        }
        word.store(flags & !ALL, Ordering::Relaxed);
        let child = flags / bits::SHARED;
        // SAFETY: signal 0 is none. (The child, which comes here as well, finds itself.)
        let gone = || unsafe { sys::call(sys::KILL, [child as usize, 0, 0, 0, 0, 0]) } == -ESRCH;
        if child != SEVERAL && !self.is_restricted() && gone() {
            self.return_to_cpu();
        }
    }
}
