//! Serves a request if the process is at rest: a thread that waits in a system call is stopped
//! (ptrace(2)), serves its mailbox, and waits in its call again.
//!
//! ```text
//! serve: candidates -> thread: stop, write the frame, work, go on
//!            calls         frame
//! ```
//!
//! Neighbours: [`super::mailbox`] has placed the request and got no answer; `abi::region::outside`
//! says what the process offers; [`super::rouse`] wakes a helper instead.
//! Invariants: one thread at a time is stopped, and uses memory of the library's as its stack and
//! takes the library's locks alone; if we end meanwhile, the process continues by itself.

#[cfg(target_arch = "x86_64")]
mod calls;
#[cfg(target_arch = "x86_64")]
mod candidates;
#[cfg(target_arch = "x86_64")]
mod frame;
mod offer;
mod outcome;
#[cfg(target_arch = "x86_64")]
mod serve;
#[cfg(target_arch = "x86_64")]
mod thread;

pub(crate) use offer::Offer;
pub use outcome::StopOutcome;
#[cfg(target_arch = "x86_64")]
pub(super) use serve::serve;

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn serve(
    _: nix::unistd::Pid,
    _: &dyn super::memory::Writable,
    _: Offer,
) -> Result<StopOutcome, super::memory::Fault> {
    Ok(StopOutcome::None)
}
