//! A number that is set once: an address, a key of the C library. Of threads that set it at the
//! same time one wins, and the others get its number.
//!
//! Neighbour: [`super::Once`] holds a value of any type, which one thread sets.

use super::{AtomicUsize, Ordering};

/// 0 until it is set. Its memory is one word, which readers outside of the process know.
#[repr(transparent)]
pub struct OnceNumber(AtomicUsize);

impl OnceNumber {
    /// One that is not set.
    #[must_use]
    pub const fn new() -> Self {
        OnceNumber(AtomicUsize::new(0))
    }

    /// The number, and with it what was done before it was set; 0 if it is not set.
    #[inline(always)]
    pub fn get(&self) -> usize {
        // Acquire pairs with the Release in `set`.
        self.0.load(Ordering::Acquire)
    }

    /// Sets the number, which is not 0.
    ///
    /// # Errors
    /// The number that another thread set before, as [`OnceNumber::get`] has it.
    #[inline]
    pub fn set(&self, number: usize) -> Result<(), usize> {
        // The Acquire of a failure pairs with the Release of who won.
        let (set, seen) = (Ordering::Release, Ordering::Acquire);
        self.0.compare_exchange(0, number, set, seen).map(|_| ())
    }
}

impl Default for OnceNumber {
    fn default() -> Self {
        Self::new()
    }
}
