//! The constructor of a cache: a function that initialises each object of a slab once, when the
//! slab is allocated. An object that is freed and allocated again keeps the state in which it was
//! freed (Bonwick, "The slab allocator", USENIX 1994). The destructor is called once for each
//! object, before the slab's pages are used for something else.
//!
//! Neighbours: the engine's partial list calls the constructor for a new slab, before any other
//! thread sees the slab, and the destructor for a discarded slab, which no other thread sees any
//! more. Invariant: no lock of the cache or of the pages is held during either; if these functions
//! allocate from the same yard or free to it, the calls are served like those of a signal handler
//! that interrupts a slow path.

use super::Geometry;
use crate::pages::Region;

/// A constructor or a destructor: a function with a word of its own.
#[derive(Clone, Copy, Debug)]
pub struct ObjectFn {
    /// Gets the object's address and `word`. On the modelled machine there is no memory at the
    /// address.
    pub function: fn(usize, usize),
    /// Whatever the function needs to know.
    pub word: usize,
}

impl ObjectFn {
    /// Calls it with the object at an address.
    pub fn call(&self, address: usize) {
        (self.function)(address, self.word);
    }

    /// Calls it with each object of a slab: one that is about to begin, or one that has ended and
    /// whose pages are not given back yet.
    #[cold]
    pub fn call_each(&self, region: &Region, slab: u32, geometry: &Geometry) {
        let begin = region.address(slab);
        (0..geometry.objects).for_each(|i| self.call(geometry.address_of(begin, i)));
    }
}
