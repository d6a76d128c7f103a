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
pub(super) use none::{end_of_first_stack, gap, registers, thread_pointer};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{gap, registers, thread_pointer};

/// Where the loader says that the stack of the first thread ends; null where it does not.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub(super) fn end_of_first_stack() -> *const usize {
    slabyard::weak_address!("__libc_stack_end", "__libc_stack_end") as *const usize
}
