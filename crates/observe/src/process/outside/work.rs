//! A stopped thread serves the request and then continues in its call.
//!
//! If the tracer dies after any of the following steps, by whatever signal, the process continues
//! by itself, because the kernel releases a thread whose tracer has exited.
//!
//! 1. The thread is stopped: nothing has been changed, and the kernel restarts its call.
//! 2. The frame is written into memory that nothing else reads.
//! 3. The registers are written: the thread serves the request, and the frame restores it. A call
//!    that the kernel would restart with its remaining timeout then ends with EINTR.
//! 4. The signal mask is written: the frame holds the old one.
//! 5. The thread has reached rt_sigreturn, where it stops before the kernel executes the call.
//!    Instead, the thread makes its original call: the signal mask and all but the last registers
//!    are restored first, so that the frame can still restore the rest at each moment.
//!
//! Neighbours: [`super::calls`] says how each call continues; the processor's folder writes the frame
//! and says what is in which register.

use super::arch;
use super::calls::SyscallRestart;
use super::stopped::State;
use super::thread::{ALL_SIGNALS, Thread};
use nix::sys::wait::WaitStatus;
use std::time::Instant;

/// How a thread's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadOutcome {
    /// With this result; and it waits in its call again.
    Done(u64),
    /// Not in time: it was released, finishes the work by itself, and then continues.
    Left,
    /// The process has ended.
    Gone,
}

/// Makes the thread work at the entry, with its stack pointer at the frame that was written to
/// its memory, and then continue in its call.
pub(super) fn work(
    thread: &Thread,
    (state, interrupted): (&State, SyscallRestart),
    (entry, frame_at): (u64, u64),
    end: Instant,
) -> ThreadOutcome {
    if !thread.set_registers(&arch::at_work(&state.registers, entry, frame_at)) {
        return ThreadOutcome::Gone;
    }
    thread.set_mask(ALL_SIGNALS);
    loop {
        match thread.run_to_call(end) {
            None => {
                // In the middle of its work.
                thread.stop_at_work();
                return ThreadOutcome::Left;
            }
            Some(WaitStatus::PtraceSyscall(_)) => {
                let Some(now) = thread.registers() else { return ThreadOutcome::Gone };
                if let Some(result) = arch::result(&now) {
                    arch::go_on(thread, state, interrupted);
                    return ThreadOutcome::Done(result);
                }
            }
            // A fault of ours, or SIGSTOP: no other one comes.
            Some(WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..)) => {}
            Some(_) => return ThreadOutcome::Gone,
        }
    }
}
