//! Serves a request if the process is idle: a thread that waits in a system call is stopped
//! (ptrace(2)), made to serve its mailbox, and returned to its call.
//!
//! ```text
//! serve: candidates -> thread: stop, write the frame, work, go on
//!            calls         frame
//! ```
//!
//! Neighbours: [`super::mailbox`] has placed the request and got no answer; `abi::region::outside`
//! says what the process offers; [`super::rouse`] wakes a helper thread instead. Invariants: one
//! thread at a time is stopped, and it uses only the library's memory as its stack and takes only
//! the library's locks; if our process dies meanwhile, the stopped process continues by itself.

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
