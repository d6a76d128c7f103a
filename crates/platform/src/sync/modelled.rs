//! The atomics of builds with `--cfg loom`: each access to a word that a model watches goes to the
//! model checker, every other access to the memory as it is.
//!
//! The checker's own atomics have other layouts than the memory's words, must be made at run time,
//! and know nothing of mapped memory. So these types have the words' layout, and name each access
//! by its address and by where it stands in the source; the crate `slabyard-models`, which runs the
//! models, holds the checker's atomic for each watched address. It can also weaken the ordering of
//! one place in the source.
//!
//! Neighbour: [`super`] exports these types in place of those of the standard library.

use core::cell::UnsafeCell;
use core::fmt;
use core::panic::Location;
pub use core::sync::atomic::{Ordering, compiler_fence};

/// What an access does with its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Reads it.
    Load,
    /// Writes it.
    Store(u64),
    /// Writes it, and returns what it was.
    Swap(u64),
    /// Adds, and wraps.
    Add(u64),
    /// Subtracts, and wraps.
    Sub(u64),
    /// Keeps bits.
    And(u64),
    /// Sets bits.
    Or(u64),
    /// Turns bits over.
    Xor(u64),
    /// Raises it.
    Max(u64),
    /// Lowers it.
    Min(u64),
    /// Writes the second number if the first is there.
    Exchange(u64, u64),
}

/// One access of the code under test.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Of the word.
    pub address: usize,
    /// Of the word.
    pub bytes: usize,
    /// Whether it reads the word, and what it makes of it.
    pub change: Change,
    /// The ordering, of an exchange where it succeeds.
    pub set: Ordering,
    /// The ordering of an exchange that fails.
    pub seen: Ordering,
    /// Where it stands in the source.
    pub at: &'static Location<'static>,
}

// SAFETY: `slabyard-models` defines them.
unsafe extern "Rust" {
    /// What the word was, or why an exchange failed; `None` if nobody watches the word.
    fn slabyard_models_access(access: &Access) -> Option<Result<u64, u64>>;
    fn slabyard_models_fence(ordering: Ordering, at: &'static Location<'static>);
    fn slabyard_models_spin();
}

/// A thread that spins lets others run.
pub fn spin_loop() {
    // SAFETY: it may always be called.
    unsafe { slabyard_models_spin() }
}

/// A fence, of the model's thread.
#[track_caller]
pub fn fence(ordering: Ordering) {
    // SAFETY: it takes any ordering.
    unsafe { slabyard_models_fence(ordering, Location::caller()) }
}

macro_rules! word {
    ($name:ident, $number:ty) => {
        /// A number of the standard library's layout.
        #[repr(transparent)]
        pub struct $name(core::sync::atomic::$name);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(Default::default())
            }
        }

        #[allow(missing_docs, clippy::missing_errors_doc, reason = "as in the standard library")]
        impl $name {
            pub const fn new(value: $number) -> Self {
                Self(core::sync::atomic::$name::new(value))
            }

            pub fn get_mut(&mut self) -> &mut $number {
                self.0.get_mut()
            }

            pub fn into_inner(self) -> $number {
                self.0.into_inner()
            }

            pub const fn as_ptr(&self) -> *mut $number {
                self.0.as_ptr()
            }

            /// # Safety
            /// As in the standard library.
            pub const unsafe fn from_ptr<'a>(at: *mut $number) -> &'a Self {
                // SAFETY: the caller's promise.
                unsafe { &*at.cast::<Self>() }
            }

            #[track_caller]
            fn access(&self, change: Change, set: Ordering, seen: Ordering) -> Result<u64, u64> {
                let address = self.0.as_ptr() as usize;
                let at = Location::caller();
                let bytes = size_of::<$number>();
                let access = Access { address, bytes, change, set, seen, at };
                // SAFETY: it takes any access.
                if let Some(done) = unsafe { slabyard_models_access(&access) } {
                    return done;
                }
                let (word, order) = (&self.0, Ordering::SeqCst);
                Ok(match change {
                    Change::Load => word.load(order).as_bits(),
                    Change::Store(new) => {
                        word.store(<$number>::of_bits(new), order);
                        0
                    }
                    Change::Swap(new) => word.swap(<$number>::of_bits(new), order).as_bits(),
                    Change::Exchange(old, new) => {
                        let (old, new) = (<$number>::of_bits(old), <$number>::of_bits(new));
                        return word
                            .compare_exchange(old, new, order, order)
                            .map(Bits::as_bits)
                            .map_err(Bits::as_bits);
                    }
                    change => {
                        let old = word.load(order).as_bits();
                        let new = arithmetic(change, old);
                        word.store(<$number>::of_bits(new), order);
                        old
                    }
                })
            }

            #[track_caller]
            fn always(&self, change: Change, order: Ordering) -> $number {
                let done = self.access(change, order, Ordering::Relaxed);
                <$number>::of_bits(done.unwrap_or_else(|old| old))
            }

            #[track_caller]
            pub fn load(&self, order: Ordering) -> $number {
                self.always(Change::Load, order)
            }

            #[track_caller]
            pub fn store(&self, new: $number, order: Ordering) {
                self.always(Change::Store(new.as_bits()), order);
            }

            #[track_caller]
            pub fn swap(&self, new: $number, order: Ordering) -> $number {
                self.always(Change::Swap(new.as_bits()), order)
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                old: $number,
                new: $number,
                set: Ordering,
                seen: Ordering,
            ) -> Result<$number, $number> {
                self.access(Change::Exchange(old.as_bits(), new.as_bits()), set, seen)
                    .map(<$number>::of_bits)
                    .map_err(<$number>::of_bits)
            }

            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                old: $number,
                new: $number,
                set: Ordering,
                seen: Ordering,
            ) -> Result<$number, $number> {
                self.compare_exchange(old, new, set, seen)
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                seen: Ordering,
                mut f: impl FnMut($number) -> Option<$number>,
            ) -> Result<$number, $number> {
                // Relaxed: a load that has the ordering of a failure.
                let old = self.access(Change::Load, Ordering::Relaxed, seen);
                let mut old = <$number>::of_bits(old.unwrap_or_else(|old| old));
                while let Some(new) = f(old) {
                    match self.compare_exchange(old, new, set, seen) {
                        Ok(old) => return Ok(old),
                        Err(now) => old = now,
                    }
                }
                Err(old)
            }
        }
    };
}

macro_rules! number {
    ($($name:ident $number:ty),*) => {$(
        word!($name, $number);

        impl Bits for $number {
            fn as_bits(self) -> u64 {
                self as u64
            }
            fn of_bits(bits: u64) -> Self {
                bits as $number
            }
        }

        #[allow(missing_docs, reason = "as in the standard library")]
        impl $name {
            #[track_caller]
            pub fn fetch_add(&self, more: $number, order: Ordering) -> $number {
                self.always(Change::Add(more as u64), order)
            }
            #[track_caller]
            pub fn fetch_sub(&self, less: $number, order: Ordering) -> $number {
                self.always(Change::Sub(less as u64), order)
            }
            #[track_caller]
            pub fn fetch_and(&self, bits: $number, order: Ordering) -> $number {
                self.always(Change::And(bits as u64), order)
            }
            #[track_caller]
            pub fn fetch_or(&self, bits: $number, order: Ordering) -> $number {
                self.always(Change::Or(bits as u64), order)
            }
            #[track_caller]
            pub fn fetch_xor(&self, bits: $number, order: Ordering) -> $number {
                self.always(Change::Xor(bits as u64), order)
            }
            #[track_caller]
            pub fn fetch_max(&self, least: $number, order: Ordering) -> $number {
                self.always(Change::Max(least as u64), order)
            }
            #[track_caller]
            pub fn fetch_min(&self, most: $number, order: Ordering) -> $number {
                self.always(Change::Min(most as u64), order)
            }
        }
    )*};
}

/// A word's value as 64 bits.
trait Bits: Copy {
    fn as_bits(self) -> u64;
    fn of_bits(bits: u64) -> Self;
}

number!(AtomicU8 u8, AtomicU16 u16, AtomicU32 u32, AtomicU64 u64, AtomicUsize usize, AtomicI32 i32, AtomicI64 i64);

impl Bits for bool {
    fn as_bits(self) -> u64 {
        self.into()
    }
    fn of_bits(bits: u64) -> Self {
        bits != 0
    }
}

word!(AtomicBool, bool);

/// What an addition, subtraction or operation on bits makes of a number.
fn arithmetic(change: Change, old: u64) -> u64 {
    match change {
        Change::Add(more) => old.wrapping_add(more),
        Change::Sub(less) => old.wrapping_sub(less),
        Change::And(bits) => old & bits,
        Change::Or(bits) => old | bits,
        Change::Xor(bits) => old ^ bits,
        Change::Max(least) => old.max(least),
        Change::Min(most) => old.min(most),
        Change::Load => old,
        Change::Store(new) | Change::Swap(new) | Change::Exchange(_, new) => new,
    }
}

/// A pointer of the standard library's layout.
#[repr(transparent)]
pub struct AtomicPtr<T>(UnsafeCell<*mut T>);

// SAFETY: the pointer is read and written as an atomic number.
unsafe impl<T> Sync for AtomicPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Send for AtomicPtr<T> {}

#[allow(missing_docs, clippy::missing_errors_doc, reason = "as in the standard library")]
impl<T> AtomicPtr<T> {
    pub const fn new(value: *mut T) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn number(&self) -> &AtomicUsize {
        // SAFETY: a pointer's bits are a number's.
        unsafe { &*self.0.get().cast::<AtomicUsize>() }
    }

    #[track_caller]
    pub fn load(&self, order: Ordering) -> *mut T {
        self.number().load(order) as *mut T
    }

    #[track_caller]
    pub fn store(&self, new: *mut T, order: Ordering) {
        self.number().store(new as usize, order);
    }

    #[track_caller]
    pub fn swap(&self, new: *mut T, order: Ordering) -> *mut T {
        self.number().swap(new as usize, order) as *mut T
    }

    #[track_caller]
    pub fn compare_exchange(
        &self,
        old: *mut T,
        new: *mut T,
        set: Ordering,
        seen: Ordering,
    ) -> Result<*mut T, *mut T> {
        let done = self.number().compare_exchange(old as usize, new as usize, set, seen);
        done.map(|old| old as *mut T).map_err(|now| now as *mut T)
    }
}
