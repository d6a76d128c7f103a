//! Floor 5: caches as their users see them: a header and an engine, the size classes of malloc,
//! and which slots are in use.

pub mod classes;
pub mod used;

use crate::engine::{Engine, Header, PageSlabs, Shape, Sheaves};
use crate::pages::PageHeap;
use core::fmt;
use core::ops::Deref;

/// One cache: objects of one geometry.
pub struct Cache<E = Sheaves> {
    header: Header,
    /// Its slow paths.
    pub engine: E,
}

impl<E: Engine> Cache<E> {
    /// A cache that is not in use.
    #[must_use]
    pub const fn new() -> Self {
        Cache { header: Header::new(), engine: E::NEW }
    }

    /// Gives the cache its shape, once, before its first use.
    pub fn begin(&self, name: impl fmt::Display, shape: Shape) {
        self.header.begin(name, shape);
        self.engine.begin(&self.header);
        self.header.show();
    }

    /// Its slabs on the page heap: what its engine stands on.
    #[inline]
    pub fn on<'a, P>(&'a self, heap: &'a PageHeap<P>) -> PageSlabs<'a, P> {
        PageSlabs { heap, cache: &self.header }
    }
}

impl<E: Engine> Default for Cache<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Deref for Cache<E> {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        &self.header
    }
}
