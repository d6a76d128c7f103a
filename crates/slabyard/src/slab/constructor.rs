//! The constructor of a cache: a function that initialises each object of a slab once, when the
//! slab is allocated; an object that is freed and allocated again keeps the state in which it was
//! freed (Bonwick, "The slab allocator", USENIX 1994). The destructor is called once for each
//! object, before the slab's pages are used for something else.
//!
//! Neighbours: the engine's partial list calls the constructor for a new slab, before any other
//! thread sees the slab, and the destructor for a discarded slab, which no other thread sees any
//! more. Invariant: no lock of the cache or of the pages is held meanwhile; if these functions
//! allocate from the same yard or free to it, the calls are served like those of a signal handler
//! that interrupts a slow path.

use super::Geometry;
use crate::pages::Region;

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

/// As [`Constructor`], for the end of an object.
#[derive(Clone, Copy, Debug)]
pub struct Destructor {
    /// Gets the object's address and `word`.
    pub destruct: fn(usize, usize),
    /// Whatever the function needs to know.
    pub word: usize,
}

impl Destructor {
    /// Ends the object at an address.
    pub fn call(&self, address: usize) {
        (self.destruct)(address, self.word);
    }
}

/// Makes all objects of a slab that is about to begin.
#[cold]
pub fn construct(region: &Region, slab: u32, geometry: &Geometry, constructor: &Constructor) {
    let begin = region.address(slab);
    (0..geometry.objects).for_each(|i| constructor.call(geometry.address_of(begin, i)));
}

/// Ends all objects of a slab that has ended, before its pages are given back.
#[cold]
pub fn destruct(region: &Region, slab: u32, geometry: &Geometry, destructor: &Destructor) {
    let begin = region.address(slab);
    (0..geometry.objects).for_each(|i| destructor.call(geometry.address_of(begin, i)));
}
