//! Gets a request served if the target process is idle: stops a thread that waits in a system call
//! (ptrace(2)), makes it serve the mailbox, and returns it to its call.
//!
//! ```text
//! serve: candidates -> thread: stop -> write the frame -> work, go on
//!            calls         (arch: registers, frame)
//! ```
//!
//! Neighbours: [`super::mailbox`] has placed the request and got no answer; `abi::region::outside`
//! defines the words that the process offers; [`super::rouse`] wakes a helper thread instead.
//! Invariants: at most one thread is stopped at a time; its stack is the library's memory, and it
//! takes only the library's locks; if our process dies meanwhile, the thread continues by itself.

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod arch;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod calls;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod candidates;
mod offer;
mod outcome;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod serve;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod stopped;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod thread;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod work;

pub(crate) use offer::Offer;
pub use outcome::StopOutcome;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub(super) use serve::serve;

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub(super) fn serve(
    _: nix::unistd::Pid,
    _: &dyn super::memory::Writable,
    _: Offer,
) -> Result<StopOutcome, super::memory::Fault> {
    Ok(StopOutcome::None)
}
