//! A node's state besides its partial list: a shared array, and the free slabs at the list's end.
//!
//! The shared array holds surplus objects of CPUs' arrays, for the node's other CPUs. Without it, a
//! CPU that only allocates would refill from slabs, and one that only frees would flush to them;
//! both exchange batches here. The shared array holds at most
//! [`Limits::shared_capacity`](super::Limits::shared_capacity) objects, as far as one sheaf has
//! room.
//!
//! Neighbours: [`super::share`] moves batches, [`super::lists`] keeps the free slabs.

use crate::sync::{AtomicU32, AtomicU64};

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

/// The free slabs at the end of a node's list. Under the list's lock.
pub(super) struct Empties {
    /// The first of them; [`NIL`](crate::pages::descriptor::NIL) without one.
    pub(super) first: AtomicU32,
    pub(super) nr: AtomicU32,
    /// Free objects in all slabs of the node: may be less than none where slabs were there from the
    /// begin (of a replay).
    pub(super) objects: AtomicU64,
    /// 1: one was used since the last reap.
    pub(super) touched: AtomicU32,
}
