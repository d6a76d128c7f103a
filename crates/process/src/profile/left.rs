//! Each thread's gap to its next sample, in thread-local words that the counting sequence of
//! [`crate::malloc`] reads and writes.
//!
//! Invariant: the words of a thread that has counted nothing yet are zeros, the number of no profile.

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

global_asm!(
    ".pushsection .tbss.slabyard_gap, \"awT\", @nobits",
    ".balign 8",
    ".globl slabyard_gap",
    ".hidden slabyard_gap",
    ".type slabyard_gap, @object",
    ".size slabyard_gap, 16",
    "slabyard_gap:",
    ".zero 16",
    ".popsection",
);

/// A thread's gap to its next sample.
#[repr(C)]
pub(crate) struct Gap {
    profile: AtomicU32,
    left: AtomicI32,
    distance: AtomicU64,
}

/// Where its words are.
pub(crate) const PROFILE_AT: usize = core::mem::offset_of!(Gap, profile);
pub(crate) const LEFT_AT: usize = core::mem::offset_of!(Gap, left);

impl Gap {
    /// The number of the profile for which it was drawn.
    pub(super) fn profile(&self) -> u32 {
        self.profile.load(Ordering::Relaxed)
    }

    /// Bytes that are left; 0 or less where it has ended.
    pub(super) fn left(&self) -> i32 {
        self.left.load(Ordering::Relaxed)
    }

    /// The mean distance with which it was drawn.
    pub(super) fn distance(&self) -> u64 {
        self.distance.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, profile: u32, left: i32, distance: u64) {
        self.distance.store(distance, Ordering::Relaxed);
        self.set_left(left);
        self.profile.store(profile, Ordering::Relaxed);
    }

    pub(super) fn set_left(&self, left: i32) {
        self.left.store(left, Ordering::Relaxed);
    }
}

/// That of the thread that calls.
pub(super) fn of_thread() -> &'static Gap {
    let address: usize;
    // SAFETY: the word at fs:0 is the thread pointer, to which the loader's entry is the distance;
    // the gap lives as long as the thread that asks for it.
    unsafe {
        asm!(
            "mov {0}, qword ptr fs:[0]",
            "add {0}, qword ptr [rip + slabyard_gap@GOTTPOFF]",
            out(reg) address,
            options(pure, readonly, nostack),
        );
        &*(address as *const Gap)
    }
}
