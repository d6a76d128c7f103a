//! Slots: maps a cache's number to its two stacks' entries in each CPU's row. Malloc's classes have
//! the first numbers; created caches have the numbers after them.
//!
//! Neighbours: [`super::used`] records which slots are in use.

use crate::platform::Slot;
use slabyard_abi::region::row;

/// Caches that there may be, malloc's classes among them.
pub const MOST_CACHES: usize = row::CACHES;

/// The slot of a cache's main stacks.
#[inline]
#[must_use]
pub const fn slot_of(number: usize) -> Slot {
    Slot((row::FIRST_CACHE + number * row::PAIR) as u16)
}

/// The number of the cache of a main or spare slot.
#[inline]
#[must_use]
pub const fn number_of(slot: Slot) -> Option<usize> {
    match slot.0.checked_sub(row::FIRST_CACHE as u16) {
        Some(behind) => Some(behind as usize / row::PAIR),
        None => None,
    }
}
