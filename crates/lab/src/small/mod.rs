//! A small machine: its pages in a buddy allocator, a kernel's slab allocator on top, and a load
//! that requests objects and blocks of pages, starting from an empty machine.
//!
//! Which allocator leaves most free memory, and whether a block of 2^7 pages is still free, depends
//! on where slabs are among other pages. So every page that the load requests comes from one
//! [`buddy`] allocator, whether for a slab or for a process image. [`contender`] names the
//! allocators and their settings; [`slabs`] creates the load's caches, merged as a kernel merges
//! them. [`machine`] serves the requests of a [`load`], which is generated from a seed
//! (`slabyard-small`) or made from a kernel's events. If a kernel reported its [`state`], the
//! machine starts with the kernel's own free blocks, in a [`zone`].
//!
//! The machine has one CPU. Memory that is neither a slab nor requested by the load (the kernel
//! image, page tables) is reserved at the start. [`board`] is the machine of a mail thread.
//!
//! Invariants: free pages + slabs' pages + requested pages + reserved pages = the machine's pages;
//! the same load and seed give the same result.

pub mod board;
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
