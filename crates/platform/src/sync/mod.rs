//! Atomics, ranked locks and others, values and numbers that are set once.
//!
//! This crate and all crates above it take their atomics from here, so that a model checker can
//! replace them in one place.

mod count;
mod fetch;
pub mod lock;
#[cfg(loom)]
pub mod modelled;
mod nobody;
mod number;
mod once;
mod raw;
mod unwinding;
#[cfg(any(test, not(target_has_atomic = "64")))]
mod wide;

#[cfg(not(loom))]
pub use core::hint::spin_loop;
#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering,
    compiler_fence, fence,
};
#[cfg(all(not(loom), target_has_atomic = "64"))]
pub use core::sync::atomic::{AtomicI64, AtomicU64};
pub use count::count;
pub use fetch::{fetch_lines_to_write, fetch_to_read, fetch_to_write};
pub use lock::{Guard, Lock, Rank};
#[cfg(loom)]
pub use modelled::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, compiler_fence, fence, spin_loop,
};
pub use nobody::Nobody;
pub use number::OnceNumber;
pub use once::Once;
pub use raw::{SleepLock, TryLock};
pub use unwinding::{ask_whether_unwinding_by, is_unwinding};
#[cfg(all(not(loom), not(target_has_atomic = "64")))]
pub use wide::AtomicU64;

/// Behind a SeqCst exchange: what the thread does from here on comes after what it did before. On
/// x86-64 the locked exchange did that itself; elsewhere the exchange's own store may still come late.
#[inline(always)]
pub fn fence_behind_exchange() {
    if cfg!(target_arch = "x86_64") && !cfg!(loom) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
