//! Turns a look into a snapshot: each number under its name in `crate::fields`.
//!
//! Neighbours: [`super::look`] supplies the look; [`super::cache_numbers`] computes the numbers of
//! one cache, [`super::totals`] those of the yard; [`crate::identity`] checks the result.

use super::cache_numbers::CacheNumbers;
use super::front::Front;
use super::look::YardLook;
use super::totals::{CacheSums, YardMemory};
use super::walk::{MOST_SLABS, Walk};
use crate::snapshot::{Machine, Missing, Snapshot};
use std::collections::BTreeSet;

/// Writes down the machine, the caches, the totals, and what could not be read.
pub(crate) fn fill(front: &Front, look: &YardLook, want_slabs: bool, snapshot: &mut Snapshot) {
    snapshot.machine = Machine {
        page_bytes: Some(front.page_bytes),
        // In mode 3 rows are private slots.
        nodes: front.nodes.map(|table| table.nodes as u32),
        possible_cpus: (front.mode != 3).then_some(front.nr_rows as u32),
        ..Machine::default()
    };
    let sums = caches(front, look, want_slabs, snapshot);
    snapshot.missing.extend(not_read(look));
    YardMemory::of(front, look).fill(front, look, &sums, &mut snapshot.totals);
    let pressure = look.pressure.iter().map(|(name, n)| ((*name).to_owned(), (*n).into()));
    snapshot.totals.extend(pressure);
    let empties = snapshot.caches.iter().filter_map(|cache| cache.value("empties_bytes"));
    if let Some(sum) = empties.cloned().reduce(|sum, bytes| sum.plus(&bytes).unwrap_or(sum)) {
        snapshot.totals.insert("empties_parked".into(), sum);
    }
}

/// Adds the caches that are in use; returns the sums of their bytes.
fn caches(front: &Front, look: &YardLook, want_slabs: bool, snapshot: &mut Snapshot) -> CacheSums {
    let mut sums = CacheSums::default();
    let mut names = BTreeSet::new();
    for number in 0..look.end.caches.len() {
        let Some(numbers) = CacheNumbers::of(front, look, number) else { continue };
        let mut cache = numbers.cache(want_slabs);
        snapshot.missing.extend(numbers.missing(&cache.name));
        numbers.add_to(&mut sums);
        // Two caches of one name would be told as one.
        cache.name = free_name(&mut names, &cache.name);
        snapshot.caches.push(cache);
    }
    sums
}

/// What of the look failed for all caches.
fn not_read(look: &YardLook) -> impl Iterator<Item = Missing> {
    let missing = |what: &str, why: String| Missing { what: what.to_owned(), why };
    let walk = match &look.walk {
        Ok(Walk { cut: true, .. }) => {
            Some(missing("slabs", format!("only {MOST_SLABS} are told one by one")))
        }
        Ok(_) => None,
        Err(why) => Some(missing("empty, fullness", why.clone())),
    };
    let counts = look.counts.as_ref().and_then(|counts| counts.as_ref().err());
    walk.into_iter().chain(counts.map(|why| missing("counters", why.clone())))
}

/// A name that is not among these, which get it.
pub(crate) fn free_name(names: &mut BTreeSet<String>, wanted: &str) -> String {
    let numbered = (2..).map(|n| format!("{wanted}#{n}"));
    let mut all = std::iter::once(wanted.to_owned()).chain(numbered);
    all.find(|name| names.insert(name.clone())).expect("numbers without end")
}
