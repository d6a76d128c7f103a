//! Walks over the stacks of all rows, visiting the entries that a drain, a pass or a check needs.
//!
//! Neighbours: [`crate::cache::used`] records which slots are in use, and the platform which rows
//! ([`crate::platform::Rows::used`]), so a walk costs in proportion to them; [`super`] and
//! [`crate::observe`] use these walks.
//! Invariant: the caller holds the drain lock during a walk over the stacks of created caches.

use crate::cache::slots::slot_of;
use crate::engine::{Engine, SPARE};
use crate::pages::percpu;
use crate::platform::{Planted, Platform, Slot};
use crate::yard::Yard;
use crate::yard::sparse::is_of;

/// Stacks of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stacks {
    /// All: of caches, and lists and banks of runs.
    All,
    /// Lists and banks of runs.
    Runs,
    /// Stacks of objects alone, none of runs.
    Caches,
    /// Of the caches of some bits ([`crate::reclaim::sparse`]).
    Some(u64),
    /// Of the cache of a number.
    Cache(usize),
}

/// Row and slot of entries that have a stack.
pub(crate) struct Entries<'a, P, E> {
    yard: &'a Yard<P, E>,
    stacks: Stacks,
    row: usize,
    slot: u16,
}

/// The next slot in use, from a number on.
pub(crate) fn next_stack<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    stacks: Stacks,
    slot: u16,
) -> Option<Slot> {
    let used = &yard.caches.used;
    match stacks {
        Stacks::All => used.next_slot(slot),
        Stacks::Runs => used.next_slot(slot).filter(|slot| percpu::has_runs(*slot)),
        Stacks::Caches => used.next_slot(slot.max(slot_of(0).0)),
        Stacks::Some(caches) => used.slots(slot.max(slot_of(0).0)).find(|it| is_of(caches, *it)),
        Stacks::Cache(number) => {
            let main = slot_of(number).0;
            let next = slot.max(main);
            (next <= main + SPARE).then_some(Slot(next))
        }
    }
}

/// Numbers of the caches of these stacks whose slots are in use: of all, or of one.
pub(crate) fn caches_of<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    stacks: Stacks,
) -> impl Iterator<Item = usize> + '_ {
    let (first, last) = match stacks {
        Stacks::Cache(number) => (number, number),
        _ => (0, usize::MAX),
    };
    let next = move |number| yard.caches.used.next_cache(number).filter(|number| *number <= last);
    core::iter::successors(next(first), move |number| next(number + 1))
}

/// The entries of all rows that have a stack.
pub(crate) fn entries<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    stacks: Stacks,
) -> Entries<'_, P, E> {
    Entries { yard, stacks, row: 0, slot: 0 }
}

impl<P: Platform, E: Engine> Iterator for Entries<'_, P, E> {
    type Item = (usize, Slot);

    #[inline(never)]
    fn next(&mut self) -> Option<(usize, Slot)> {
        let p = self.yard.platform();
        while let Some(row) = p.rows().next_used(self.row) {
            if row != self.row {
                (self.row, self.slot) = (row, 0);
            }
            let stacks = self.stacks;
            let skipped =
                matches!(stacks, Stacks::Cache(_)) && p.has_planted(Planted::SkippedRow(row));
            let next = if skipped { None } else { next_stack(self.yard, stacks, self.slot) };
            let Some(slot) = next else {
                (self.row, self.slot) = (row + 1, 0);
                continue;
            };
            self.slot = slot.0 + 1;
            if !p.rows().entry(row, slot).is_none() {
                return Some((row, slot));
            }
        }
        None
    }
}
