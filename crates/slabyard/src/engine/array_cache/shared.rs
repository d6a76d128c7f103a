//! The shared array: surplus objects of CPUs' arrays, for the node's other CPUs.
//!
//! Without it, a CPU that only allocates would refill from slabs, and one that only frees would
//! flush to them; both exchange batches here. It holds at most
//! [`Limits::shared_capacity`](super::Limits::shared_capacity) objects, at most a full array.

/// An array that CPUs share: a node's own, or an [alien](super::alien) one.
pub struct Shared<C> {
    /// A list of one array, or none.
    pub(super) array: C,
    pub(super) objects: u32,
    /// A refill took some since the last reap.
    pub(super) touched: bool,
    /// Readers outside find it as the cache's, if that has one node.
    pub(super) has_head: bool,
}
