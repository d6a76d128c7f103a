//! The record to which a box of a typed cache points: the words that the fast path reads, and those
//! that a free needs.
//!
//! Neighbours: [`super::block`] makes two of them per cache; [`super::kind`] uses them for frees.

use super::home::{Home, YardOf};
use crate::cache::CacheId;
use crate::platform::FastPath;

/// Where the objects of a record's boxes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lies {
    /// In slabs of the cache.
    Inside,
    /// In mappings.
    Outside,
}

/// What a box points to.
#[repr(C, align(64))]
pub(super) struct Record<Y: Home> {
    pub(super) words: FastPath,
    pub(super) yard: &'static YardOf<Y>,
    pub(super) id: CacheId,
    pub(super) lies: Lies,
    /// Log2 of the objects' alignment, and their bytes.
    pub(super) align_order: u8,
    pub(super) bytes: u16,
    /// The maker's functions, if it has them: `fn() -> T` and `fn(&mut T)`.
    pub(super) make: Option<fn()>,
    pub(super) reset: Option<fn()>,
}
