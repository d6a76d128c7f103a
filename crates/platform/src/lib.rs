//! What slab allocators need from a machine: memory, rows of per-CPU stacks, threads, time.
//!
//! The trait [`Platform`] has two implementations, which pass one contract test
//! (`tests/platform_contract.rs`). [`linux::Linux`] runs on real CPUs, by restartable sequences
//! (rseq) or private slots. `Machine`, in the crate `slabyard-testkit`, models N CPUs and any page
//! size, with seeded preemption between any two steps. (A third, of real threads, is for Miri.)
//!
//! | part | what it is |
//! |---|---|
//! | [`Memory`] | addresses, pages, mappings, nodes |
//! | [`ObjectMemory`] | contents of memory for objects |
//! | [`PerCpu`] | this CPU's stacks, and the fence of other CPUs |
//! | [`Threads`] | this thread, readers, and the child of a fork |
//! | [`Time`] | a clock |
//! | [`Counts`] | counts of slow paths |
//!
//! Both implementations use the same rows of stacks ([`stack::Rows`]). In `docs/design.md`, the
//! walk "I am a malloc(64) call" passes through `pop`, and "I am a freed object" through `push`.
//!
//! This crate also contains what all allocators on a platform share: the atomics and ranked locks
//! of [`sync`], the [`gate`] that each slow path passes, and each [`table`] of metadata.
//!
//! Neighbours: the crate `slabyard` re-exports this one as `platform`; its pages, slabs and engines
//! contain no platform-specific code.
#![cfg_attr(not(test), no_std)]
#![warn(missing_docs)]
// What only the platform of Linux uses.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(all(
    target_os = "linux",
    not(any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "x86_64"))
))]
compile_error!(
    "on Linux, Slabyard supports x86-64, aarch64 and riscv64 alone: see docs/porting.md. (32-bit \
     processes have too few addresses; systems without Linux may be of 32 bits.)"
);

pub mod birth;
mod counts;
pub mod fast;
pub mod gate;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod mark;
mod memory;
mod object_memory;
mod per_cpu;
mod planted;
pub mod reader;
#[cfg(target_os = "linux")]
pub mod rseq;
pub mod stack;
mod stops;
pub mod sync;
#[cfg(target_os = "linux")]
mod sys;
pub mod table;
mod threads;
mod time;
#[cfg(all(any(target_arch = "aarch64", target_arch = "x86_64"), target_os = "linux"))]
mod weak;

pub use counts::{Counts, Event};
pub use fast::FastPath;
pub use memory::{Advice, GRANULE, Memory, Stretch, Use};
pub use object_memory::ObjectMemory;
pub use per_cpu::{PerCpu, Takes, count_down};
pub use planted::{Planted, Repair};
pub use stack::{Entry, Rows, Slot, Stack, Stopped};
pub use stops::{stop, stop_idle};
pub use sync::lock::Park;
pub use threads::{ThreadWords, Threads};
pub use time::Time;

/// A machine: memory, CPUs with rows of stacks, threads, time, sleep, counts.
pub trait Platform:
    Park + Memory + ObjectMemory + PerCpu + Threads + Time + Counts + Sync + Sized
{
    /// True if yards of it may have page lists of other kinds than their own: else they have no
    /// code for them.
    const HAS_PAGE_LISTS: bool = false;

    /// True where a thread that unwinds does nothing more: the modelled machine unwinds threads that
    /// are gone, and all when one of them fails.
    const UNWINDS: bool = false;

    /// True if a test planted this bug, for a check to find: the modelled machine alone has any.
    #[inline(always)]
    fn has_planted(&self, _bug: Planted) -> bool {
        false
    }
}

/// The example of the README runs as those of the documentation do.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
