//! The constructor of a cache: a function that makes each object of a slab once, where the slab
//! begins, so that a freed object that is handed out again still is what it was when it was
//! freed (Bonwick, "The slab allocator", USENIX 1994).
//!
//! Neighbours: the engine's partial list calls it for a new slab, before any other thread sees
//! the slab. Invariant: no lock is held meanwhile; what the function allocates from the same
//! yard is served as in a signal handler that interrupts a slow path.

use super::Geometry;
use crate::pages::PageHeap;
use crate::platform::Platform;

/// A function with a word of its own.
#[derive(Clone, Copy, Debug)]
pub struct Constructor {
    /// Gets the object's address and `word`. On the modelled machine there is no memory at the
    /// address.
    pub construct: fn(usize, usize),
    /// Whatever the function needs to know.
    pub word: usize,
}

impl Constructor {
    /// Makes the object at an address.
    pub fn call(&self, address: usize) {
        (self.construct)(address, self.word);
    }
}

impl<P: Platform> PageHeap<P> {
    /// Makes all objects of a slab that is about to begin.
    #[cold]
    pub fn construct(&self, slab: u32, geometry: &Geometry, constructor: &Constructor) {
        let begin = self.region.address(slab);
        (0..geometry.objects).for_each(|i| constructor.call(geometry.address_of(begin, i)));
    }
}
