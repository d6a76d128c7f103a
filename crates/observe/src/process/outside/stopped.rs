//! A thread as it was stopped, and the frame that makes it so again.
//!
//! Neighbours: the processor's folder fills both; [`super::serve()`] writes the frame into the process. The
//! frame is used only if the process that stopped the thread dies before it has restored the thread.

use nix::libc::user_regs_struct;

/// A thread as it was stopped.
pub(super) struct State {
    /// The general registers.
    pub(super) registers: user_regs_struct,
    /// The signals that it blocks.
    pub(super) mask: u64,
    /// The other registers, as ptrace(2) has them.
    pub(super) floating: Vec<u8>,
}

/// A frame of rt_sigreturn(2): bytes, and where they are to be written.
pub(super) struct Frame {
    /// What the stack pointer is to be.
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

/// Flags of an alternate stack that are invalid: the kernel leaves the thread's as it is (sigaltstack(2),
/// EINVAL).
pub(super) const NO_FLAGS: u64 = 4;
