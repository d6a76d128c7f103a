//! Floor 2: the page heap. It consists of a region of reserved address space, a page descriptor per
//! granule, the buddy that allocates runs of granules, each CPU's lists of free runs, separate
//! mappings for larger blocks, and the memory of the sheaves.
//!
//! [`PageHeap`] owns all of these and the platform; engines build on it. [`heap`] imports the files
//! of its parts ([`advice`], [`buddy`], [`mappings`], [`region`], [`sheaf_pool`]); the files with
//! its functions import [`heap`].

pub mod advice;
pub(crate) mod advise;
pub mod ahead;
pub mod bank;
pub mod barn_bytes;
pub mod blocks;
pub mod buddy;
pub(crate) mod coalesce;
pub mod descriptor;
mod elements;
pub mod finding;
mod grown;
pub mod heap;
pub(crate) mod held;
pub mod huge;
pub mod mappings;
pub mod nodes;
pub mod percpu;
pub(crate) mod published;
pub mod purge;
pub(crate) mod rebuild;
pub mod region;
pub mod reports;
pub mod runs;
pub mod sheaf;
mod sheaf_access;
mod sheaf_pool;

pub use barn_bytes::NODE_LIMIT;
pub use descriptor::{Descriptor, GranuleKind};
pub use heap::PageHeap;
pub use region::Region;
pub use reports::{Cause, Misuse};
pub use sheaf::{Filling, Sheaf};
pub use sheaf_pool::SheafPool;
