//! Restartable sequences, one folder per architecture behind one set of names.
//!
//! `pop`, `push`, `push_if`, `exchange`, `pop_many` and `push_many` work on the row of the CPU (or
//! private slot) whose number is stored 4 bytes before the field `rseq_cs`, at `cs_offset` from
//! this thread's thread pointer. [`thread`] returns this thread's own block.
//!
//! `docs/design.md` lists what each mode guarantees.

use crate::ThreadWords;
use crate::sync::AtomicU32;

#[cfg(target_arch = "aarch64")]
#[macro_use]
mod aarch64;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod x86_64;
#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod calls;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub use {
    arch::{SIGNATURE, cpu_id, pop_inlined, push_inlined, thread_offset},
    calls::*,
};

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod unsupported;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub use unsupported::*;

/// True if the architecture has sequences; elsewhere each thread has a private slot.
pub const ARE_SUPPORTED: bool = cfg!(any(target_arch = "aarch64", target_arch = "x86_64"));

/// This thread's block: an rseq area (ABI of 32 bytes, aligned to as many, `man 2 rseq`) and our words.
#[repr(C, align(32))]
pub struct Thread {
    /// First word of the area; the kernel's.
    pub cpu_id_start: AtomicU32,
    /// CPU number, or the private slot in mode 3; -1 before registration.
    pub cpu_id: AtomicU32,
    /// The field `rseq_cs`, in two halves.
    pub rseq_cs: [AtomicU32; 2],
    /// Rest of the area; the kernel's.
    pub rest: [AtomicU32; 4],
    /// Bits of [`flags`].
    pub flags: AtomicU32,
    /// The kernel's number of the thread, once it was asked for; 0 before.
    pub number: AtomicU32,
    /// What it keeps for the allocator.
    pub own: ThreadWords,
}

/// Bits of [`Thread::flags`].
pub mod flags {
    /// Registration or a slot was tried.
    pub const TRIED: u32 = 1;
    /// The thread's slot was given back; it takes slow paths from now on.
    pub const EXITED: u32 = 2;
    /// A child that shares the process's memory (vfork) may run with this block: the kernel
    /// restarts none of its sequences, so it has no row.
    pub const NO_ROW: u32 = 4;
    /// The thread is between the handlers before a fork and those after it.
    pub const FORKING: u32 = 8;
    /// From this bit on the id of a process that shares the thread's data, and may still be there;
    /// all ones: of several. The six bits below count slow paths since.
    pub const SHARED: u32 = 1 << 10;
}
