//! A node's list of partial slabs, doubly linked through the slabs' descriptors.
//!
//! Neighbour: [`super::partial`] takes objects out of listed slabs, and relists and discards slabs.
//! Invariant: the list lock protects it.

/// A node's partial list, linked through the slabs' descriptors.
pub struct Partial {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) nr_partial: u32,
}

/// Allocations take from the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Head,
    Tail,
}
