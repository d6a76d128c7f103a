//! A 64-bit number that several threads change, for machines whose atomic instructions are 32 bits
//! wide: one spin lock protects all such numbers.
//!
//! Neighbours: on such machines [`super`] exports this type as `AtomicU64`. The type has those
//! functions of the standard library's type that this crate uses. They are not inlined, because the
//! lock's code would then be up to a twelfth of an image.
//! Invariant: no handler interrupts the lock's holder, because one that did so and used such a
//! number would spin for ever. So on such a machine, a yard is called with interrupts off
//! (`slabyard_fixed::Board`).

use super::{AtomicBool, Ordering};
use core::cell::UnsafeCell;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// A number of 64 bits.
#[derive(Debug, Default)]
#[repr(C, align(8))]
pub struct AtomicU64(UnsafeCell<u64>);

// SAFETY: the number is read and written under the lock.
unsafe impl Sync for AtomicU64 {}

impl AtomicU64 {
    /// A number.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        AtomicU64(UnsafeCell::new(value))
    }

    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        // Acquire pairs with the Release below.
        while TAKEN.swap(true, Ordering::Acquire) {
            super::spin_loop();
        }
        // SAFETY: the lock is held.
        let result = f(unsafe { &mut *self.0.get() });
        TAKEN.store(false, Ordering::Release);
        result
    }

    fn change(&self, f: impl FnOnce(u64) -> u64) -> u64 {
        self.with(|value| {
            let old = *value;
            *value = f(old);
            old
        })
    }

    /// Reads it.
    #[inline(never)]
    pub fn load(&self, _: Ordering) -> u64 {
        self.with(|value| *value)
    }

    /// Writes it.
    #[inline(never)]
    pub fn store(&self, new: u64, _: Ordering) {
        self.with(|value| *value = new);
    }

    /// Writes it, and returns what it was; so do those below.
    #[inline(never)]
    pub fn swap(&self, new: u64, _: Ordering) -> u64 {
        self.change(|_| new)
    }

    /// Adds, and wraps.
    #[inline(never)]
    pub fn fetch_add(&self, more: u64, _: Ordering) -> u64 {
        self.change(|value| value.wrapping_add(more))
    }

    /// Subtracts, and wraps.
    #[inline(never)]
    pub fn fetch_sub(&self, less: u64, _: Ordering) -> u64 {
        self.change(|value| value.wrapping_sub(less))
    }

    /// Sets bits.
    #[inline(never)]
    pub fn fetch_or(&self, bits: u64, _: Ordering) -> u64 {
        self.change(|value| value | bits)
    }

    /// Keeps bits.
    #[inline(never)]
    pub fn fetch_and(&self, bits: u64, _: Ordering) -> u64 {
        self.change(|value| value & bits)
    }

    /// Turns bits over.
    #[inline(never)]
    pub fn fetch_xor(&self, bits: u64, _: Ordering) -> u64 {
        self.change(|value| value ^ bits)
    }

    /// Raises it.
    #[inline(never)]
    pub fn fetch_max(&self, least: u64, _: Ordering) -> u64 {
        self.change(|value| value.max(least))
    }

    /// Writes a new value if it is `current`.
    ///
    /// # Errors
    /// What it is, if that is another value.
    pub fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        let old = self.change(|value| if value == current { new } else { value });
        if old == current { Ok(old) } else { Err(old) }
    }

    /// As [`AtomicU64::compare_exchange`].
    ///
    /// # Errors
    /// As there.
    pub fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.compare_exchange(current, new, success, failure)
    }

    /// Writes what `f` makes of it, if that is something.
    ///
    /// # Errors
    /// What it is, if `f` makes nothing of it.
    #[inline(never)]
    pub fn fetch_update(
        &self,
        _: Ordering,
        _: Ordering,
        mut f: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        self.with(|value| match f(*value) {
            Some(new) => Ok(core::mem::replace(value, new)),
            None => Err(*value),
        })
    }

    /// Its value, which nobody else uses.
    pub fn get_mut(&mut self) -> &mut u64 {
        self.0.get_mut()
    }

    /// The address of the number.
    pub const fn as_ptr(&self) -> *mut u64 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::Relaxed;

    /// Beside the standard library's type, each function gives the same.
    #[test]
    fn it_counts_as_the_instructions_do() {
        let (ours, theirs) = (AtomicU64::new(7), super::super::AtomicU64::new(7));
        macro_rules! same {
            ($($call:ident($($argument:expr),*);)*) => {$(
                assert_eq!(ours.$call($($argument),*), theirs.$call($($argument),*));
                assert_eq!(ours.load(Relaxed), theirs.load(Relaxed));
            )*};
        }
        same! {
            fetch_add(u64::MAX, Relaxed);
            fetch_sub(9, Relaxed);
            fetch_or(1 << 40, Relaxed);
            fetch_and(0xffff_ff00_0000, Relaxed);
            fetch_xor(3, Relaxed);
            fetch_max(1 << 63, Relaxed);
            swap(5, Relaxed);
            compare_exchange(4, 1, Relaxed, Relaxed);
            compare_exchange(5, 1 << 33, Relaxed, Relaxed);
            store(1 << 34, Relaxed);
        }
        for keeps in [false, true] {
            let f = |value: u64| keeps.then_some(value + 1);
            assert_eq!(
                ours.fetch_update(Relaxed, Relaxed, f),
                theirs.fetch_update(Relaxed, Relaxed, f)
            );
        }
        assert_eq!(ours.load(Relaxed), (1 << 34) + 1);
        // SAFETY: nobody else has it.
        assert_eq!(unsafe { *ours.as_ptr() }, (1 << 34) + 1);
        assert_eq!(ours.compare_exchange_weak(0, 1, Relaxed, Relaxed), Err((1 << 34) + 1));
        let mut ours = ours;
        *ours.get_mut() = 8;
        assert_eq!(ours.load(Relaxed), 8);
    }

    #[test]
    fn threads_lose_no_count() {
        let count = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| _ = count.fetch_add(1 << 20, Relaxed)));
            }
        });
        assert_eq!(count.load(Relaxed), 4000 << 20);
    }
}
