//! Floor 10: typed object caches. Each has a name, and allocates objects of one type.
//!
//! An [`ObjectCache`] hands out [`CacheBox`]es. An allocation pops from this CPU's stack, a free
//! pushes onto it; both are inlined into the caller's code: they make no call, use no locked
//! instruction, and do not read the page map. `tests/inlined.rs` pins their instructions.
//!
//! Neighbours: a cache is created in a [`Home`], usually a [`crate::process::ProcessYard`];
//! [`crate::created`] creates, abandons and destroys the untyped cache below it.
//! Invariants: a box points to its cache's block, which outlives it. No user function runs inside
//! of the yard, except destructors of kept objects whose slabs are discarded.

#[cfg(feature = "allocator-api2")]
mod allocator;
mod batch;
mod block;
mod boxed;
mod builder;
mod bulk;
mod cache;
mod errors;
mod handle;
mod home;
mod kept;
mod kind;
mod prefill;
mod record;

pub use batch::Batch;
pub use boxed::CacheBox;
pub use builder::{Builder, KeptBuilder};
pub use cache::LiveObjects;
pub use errors::{AllocError, CreateError, InUse};
pub use handle::ObjectCache;
pub use home::Home;
pub use kind::{Fresh, Kept, ObjectKind};
pub use prefill::Prefilled;
pub use slabyard_abi::debug::DebugFlags;
