//! What is of the processor: the registers of a thread in a call, and the frame of rt_sigreturn(2).
//!
//! Each has the same functions. Neighbours: [`super::thread`] reads and writes sets of registers;
//! [`super::serve()`] and [`super::work`] ask here what is in them.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{
    FLOATING, SYSCALL, at_call, at_work, frame_below, go_on, has_more, interrupted, own_memory,
    result,
};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{
    FLOATING, SYSCALL, at_call, at_work, frame_below, go_on, has_more, interrupted, own_memory,
    result,
};
