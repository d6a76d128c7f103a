//! Slots: maps a cache's number to its pair of entries in each CPU's row. Malloc's classes have the
//! first numbers; created caches have the numbers after them.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::stack::SLOTS;
    use std::vec::Vec;

    #[test]
    fn slots_of_caches_and_lists_are_distinct() {
        use crate::pages::percpu::has_runs;
        assert_eq!([number_of(Slot(0)), number_of(Slot(1))], [None; 2]);
        let mut found = Vec::new();
        for slot in 2..SLOTS as u16 {
            let number = number_of(Slot(slot));
            assert_eq!(number.is_none(), has_runs(Slot(slot)), "slot {slot}");
            found.extend(number.filter(|number| slot_of(*number) == Slot(slot)));
        }
        assert!(found.into_iter().eq(0..MOST_CACHES));
    }

    #[test]
    fn both_entries_of_a_cache_are_in_one_cache_line() {
        for number in 0..MOST_CACHES {
            let main = slot_of(number).offset();
            assert_eq!(main / 64, Slot(slot_of(number).0 + row::SPARE as u16).offset() / 64);
        }
    }
}
