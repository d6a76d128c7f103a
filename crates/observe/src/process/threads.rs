//! What a request may do to a target's threads so that one serves it: wake a sleeping helper, or
//! stop a thread that waits in a system call.
//!
//! Neighbours: [`super::mailbox`] requests either; [`super::live`] does both through
//! [`super::rouse`] and [`super::outside`].

use super::memory::{Fault, Writable};
use super::outside::{Offer, StopOutcome};

/// A target with threads, whose memory can be written.
pub(crate) trait Threads: Writable {
    /// Makes a thread that sleeps on a futex check its word again, if that is possible: the number
    /// is the id by which the thread knows itself.
    fn rouse(&self, thread: u32);

    /// Stops a thread that waits in a system call and has it serve the mailbox, if that is possible.
    fn serve_by_stopped(&self, offer: Offer) -> Result<StopOutcome, Fault>;
}
