//! A guard that shows external readers that a slow path is moving objects of a cache.
//!
//! Neighbour: [`super::shown`] has the two counts, and the rule for reading them.

use super::slabs::NodeList;
use crate::sync::{Ordering, count};

/// Marks that a slow path that moves objects of a cache is under way, until it is dropped.
#[must_use]
pub struct Moving<S: NodeList>(S);

impl<S: NodeList> Moving<S> {
    /// The slow path begins.
    #[inline(always)]
    pub fn new(on: S) -> Self {
        // AcqRel: no reader sees the changes that follow before it. Pairs with the reader
        // outside, which reads the words in order.
        count(on.park(), &on.cache().shown.begun, 1, Ordering::AcqRel);
        Moving(on)
    }

    /// As [`Moving::new`], for reclaim, which must not make the cache look busy.
    pub fn aside(on: S) -> Self {
        on.cache().seen.fetch_add(1, Ordering::Relaxed);
        Moving::new(on)
    }
}

impl<S: NodeList> Drop for Moving<S> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: a reader that sees it sees the changes before it.
        count(self.0.park(), &self.0.cache().shown.ended, 1, Ordering::Release);
    }
}
