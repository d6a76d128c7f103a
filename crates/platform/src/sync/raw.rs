//! Locks without a value and without a [rank](super::Rank): for what runs before a yard is ready, or
//! around calls of its slow paths.
//!
//! Neighbour: [`super::lock`] has the locks of the engine.

use super::lock::Park;
use super::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a thread may sleep.
const AWAITED: u32 = 2;

/// A lock for rare work: it does not spin, but sleeps at once ("Futexes are tricky", Drepper, 2011,
/// mutex 2).
pub struct SleepLock(AtomicU32);

impl SleepLock {
    /// An open lock.
    #[must_use]
    pub const fn new() -> Self {
        SleepLock(AtomicU32::new(FREE))
    }

    /// Takes the lock; [`SleepLock::release`] ends it.
    pub fn acquire<P: Park>(&self, park: &P) {
        // Acquire pairs with the Release in `release`.
        if self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
                park.wait(&self.0, AWAITED);
            }
        }
    }

    /// Opens what [`SleepLock::acquire`] took.
    pub fn release<P: Park>(&self, park: &P) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            park.wake(&self.0);
        }
    }
}

impl Default for SleepLock {
    fn default() -> Self {
        Self::new()
    }
}

/// A lock that nobody waits for: who finds it taken does without.
#[derive(Debug, Default)]
pub struct TryLock(AtomicU32);

impl TryLock {
    /// An open lock.
    #[must_use]
    pub const fn new() -> Self {
        TryLock(AtomicU32::new(0))
    }

    /// Takes the lock, unless it is taken; [`TryLock::release`] ends it.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        // Acquire pairs with the Release in `release`.
        self.0.swap(1, Ordering::Acquire) == 0
    }

    /// Opens what [`TryLock::try_acquire`] took.
    #[inline]
    pub fn release(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// In the child of a fork: nobody has it.
    pub fn abandon(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Its word, 1 while it is taken, for who sleeps meanwhile.
    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }
}
