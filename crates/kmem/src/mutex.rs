//! A lock for rare operations: it does not spin, but sleeps at once. Its holders call the yard's
//! slow paths, whose locks have ranks of their own.
//!
//! Neighbours: [`crate::handles`] has one such lock, held while a cache is created or destroyed;
//! [`crate::mempool`] has one per pool.

use crate::state::YARD;
use slabyard::sync::SleepLock;

/// The lock.
pub(crate) struct Mutex(SleepLock);

/// Unlocks as it is dropped.
pub(crate) struct MutexGuard<'a>(&'a Mutex);

impl Mutex {
    pub(crate) const fn new() -> Self {
        Mutex(SleepLock::new())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_> {
        self.acquire();
        MutexGuard(self)
    }

    /// As [`Mutex::lock`]; [`Mutex::release`] ends it.
    pub(crate) fn acquire(&self) {
        self.0.acquire(YARD.platform());
    }

    /// Unlocks what [`Mutex::acquire`] locked.
    pub(crate) fn release(&self) {
        self.0.release(YARD.platform());
    }
}

impl Drop for MutexGuard<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}
