//! Which cache serves a request: that of the smallest class that fits, or, with an engine that
//! serves each request by its size, that of the first class.
//!
//! Neighbours: [`crate::engine::Engine::serves`] decides; [`crate::place`] says how large an
//! object is.

use crate::cache::classes;
use crate::engine::Engine;
use crate::platform::Platform;
use crate::yard::Yard;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// The class that serves a request; `None`: a run or a mapping does.
    #[inline]
    pub fn class_for(&self, bytes: usize, align: usize) -> Option<usize> {
        if E::SIZED
            && let Some(serves) = self.serves(bytes, align)
        {
            return serves.then_some(0);
        }
        classes::class_for_aligned(bytes, align)
    }

    /// True if malloc's engine serves each request by its size: then it knows where each object
    /// begins, and checks each free.
    #[inline(always)]
    pub(crate) fn is_sized(&self) -> bool {
        E::SIZED && self.serves(1, 1).is_some()
    }

    fn serves(&self, bytes: usize, align: usize) -> Option<bool> {
        let first = &self.caches.classes()[0];
        first.engine.serves(first, bytes, align)
    }
}
