//! Where only one call runs at a time, no thread ever waits for a lock. The policy takes its locks
//! there as everywhere, and finds each lock free.
//!
//! Neighbour: [`super::lock`] calls [`Park`] to wait.

use super::lock::Park;
use super::{AtomicU32, Ordering};

/// Who waits for the locks of policy: nobody, because one call is under way at a time.
#[derive(Debug, Default)]
pub struct Nobody {
    held: AtomicU32,
}

impl Nobody {
    /// Nobody holds a lock.
    #[must_use]
    pub const fn new() -> Self {
        Nobody { held: AtomicU32::new(0) }
    }

    /// Nobody holds a lock any more: who did is dead.
    pub fn release_all(&self) {
        self.held.store(0, Ordering::Relaxed);
    }
}

impl Park for Nobody {
    #[inline]
    fn wait(&self, _: &AtomicU32, _: u32) {
        unreachable!("a lock that is held already");
    }

    #[inline]
    fn wait_at_most(&self, _: &AtomicU32, _: u32, _: u64) {
        unreachable!("a lock that is held already");
    }

    #[inline]
    fn wake(&self, _: &AtomicU32) {}

    #[inline]
    fn held(&self) -> &AtomicU32 {
        &self.held
    }
}
