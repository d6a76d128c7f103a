//! Serves a call within a slow path, through a cache's engine or as a large block.
//!
//! Neighbours: [`crate::calls`] enters the slow path for a program's call; [`crate::waiting`] frees
//! deferred objects with these functions.

use crate::cache::Cache;
use crate::debugging::large::alloc_nothing;
use crate::engine::Engine;
use crate::large::{alloc_large, free_large};
use crate::place::may_begin;
use crate::platform::{Platform, Takes};
use crate::yard::{AddressKind, Yard};

pub(crate) fn alloc_once<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: Option<&Cache<E>>,
    bytes: usize,
    align: usize,
) -> Option<usize> {
    match cache {
        Some(cache) if E::SIZED && bytes == 0 => alloc_nothing(yard, cache, align),
        Some(cache) if E::SIZED => cache.engine.alloc_sized(cache.on(&yard.heap), bytes, align),
        Some(cache) => cache.engine.alloc(cache.on(&yard.heap)),
        None => alloc_large(yard, bytes, align),
    }
}

pub(crate) fn free_inside<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: Option<&Cache<E>>,
    address: usize,
) -> Result<(), AddressKind> {
    match cache {
        Some(cache) if may_begin(yard, cache, address) => {
            cache.engine.free(cache.on(&yard.heap), address);
            Ok(())
        }
        None if free_large(yard, address) => Ok(()),
        _ => Err(yard.place_of(address)),
    }
}

/// Pushes onto this CPU's stack; false for an interior pointer, a full stack, and one that
/// takes other objects.
#[inline]
pub(crate) fn push<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    cache: &Cache<E>,
    address: usize,
) -> bool {
    let (p, main) = (yard.platform(), cache.shape().main());
    may_begin(yard, cache, address) && p.push(main, address, taken::<E>())
}

/// Which objects the stacks of an engine take.
pub(crate) const fn taken<E: Engine>() -> Takes {
    if E::TAGGED { Takes::Tagged } else { Takes::Each }
}
