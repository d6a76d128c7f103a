//! A value that is written once, before any thread reads it: geometry, tables.

use super::{AtomicU32, Ordering};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

const EMPTY: u32 = 0;
const WRITING: u32 = 1;
const SET: u32 = 2;

/// A cell that is set at most once and then only read. The value is never dropped.
pub struct Once<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a shared reference gives out `&T` only after the value was written
// and published, and nobody writes it again.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// An empty cell.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(!core::mem::needs_drop::<T>()) };
        Once { state: AtomicU32::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Sets the value; false if it is set already.
    pub fn set(&self, value: T) -> bool {
        if self
            .state
            .compare_exchange(EMPTY, WRITING, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        // SAFETY: the exchange above lets exactly one caller in, and readers
        // wait for SET.
        unsafe { (*self.value.get()).write(value) };
        // Pairs with the Acquire in `get`.
        self.state.store(SET, Ordering::Release);
        true
    }

    /// The value.
    ///
    /// # Panics
    /// If it was not set.
    #[inline]
    pub fn get(&self) -> &T {
        // Acquire pairs with the Release in `set`.
        assert!(self.state.load(Ordering::Acquire) == SET, "read before it was set");
        // SAFETY: SET means that the value is written and stays.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    /// The value, if it was set.
    #[inline]
    pub fn try_get(&self) -> Option<&T> {
        // Acquire: as in `get`.
        let is_set = self.state.load(Ordering::Acquire) == SET;
        // SAFETY: as in `get`.
        is_set.then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}
