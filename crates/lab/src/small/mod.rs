//! A small machine: so many pages in a buddy, a kernel's allocator on them, and a load that asks
//! for objects and for blocks of pages, from nothing.
//!
//! Which allocator leaves most, and whether a block of 2^7 pages is still there, depends on where
//! slabs lie among other pages. So every page that the load asks for comes out of one [`buddy`],
//! a slab's as a process's image's; [`contender`] names the allocators and their settings,
//! [`slabs`] gives them the load's caches, merged as a kernel merges them; [`machine`] serves the
//! requests, and [`load`] makes them, from a seed (`slabyard-small`) or of a kernel's events. A
//! kernel that told its [`state`] begins from its own free blocks, in a [`zone`].
//!
//! One CPU. Memory that is no slab and that no request asks for (the kernel's own, page tables) is
//! reserved at the begin.
//!
//! Invariants: pages free + of slabs + of requests + reserved = the machine's; the same load and
//! seed give the same machine.

pub mod buddy;
pub mod contender;
pub mod events;
mod free_lists;
pub mod kept;
mod kernel;
pub mod load;
pub mod machine;
mod memory;
pub mod mobility;
mod pageblocks;
pub mod pages;
mod slabs;
pub mod state;
pub mod text;
pub mod zone;

pub use contender::Contender;
pub use load::{Load, Step};
pub use machine::{FailedBlock, MachineSample, Outcome, SmallMachine, run, run_from};
