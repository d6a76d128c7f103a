//! A small machine: a number of pages in a buddy, a kernel's allocator on them, and a load that
//! requests objects and blocks of pages, from an empty machine on.
//!
//! Which allocator leaves most, and whether a block of 2^7 pages is still there, depends on where
//! slabs lie among other pages. So every page that the load requests comes from one [`buddy`],
//! whether for a slab or for a process's image; [`contender`] names the allocators and their
//! settings, [`slabs`] gives them the load's caches, merged as a kernel merges them; [`machine`]
//! serves the requests, and [`load`] makes them, from a seed (`slabyard-small`) or from a kernel's
//! events. If a kernel reported its [`state`], the machine begins with the kernel's own free
//! blocks, in a [`zone`].
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
