//! The shared array: surplus objects of a CPU's array, for the node's other CPUs.
//!
//! A CPU that allocates what another one frees would refill from slabs and flush to them; so both
//! exchange batches here. It holds [`Limits::shared_capacity`](super::Limits::shared_capacity)
//! objects, and no more than one array has room for.

/// An array that CPUs share: a node's own, or an [alien](super::alien) one.
pub struct Shared<C> {
    /// A list of one array, or none.
    pub(super) array: C,
    pub(super) objects: u32,
    /// A refill took some since the last reap.
    pub(super) touched: bool,
    /// Readers outside find it as the cache's.
    pub(super) has_head: bool,
}
