//! Finds the cache that serves a request: the cache of the smallest class that fits, or, if the
//! engine serves each request by its exact size, the cache of the first class.
//!
//! Neighbours: [`crate::engine::EngineKind::serves`] decides; [`crate::place`] looks up how large
//! an object is.

use crate::cache::classes::{self, STEP};
use crate::engine::Engine;
use crate::platform::Platform;
use crate::yard::Yard;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// The class that serves a request; `None`: a run or a mapping does.
    #[inline]
    pub fn class_for(&self, bytes: usize, align: usize) -> Option<usize> {
        if E::SIZED
            && let Some(serves) = serves(self, bytes, align)
        {
            return serves.then_some(0);
        }
        let class = classes::class_for_aligned(bytes, align)?;
        aligns(self, class, align).then_some(class)
    }
}

/// True if the objects of a class are aligned: with debugging those of larger classes are less
/// than without.
#[inline(always)]
fn aligns<P: Platform, E: Engine>(yard: &Yard<P, E>, class: usize, align: usize) -> bool {
    if !E::SIZED || align <= STEP {
        return true;
    }
    let geometry = &yard.caches.classes()[class].shape().geometry;
    ((geometry.size | geometry.first) as usize).is_multiple_of(align)
}

/// True if malloc's engine serves each request by its size: then it knows where each object
/// begins, and checks each free.
#[inline(always)]
pub(crate) fn is_sized<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    E::SIZED && serves(yard, 1, 1).is_some()
}

fn serves<P: Platform, E: Engine>(yard: &Yard<P, E>, bytes: usize, align: usize) -> Option<bool> {
    let first = &yard.caches.classes()[0];
    first.engine.serves(first, bytes, align)
}
