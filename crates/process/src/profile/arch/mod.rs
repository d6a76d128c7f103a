//! What a profile asks of the processor: registers, and where thread-local memory is.
//!
//! Each architecture with restartable sequences has a file; the others have no profiles, and nobody
//! calls what they have here. The counting `malloc` itself is in `crate::malloc::entry`.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod none;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{gap, registers, thread_pointer};
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub(super) use none::{gap, registers, thread_pointer};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{gap, registers, thread_pointer};
