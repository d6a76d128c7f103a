//! Floor 10: typed object caches: the allocator of one type, with a name.
//!
//! An [`ObjectCache`] hands out [`CacheBox`]es. An allocation is a pop from this CPU's stack, a
//! free a push, and both are inlined into the caller's code: no call, no locked instruction, and
//! the page map is not read. `tests/inlined.rs` pins their instructions.
//!
//! Neighbours: a cache lives in a [`Home`], a [`crate::process::ProcessYard`] as a rule; it is a
//! cache that [`crate::created`] makes, abandons and destroys.
//! Invariants: a box points to its cache's block, which outlives it. No function of the user's runs
//! inside of the yard, but the destructors of kept objects whose slabs end.

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
mod live;
mod prefill;
mod record;

pub use batch::Batch;
pub use boxed::CacheBox;
pub use builder::{Builder, KeptBuilder};
pub use errors::{AllocError, CreateError, InUse};
pub use handle::ObjectCache;
pub use home::Home;
pub use kind::{Fresh, Kept, ObjectKind};
pub use live::LiveObjects;
pub use prefill::Prefilled;
pub use slabyard_abi::debug::DebugFlags;
