//! The kind of a cache's engine: the properties by which engines differ, and their slab sizes.
//!
//! Neighbours: [`crate::created`] and [`crate::yard`] read it before a cache is created.

use super::Header;
use crate::slab::Geometry;
use slabyard_abi::engines::EngineName;

/// How an engine differs from others while a cache is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineFacts {
    /// By the row of reports and of the readable region.
    pub name: EngineName,
    /// All that is parked is in main and spare stacks and in full sheaves on the node.
    pub parks_in_sheaves: bool,
    /// What is parked on the node is little enough to look at each object when a process ends.
    pub parks_few_on_node: bool,
    /// The elements of spare stacks are objects, as those of main stacks are.
    pub has_objects_in_spare: bool,
}

impl EngineFacts {
    /// Those of an engine of this name that is like most.
    #[must_use]
    pub(super) const fn of(name: EngineName) -> Self {
        EngineFacts {
            name,
            parks_in_sheaves: false,
            parks_few_on_node: false,
            has_objects_in_spare: true,
        }
    }
}

/// An engine before its cache begins: which one it is, and what slabs it asks for.
#[doc(hidden)] // Part of `Engine`.
pub trait EngineKind: Sized + Send + Sync + 'static {
    /// The state of a cache that is not in use.
    const NEW: Self;
    /// True if stacks have tags, for which pushes ask.
    const TAGGED: bool = false;
    /// True if engines of this type may serve requests by their exact size, as SLOB does; else
    /// nobody calls [`EngineKind::serves`] and its like, and the library compiles nothing of them.
    const SIZED: bool = false;

    /// What holds for the cache as long as it is in use.
    fn facts(&self) -> EngineFacts;

    /// The state of a cache that is not in use, of the engine that another cache has.
    fn like(_other: &Self) -> Self {
        Self::NEW
    }

    /// Of a cache that is not in use and has the state [`EngineKind::NEW`]: chooses the engine that
    /// its maker asked for, or else the one that another cache has. False if engines of this type
    /// are not that one. In place: an engine is large for the stack of a small thread.
    fn be_like(&mut self, other: &Self, wants: Option<EngineName>) -> bool {
        let is_that = wants.is_none_or(|name| name == other.facts().name);
        if is_that {
            *self = Self::like(other);
        }
        is_that
    }

    /// The order of slabs of objects of `size` bytes, where `order` is that of malloc's own table and
    /// `page_order` that of a page.
    #[inline]
    fn order(&self, _size: u32, order: u32, page_order: u32) -> u32 {
        order.max(page_order)
    }

    /// The geometry of a class of malloc's, of objects of this many bytes in slabs of this order or
    /// a page. Called before the class's cache begins.
    #[inline]
    fn geometry(&self, object: u32, order: u32, page_order: u32) -> Geometry {
        Geometry::new(object, self.order(object, order, page_order))
    }

    /// Of the engine of the first class: whether its cache serves a request, whatever the size.
    /// `None`: each class serves its own.
    fn serves(&self, _cache: &Header, _bytes: usize, _align: usize) -> Option<bool> {
        None
    }
}
