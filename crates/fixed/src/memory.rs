//! Memory for a yard that is part of the program: a `static` of a given number of bytes.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use slabyard_platform::sync::{AtomicBool, Ordering};

/// So many bytes, which one yard takes over.
#[repr(C, align(16))]
pub struct Memory<const BYTES: usize> {
    bytes: UnsafeCell<MaybeUninit<[u8; BYTES]>>,
    taken: AtomicBool,
}

// SAFETY: the bytes are handed out once.
unsafe impl<const BYTES: usize> Sync for Memory<BYTES> {}

impl<const BYTES: usize> Memory<BYTES> {
    /// Bytes that nobody has: in the program's zeroed part.
    #[must_use]
    pub const fn new() -> Self {
        let bytes = UnsafeCell::new(MaybeUninit::uninit());
        Memory { bytes, taken: AtomicBool::new(false) }
    }

    /// Their address, once.
    pub fn take(&'static self) -> Option<*mut u8> {
        (!self.taken.swap(true, Ordering::Relaxed)).then(|| self.bytes.get().cast())
    }
}

impl<const BYTES: usize> Default for Memory<BYTES> {
    fn default() -> Self {
        Self::new()
    }
}
