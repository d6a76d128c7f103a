//! The board: a machine without an OS has memory and CPUs; the embedding program says how many
//! CPUs, how large a page is, and how calls exclude each other.
//!
//! Neighbour: [`crate::yard`] runs on a board. The platforms of other yards
//! ([`slabyard_platform::Platform`]) have per-CPU rows of stacks for lock-free fast paths, and
//! reserve unbacked addresses; here a call is a critical section, and every byte counts.

use crate::live_map::LiveMap;
use core::marker::PhantomData;
use slabyard_platform::sync::{TryLock, spin_loop};

/// A machine, as its embedder describes it.
///
/// # Safety
/// Between [`Board::enter`] and the [`Board::leave`] that follows, nobody else of the yard's users
/// passes `enter`: no other CPU, no other thread, and no interrupt handler on this CPU. `leave`
/// makes what was written before it seen by who enters next. [`Board::cpu`] is below
/// [`Board::CPUS`], and does not change in between. A board whose lock opens when its owner dies has a
/// [`Board::live_map`].
pub unsafe trait Board {
    /// Bytes of a page: a power of two from 256 to 65,536.
    const PAGE_BYTES: usize = 4096;
    /// CPUs. Engines that keep something for each keep it so often.
    const CPUS: usize = 1;

    /// Excludes all others: turns interrupts off, takes a spin lock, or both. Returns what
    /// [`Board::leave`] needs.
    fn enter(&self) -> usize;
    /// Lets others in again.
    fn leave(&self, entered: usize);
    /// The running CPU. Asked between `enter` and `leave`.
    fn cpu(&self) -> usize {
        0
    }
    /// What is live, where users may die between `enter` and `leave`: then the next call repairs the
    /// yard by it.
    #[inline(always)]
    fn live_map(&self) -> Option<&LiveMap> {
        None
    }
}

/// One CPU, and a yard that neither an interrupt handler nor another thread uses: it cannot be
/// shared, so nothing needs to be excluded.
#[derive(Debug, Default)]
pub struct Alone<const PAGE_BYTES: usize = 4096>(PhantomData<*const ()>);

impl<const PAGE_BYTES: usize> Alone<PAGE_BYTES> {
    /// It has no state.
    #[must_use]
    pub const fn new() -> Self {
        Alone(PhantomData)
    }
}

// SAFETY: the pointer keeps it, and the yard that has it, in one thread; what interrupts that
// thread has no reference to it, which a `static` would need `Sync` for.
unsafe impl<const PAGE_BYTES: usize> Board for Alone<PAGE_BYTES> {
    const PAGE_BYTES: usize = PAGE_BYTES;

    fn enter(&self) -> usize {
        0
    }

    fn leave(&self, _: usize) {}
}

/// A few CPUs that spin, where no interrupt handler uses the yard: one that does must be kept out
/// by a board of its own, which turns interrupts off first.
#[derive(Debug, Default)]
pub struct Spin<const PAGE_BYTES: usize = 4096> {
    taken: TryLock,
}

impl<const PAGE_BYTES: usize> Spin<PAGE_BYTES> {
    /// An open lock.
    #[must_use]
    pub const fn new() -> Self {
        Spin { taken: TryLock::new() }
    }
}

// SAFETY: the lock lets one in at a time, and orders them.
unsafe impl<const PAGE_BYTES: usize> Board for Spin<PAGE_BYTES> {
    const PAGE_BYTES: usize = PAGE_BYTES;

    fn enter(&self) -> usize {
        while !self.taken.try_acquire() {
            spin_loop();
        }
        0
    }

    fn leave(&self, _: usize) {
        self.taken.release();
    }
}
