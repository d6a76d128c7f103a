//! Engines of a yard on fixed memory: the policy of `slabyard::engine`, with a page-table entry of
//! ten bytes per page.
//!
//! The engines follow the kernel's rules, so that a machine of 8 MiB behaves as with a kernel: at
//! each call, they allocate and free the same slabs as the lab's modelled kernel.
//!
//! Neighbours: [`slabs`] implements a cache's slabs, [`stacks`] sheaves and arrays; [`sheaves`],
//! [`cpu_slabs`], [`array_cache`] and [`tiny`] are the engines with slabs, [`blocks`] is SLOB;
//! [`repair`] rebuilds caches.
#![forbid(unsafe_code)]

mod array_cache;
mod blocks;
mod cpu_slabs;
mod links;
mod repair;
mod sheaves;
mod slabs;
mod stacks;
mod tiny;

pub use array_cache::Slab;
pub use blocks::Blocks;
pub use cpu_slabs::CpuSlab;
pub use sheaves::Slub;
pub use slabs::{Cache, CacheLimits, FixedSlabs, Object, SlabEngine};
pub use tiny::Tiny;
