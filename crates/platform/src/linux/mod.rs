//! Linux: rows per CPU, by restartable sequences (rseq), or rows per thread (private slots).
//!
//! All three modes have the same fast path; they differ in where the field `rseq_cs`, and the CPU
//! number before it, are stored.
//!
//! 1. The area that the C library registered (`__rseq_offset`).
//! 2. Our own registration of an area in the thread block, which each thread makes in its first
//!    slow path.
//! 3. Private slots: the CPU number in the block is a slot that belongs to the thread until it
//!    exits; no fence aborts sequences, and no thread can stop another thread's stacks.
//!
//! The CPU number selects the row, not the denser `mm_cid`. A thread whose registration failed has
//! the CPU number -2, which selects a row of zeros, but the `mm_cid` 0, which would select another
//! thread's row (`docs/scale.md`).
//!
//! [`on_linux`] holds the platform's state; the engines use it through [`memory`], [`per_cpu`],
//! [`threads`], [`time`] and [`counted`]. [`process`] finds out what this process and machine
//! support; [`park`] waits for locks; [`reservations`] maps memory, in the range of
//! [`address_range`].

mod address_range;
mod birth;
mod bytes;
mod calls;
mod counted;
mod counts;
mod cpus;
mod fence;
mod filtered;
mod huge;
mod memory;
mod mode;
mod nodes;
mod on_linux;
mod own_slot;
mod park;
mod per_cpu;
mod process;
mod promises;
mod readers;
mod reservations;
mod shared;
mod slots;
mod threads;
mod time;

pub use mode::Mode;
pub use on_linux::{Counted, Counting, CountingLinux, Linux, OnLinux, Uncounted};
pub use shared::Left;
