//! A lock for rare operations: it does not spin, but sleeps at once. Its holders call the yard's
//! slow paths, whose locks have ranks of their own.
//!
//! Neighbours: [`crate::handles`] has one such lock, held while a cache is created or destroyed;
//! [`crate::mempool`] has one per pool.

use crate::state::YARD;
use core::sync::atomic::{AtomicU32, Ordering};
use slabyard::platform::Park;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a thread may sleep.
const AWAITED: u32 = 2;

/// The lock ("Futexes are tricky", Drepper, 2011, mutex 2).
pub(crate) struct Mutex(AtomicU32);

/// Unlocks as it is dropped.
pub(crate) struct MutexGuard<'a>(&'a Mutex);

impl Mutex {
    pub(crate) const fn new() -> Self {
        Mutex(AtomicU32::new(FREE))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_> {
        self.acquire();
        MutexGuard(self)
    }

    /// As [`Mutex::lock`]; [`Mutex::release`] ends it.
    pub(crate) fn acquire(&self) {
        let taken = self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
                YARD.platform().wait(&self.0, AWAITED);
            }
        }
    }

    /// Unlocks what [`Mutex::acquire`] locked.
    pub(crate) fn release(&self) {
        // Release pairs with the Acquire of the next holder.
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            YARD.platform().wake(&self.0);
        }
    }
}

impl Drop for MutexGuard<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}
