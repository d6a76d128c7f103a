//! Floor 4: the engines' policy. Engines move objects between stacks, arrays, barns and slabs,
//! without `unsafe`.
//!
//! An [`Engine`] provides the slow paths of one cache ([`slow_paths`]), the queries of checks and
//! readers ([`inspect`]) and the repair in the child of a fork ([`orphans`]). The fast paths never
//! call it. A pop and a push work on a stack, whatever the engine keeps in that stack (a sheaf, an
//! array of objects, the free objects of one slab). An engine without stacks leaves the entries of
//! its caches zero, so every call takes the slow path.
//!
//! An engine works on the slabs of its cache ([`slabs`]): those of the page heap ([`PageSlabs`]),
//! or the lab's, which are mere numbers. The policy takes objects out of slabs ([`partial`]) and
//! returns them ([`flush`]). The [`header`] is common to the caches of all engines.
//!
//! # Lock order ([`crate::sync::Rank`], asserted in debug builds)
//!
//! 1. `Drain`: one thread at a time stops other CPUs' stacks.
//! 2. `Grace`: the current RCU grace period, and which thread owns which reader's word.
//! 3. `Waiting`: the discarded slabs, and the batches of freed objects, that wait for readers.
//! 4. `Barn`: the two lists of sheaves of one cache, and how many full ones it keeps.
//! 5. `List`: the partial list of one cache; `listed` of each slab; clearing free bits of a listed
//!    slab; discarding a slab.
//! 6. `Pool`: the unused sheaves, in no entry and no barn.
//! 7. `Grow`: the committed end of the region, until the new blocks are on the buddy's lists.
//! 8. `Pages`: the buddy's lists.
//!
//! No system call is made, and no other lock taken, under `Barn`, `List` or `Pages`.
#![forbid(unsafe_code)]

pub mod any;
pub mod array_cache;
mod contract;
pub mod cpu_slabs;
pub mod debug;
pub mod flags;
pub mod flush;
pub mod header;
mod inspect;
mod kind;
mod moving;
pub mod node_set;
mod node_words;
pub mod nodes;
pub mod orphans;
mod page_slabs;
pub mod partial;
pub mod partial_list;
pub mod sheaves;
mod shown;
pub mod slabs;
pub mod slob;
mod slow_paths;
pub mod tiny;

pub use any::Any;
pub use array_cache::ArrayCaches;
pub use contract::Engine;
pub use debug::Debug;
pub use flags::CacheFlags;
pub use header::{Header, SPARE, Shape};
#[doc(hidden)] // Parts of `Engine`.
pub use inspect::Inspect;
pub use kind::EngineFacts;
#[doc(hidden)]
pub use kind::EngineKind;
pub use moving::Moving;
#[doc(hidden)]
pub use orphans::Repair;
pub use page_slabs::PageSlabs;
pub use sheaves::Sheaves;
pub(crate) use shown::NameBytes;
pub use slob::Slob;
#[doc(hidden)]
pub use slow_paths::SlowPaths;
pub use slow_paths::{Changed, Found, PassState};
pub use tiny::Tiny;

pub use slabyard_abi::stats::Counter;
