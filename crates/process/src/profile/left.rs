//! Each thread's gap to its next sample, in thread-local words that the counting sequence of
//! [`crate::malloc`] reads and writes.
//!
//! The sequence sees one part of the gap, of at most [`PART`] bytes; the rest is behind it. So a
//! thread notes soon that there is another profile, although the sequence does not look: what is left
//! of a part that an earlier profile drew is as good as one of this profile, with the distance of
//! its draw (an exponential gap has no memory), and behind it the thread draws anew.
//! Invariant: the words of a thread that has counted nothing yet are zeros.

use super::arch;
use core::arch::global_asm;
use slabyard::sync::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

global_asm!(
    ".pushsection .tbss.slabyard_gap, \"awT\", @nobits",
    ".balign 8",
    ".globl slabyard_gap",
    ".hidden slabyard_gap",
    ".type slabyard_gap, @object",
    ".size slabyard_gap, 32",
    "slabyard_gap:",
    ".zero 32",
    ".popsection",
);

/// Most bytes of a gap that the sequence counts down.
const PART: i64 = 128 << 10;

/// A thread's gap to its next sample.
#[repr(C)]
pub(crate) struct Gap {
    profile: AtomicU32,
    left: AtomicI32,
    behind: AtomicI64,
    distance: AtomicU64,
}

const _: () = assert!(size_of::<Gap>() <= 32);

/// Where the part is, for the sequence.
#[allow(dead_code, reason = "only sequences ask")]
pub(crate) const LEFT_AT: usize = core::mem::offset_of!(Gap, left);

impl Gap {
    /// The number of the profile for which it was drawn.
    pub(super) fn profile(&self) -> u32 {
        self.profile.load(Ordering::Relaxed)
    }

    /// Bytes of the part that are left; 0 or less where it has ended.
    pub(super) fn left(&self) -> i64 {
        self.left.load(Ordering::Relaxed).into()
    }

    /// Bytes behind the part.
    pub(super) fn behind(&self) -> i64 {
        self.behind.load(Ordering::Relaxed)
    }

    /// The mean distance with which it was drawn; 0: it was not.
    pub(super) fn distance(&self) -> u64 {
        self.distance.load(Ordering::Relaxed)
    }

    pub(super) fn set_drawn(&self, profile: u32, distance: u64) {
        self.profile.store(profile, Ordering::Relaxed);
        self.distance.store(distance, Ordering::Relaxed);
    }

    /// So many bytes are left of the whole gap.
    pub(super) fn set(&self, left: i64) {
        let part = left.min(PART);
        self.behind.store(left - part, Ordering::Relaxed);
        self.set_part(part);
    }

    /// So many bytes are left of the part.
    pub(super) fn set_part(&self, left: i64) {
        self.left.store(left as i32, Ordering::Relaxed);
    }
}

/// That of the thread that calls.
pub(super) fn of_thread() -> &'static Gap {
    // SAFETY: the gap lives as long as the thread that asks for it.
    unsafe { &*(arch::gap() as *const Gap) }
}
