//! Preloaded in front of a malloc: passes each call to it, and records the call for another
//! process.
//!
//! [`calls`] has what is done before and after each function; [`frame`] calls the function of the
//! next malloc in between, by assembly that lets exceptions pass; [`next`] finds it; [`rings`] is
//! the memory that the recorder reads (`slabyard_abi::recording`). Without a recorder, in children
//! of the process, and while it starts, calls are passed on and not recorded.
//! Invariant: nothing here allocates, waits for the recorder, ends a cancelled thread, or changes
//! what a call returns.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod calls;
mod frame;
mod next;
mod rings;
mod system;

slabyard_abi::shared_library!();

/// A bug of ours: the process cannot continue.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    system::abort()
}
