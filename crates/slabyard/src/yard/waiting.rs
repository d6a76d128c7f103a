//! A yard's state for objects and slabs that wait for readers, and the hooks by which the rest of
//! the yard calls that code: a yard without readers includes none of it.
//!
//! Neighbours: [`super::batches`] stores the objects; [`crate::waiting`] frees them.

use crate::platform::stack::Slot;
use crate::sync::Once;
use crate::yard::batches::Batches;

/// What waits for readers in a yard of this type.
pub(crate) struct Waiting<Y> {
    pub(crate) batches: Batches,
    /// What the rest of a yard calls: set with the first reader or the first that waits, so that a
    /// yard without has no code for it.
    pub(crate) on_some: Once<Calls<Y>>,
}

/// Gets slot and address of an object.
pub(crate) type OnObject<'a> = &'a mut dyn FnMut(Slot, usize);

/// The functions that the rest of a yard calls.
pub(crate) struct Calls<Y> {
    /// At the end of a slow path.
    pub(crate) serve: fn(&Y),
    /// In the child of a fork.
    pub(crate) forget: fn(&Y),
    /// For `verify`, and the next.
    pub(crate) each_object: fn(&Y, OnObject<'_>),
    pub(crate) count_held: fn(&Y) -> u64,
}

impl<Y> Waiting<Y> {
    pub(crate) const fn new() -> Self {
        Waiting { batches: Batches::new(), on_some: Once::new() }
    }
}
