//! What a kernel hides: its `objects` (slabinfo's active objects) leave out only
//! what is free on node partial lists. Objects that are free in CPU slabs, on CPU
//! partial lists, in sheaves and in barns are counted as active.

use crate::snapshot::{Cache, Snapshot};

/// Most free objects that may be counted as active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Held for CPUs.
    pub cpu: u64,
    /// In barns.
    pub node: u64,
    /// Both together: at most what is active.
    pub most: u64,
    /// Why, in words.
    pub reason: String,
}

/// Most free objects of a cache that may be counted as active; `None` where the
/// source does not tell enough.
#[must_use]
pub fn objects(_snapshot: &Snapshot, cache: &Cache) -> Option<Hidden> {
    let active = cache.exact("objects")?;
    let slabs = cache.exact("cpu_slabs")?;
    let cpu = slabs.checked_mul(cache.exact("objs_per_slab")?)?.min(active);
    let reason = format!("{slabs} slabs held by CPUs");
    Some(Hidden { cpu, node: 0, most: cpu, reason })
}
