//! Who holds a kernel cache's memory: evidence that needs more than the kernel's files, from a
//! source that names processes, units, directories or call sites.
//!
//! Neighbour: [`crate::examine`] asks it for each cache that a finding is about. Without such a
//! source a finding says that its owner is unknown, and which command would name it.

use serde::Serialize;

/// One holder of a cache's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// The process, unit, cgroup, directory or mount.
    pub who: String,
    /// The call site or the object, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Objects that it allocated and nobody freed.
    pub objects: u64,
    /// How much these take, from one object to the next.
    pub bytes: u64,
}

/// A source that names owners.
pub trait Owners {
    /// Owners of a cache's objects, the largest first; none where it does not know.
    fn of_cache(&self, cache: &str) -> Vec<Owner>;
}
