//! The table of a cache's numbers and of the totals, from which every view is built, and the
//! function that reads each number. The rows are defined once, in `abi::counters`.
//!
//! Neighbours: [`crate::snapshot`] holds sampled values, [`crate::derive`] computes others from
//! them; [`value`] returns a number of either kind.

use crate::derive;
use crate::snapshot::{Cache, Snapshot};
use crate::value::Value;
pub use slabyard_abi::counters::{FIELDS, Field, FieldKind, TOTALS, Unit};

/// How a number is worked out that a source may leave to its reader.
type Derive = fn(&Snapshot, &Cache) -> Option<Value>;

/// The numbers that are worked out.
const DERIVED: &[(&str, Derive)] = &[
    ("live", derive::live),
    ("parked", derive::parked),
    ("full", derive::full),
    ("bytes", derive::bytes),
    ("used", derive::used),
    ("live_bytes", derive::live_bytes),
    ("parked_cpu", derive::parked_cpu),
    ("parked_node", derive::parked_node),
    ("free_partial", derive::free_partial),
    ("slabs_per_list_lock", derive::slabs_per_list_lock),
    ("cmpxchg_failed", derive::cmpxchg_failed),
    ("list_lock_mean_wait_ns", derive::list_lock_mean_wait_ns),
];

/// Fields that are ratios of counters: those of several caches do not add up.
pub(crate) const COUNTER_RATIOS: [&str; 3] =
    ["slabs_per_list_lock", "cmpxchg_failed", "list_lock_mean_wait_ns"];

/// A number of a cache, as its source reported it or as it is computed from others.
#[must_use]
pub fn value(field: &Field, snapshot: &Snapshot, cache: &Cache) -> Option<Value> {
    let derived = DERIVED.iter().find(|(name, _)| *name == field.name);
    match derived {
        Some((_, derive)) => derive(snapshot, cache),
        None => cache.value(field.name).cloned(),
    }
}

/// The field of a name.
#[must_use]
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|f| f.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_different_and_helps_are_one_line() {
        let names: BTreeSet<_> = FIELDS.iter().map(|f| f.name).collect();
        assert_eq!(names.len(), FIELDS.len());
        let totals: BTreeSet<_> = TOTALS.iter().map(|t| t.name).collect();
        assert_eq!(totals.len(), TOTALS.len());
        let helps = FIELDS.iter().map(|f| f.help).chain(TOTALS.iter().map(|t| t.help));
        assert!(helps.into_iter().all(|h| !h.is_empty() && !h.contains('\n')));
    }

    #[test]
    fn what_is_worked_out_is_a_field() {
        for (name, _) in DERIVED.iter() {
            assert!(field(name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_plain_list_fits_a_terminal() {
        assert!(FIELDS.iter().filter(|f| f.column).count() <= 11);
    }
}
