//! A library that is preloaded in front of a malloc: it passes each call on to that malloc, and
//! records the call for another process.
//!
//! [`calls`] runs before and after each function; [`frame`] calls the next malloc's function in
//! between, in assembly that exceptions can unwind through. [`next`] finds that function; [`rings`]
//! maps the memory that the recorder reads (`slabyard_abi::recording`). Without a recorder, in
//! child processes, and while the process starts, calls are passed on and not recorded. Invariant:
//! nothing here allocates, is a cancellation point, or changes what a call returns. A call waits
//! for the recorder only if the rings are full.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod calls;
mod frame;
mod next;
mod rings;
mod sync;
mod system;

slabyard_abi::shared_library!();

/// A bug of ours: the process cannot continue.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    system::abort()
}
