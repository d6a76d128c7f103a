//! The free slabs at the end of a node's list.
//!
//! Neighbour: [`super::lists`] puts them there and discards them.
//! Invariant: the list's lock protects them.

use crate::sync::{AtomicU32, AtomicU64};

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
