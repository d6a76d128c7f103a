//! The differences between two snapshots: the new value minus the old one, for each number that
//! both have.
//!
//! Neighbour: [`crate::view::diff`] prints the differences. Invariants: for a cache in both
//! snapshots, a number is listed only if both report it and the two values differ; the difference
//! of two ranges is the range of all possible differences.

use crate::fields::{self, FIELDS, FieldKind, TOTALS, Unit};
use crate::snapshot::{Cache, Snapshot, SourceKind};
use crate::value::Value;
use std::collections::BTreeMap;

/// Two looks and what is different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// Milliseconds from the old look to the new one.
    pub elapsed_ms: i64,
    /// What makes the two hard to compare, in words.
    pub notes: Vec<String>,
    /// Caches with a difference, the largest change of bytes first.
    pub caches: Vec<CacheDelta>,
    /// Totals with a difference.
    pub totals: Vec<Change>,
}

/// In which of the two a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The cache is in the old and in the new snapshot.
    Both,
    /// In the new one alone.
    Came,
    /// In the old one alone.
    Went,
}

/// The differences of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDelta {
    /// Its name in the new snapshot, or in the only one that has it.
    pub name: String,
    /// Whether it came, went, or stayed.
    pub presence: Presence,
    /// What is different; of a cache that came or went, all its numbers.
    pub changes: Vec<Change>,
}

/// One number that is different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the field or total.
    pub name: &'static str,
    /// What the number counts.
    pub unit: Unit,
    /// That of the field; a total is a gauge.
    pub kind: FieldKind,
    /// What the first snapshot has; `None` if it is unknown there.
    pub old: Option<Value>,
    /// What the second one has, likewise.
    pub new: Option<Value>,
}

/// A difference of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The low end.
    pub low: i128,
    /// The high end.
    pub high: i128,
}

impl Delta {
    /// What changed from the old one to the new one.
    #[must_use]
    pub fn between(old: &Snapshot, new: &Snapshot) -> Delta {
        let pairs = pairs(old, new);
        let mut caches: Vec<CacheDelta> =
            pairs.into_iter().filter_map(|(a, b)| cache_delta((old, a), (new, b))).collect();
        caches.sort_by(|a, b| b.weight().cmp(&a.weight()).then_with(|| a.name.cmp(&b.name)));
        let totals = TOTALS.iter().filter_map(|t| {
            let (old, new) = (old.total(t.name)?, new.total(t.name)?);
            let (name, unit, kind) = (t.name, t.unit, FieldKind::Gauge);
            let change =
                Change { name, unit, kind, old: Some(old.clone()), new: Some(new.clone()) };
            (old != new).then_some(change)
        });
        Delta {
            elapsed_ms: elapsed_ms(old, new),
            notes: notes(old, new),
            caches,
            totals: totals.collect(),
        }
    }

    /// Leaves only changes of these names; caches that came or went stay.
    pub fn keep(&mut self, names: &[&str]) {
        let keeps = |change: &Change| names.contains(&change.name);
        self.caches.iter_mut().for_each(|cache| cache.changes.retain(keeps));
        self.caches.retain(|c| c.presence != Presence::Both || !c.changes.is_empty());
        self.totals.retain(keeps);
    }

    /// True if nothing is different.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.caches.is_empty() && self.totals.is_empty()
    }
}

impl CacheDelta {
    /// The change of a name.
    #[must_use]
    pub fn change(&self, name: &str) -> Option<&Change> {
        self.changes.iter().find(|c| c.name == name)
    }

    /// How much its bytes changed, whichever way.
    fn weight(&self) -> u128 {
        let bytes = self.change("bytes").and_then(Change::difference);
        bytes.map_or(0, |d| d.low.unsigned_abs().max(d.high.unsigned_abs()))
    }
}

impl Change {
    /// New less old; what is not there counts as 0. `None` for text, and for numbers whose
    /// differences mean nothing.
    #[must_use]
    pub fn difference(&self) -> Option<Difference> {
        let nothing = Value::Exact(0);
        let (old, new) = (self.old.as_ref(), self.new.as_ref());
        let (a, b) = old.unwrap_or(&nothing).bounds()?;
        let (c, d) = new.unwrap_or(&nothing).bounds()?;
        let moves = matches!(self.kind, FieldKind::Gauge | FieldKind::Counter);
        moves.then(|| Difference {
            low: i128::from(c) - i128::from(b),
            high: i128::from(d) - i128::from(a),
        })
    }
}

/// Of two moments of one trace, the trace's time: when it was run says nothing.
fn elapsed_ms(old: &Snapshot, new: &Snapshot) -> i64 {
    let (a, b) = (&old.source, &new.source);
    let [from, to] = match (a.trace_ns, b.trace_ns) {
        (Some(from), Some(to)) if a.program == b.program => [from / 1_000_000, to / 1_000_000],
        _ => [old.taken_at_ms, new.taken_at_ms],
    };
    to.cast_signed().saturating_sub(from.cast_signed())
}

type Pair<'a> = (Option<&'a Cache>, Option<&'a Cache>);

/// Caches of one name belong together; then those that share any name, because which
/// of a merged cache's names comes first depends on the order of its creation.
fn pairs<'a>(old: &'a Snapshot, new: &'a Snapshot) -> Vec<Pair<'a>> {
    let mut rest: BTreeMap<&str, &Cache> =
        old.caches.iter().map(|c| (c.name.as_str(), c)).collect();
    let found: Vec<Pair<'a>> =
        new.caches.iter().map(|c| (rest.remove(c.name.as_str()), Some(c))).collect();
    let mut pairs = Vec::with_capacity(found.len() + rest.len());
    for pair in found {
        let (None, Some(cache)) = pair else {
            pairs.push(pair);
            continue;
        };
        let shared = rest.values().find(|c| c.names().any(|n| cache.names().any(|m| m == n)));
        let name = shared.map(|c| c.name.as_str());
        pairs.push((name.and_then(|n| rest.remove(n)), Some(cache)));
    }
    pairs.extend(rest.into_values().map(|c| (Some(c), None)));
    pairs
}

fn cache_delta(
    (old, a): (&Snapshot, Option<&Cache>),
    (new, b): (&Snapshot, Option<&Cache>),
) -> Option<CacheDelta> {
    let presence = match (a, b) {
        (Some(_), Some(_)) => Presence::Both,
        (None, _) => Presence::Came,
        (_, None) => Presence::Went,
    };
    let changes: Vec<Change> = FIELDS
        .iter()
        .filter_map(|field| {
            let old = a.and_then(|cache| fields::value(field, old, cache));
            let new = b.and_then(|cache| fields::value(field, new, cache));
            let told = match presence {
                Presence::Both => old.is_some() && new.is_some(),
                Presence::Came | Presence::Went => true,
            };
            let change = Change { name: field.name, unit: field.unit, kind: field.kind, old, new };
            (told && change.old != change.new).then_some(change)
        })
        .collect();
    let is_different = presence != Presence::Both || !changes.is_empty();
    let name = b.or(a)?.name.clone();
    is_different.then_some(CacheDelta { name, presence, changes })
}

fn notes(old: &Snapshot, new: &Snapshot) -> Vec<String> {
    let mut notes = Vec::new();
    let mut compare = |what: &str, old: Option<String>, new: Option<String>| {
        if let (Some(old), Some(new)) = (old, new)
            && old != new
        {
            notes.push(format!("{what}: {old}, now {new}"));
        }
    };
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    let (a, b) = (&old.source, &new.source);
    compare("another kind of source", Some(kind(a.kind).into()), Some(kind(b.kind).into()));
    compare("another kernel", a.release.clone(), b.release.clone());
    compare("another program", a.program.clone(), b.program.clone());
    compare("another process", number(a.pid.map(u64::from)), number(b.pid.map(u64::from)));
    let (a, b) = (&old.machine, &new.machine);
    compare("pages of another size", number(a.page_bytes), number(b.page_bytes));
    let cpus = [a, b].map(|m| number(m.possible_cpus.map(u64::from)));
    let [before, after] = cpus;
    compare("another number of CPUs", before, after);
    if elapsed_ms(old, new) < 0 {
        notes.push("the second is older than the first".into());
    }
    notes
}

fn kind(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Kernel => "kernel",
        SourceKind::Process => "process",
        SourceKind::Core => "core",
        SourceKind::Report => "report",
        SourceKind::Lab => "lab",
        SourceKind::Heap => "heap",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Source;

    fn snapshot(caches: &[(&str, u64)]) -> Snapshot {
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Process));
        for (name, live) in caches {
            let mut cache = Cache::new(*name);
            cache.set("live", *live);
            cache.set("bytes", *live * 64);
            snapshot.caches.push(cache);
        }
        snapshot
    }

    fn change(delta: &Delta, cache: &str, name: &str) -> Difference {
        let cache = delta.caches.iter().find(|c| c.name == cache).unwrap();
        cache.change(name).unwrap().difference().unwrap()
    }

    #[test]
    fn the_difference_is_new_less_old_and_the_largest_comes_first() {
        let (old, new) = (snapshot(&[("a", 5), ("b", 5)]), snapshot(&[("a", 6), ("b", 1)]));
        let delta = Delta::between(&old, &new);
        assert_eq!(delta.caches[0].name, "b");
        assert_eq!(change(&delta, "a", "live"), Difference { low: 1, high: 1 });
        assert_eq!(change(&delta, "b", "bytes"), Difference { low: -256, high: -256 });
        assert!(Delta::between(&old, &old).is_empty());
    }

    #[test]
    fn ranges_subtract_to_ranges_and_equal_ones_are_no_difference() {
        let (mut old, mut new) = (snapshot(&[("a", 0)]), snapshot(&[("a", 0)]));
        old.caches[0].set("live", Value::Range(10, 20));
        new.caches[0].set("live", Value::Range(15, 40));
        let delta = Delta::between(&old, &new);
        assert_eq!(change(&delta, "a", "live"), Difference { low: -5, high: 30 });
        assert!(Delta::between(&old, &old).is_empty());
    }

    #[test]
    fn caches_come_and_go_with_all_their_numbers() {
        let delta = Delta::between(&snapshot(&[("a", 5)]), &snapshot(&[("b", 7)]));
        let [b, a] = &delta.caches[..] else { panic!("{delta:?}") };
        assert_eq!((b.presence, a.presence), (Presence::Came, Presence::Went));
        assert_eq!(change(&delta, "b", "live"), Difference { low: 7, high: 7 });
        assert_eq!(change(&delta, "a", "live"), Difference { low: -5, high: -5 });
    }

    #[test]
    fn a_merged_cache_is_the_same_under_its_other_name() {
        let (mut old, mut new) = (snapshot(&[("a", 5)]), snapshot(&[("b", 5)]));
        old.caches[0].aliases = vec!["b".into()];
        new.caches[0].aliases = vec!["a".into()];
        assert!(Delta::between(&old, &new).is_empty());
    }

    #[test]
    fn what_one_does_not_tell_is_no_difference() {
        let (mut old, new) = (snapshot(&[("a", 5)]), snapshot(&[("a", 5)]));
        old.caches[0].set("partial", 1);
        old.totals.insert("slab".into(), Value::Exact(1));
        assert!(Delta::between(&old, &new).is_empty());
    }

    #[test]
    fn tunables_change_without_a_difference_of_numbers() {
        let (mut old, mut new) = (snapshot(&[("a", 5)]), snapshot(&[("a", 5)]));
        old.caches[0].set("min_partial", 5);
        new.caches[0].set("min_partial", 10);
        let mut delta = Delta::between(&old, &new);
        let change = delta.caches[0].change("min_partial").unwrap();
        assert_eq!((change.new.clone(), change.difference()), (Some(Value::Exact(10)), None));
        delta.keep(&["live"]);
        assert!(delta.is_empty());
    }

    #[test]
    fn two_moments_of_a_trace_are_apart_by_its_own_time() {
        let (mut old, mut new) = (snapshot(&[]), snapshot(&[]));
        (old.taken_at_ms, new.taken_at_ms) = (5_000, 9_000);
        (old.source.trace_ns, new.source.trace_ns) = (Some(70_000_000), Some(20_000_000));
        let delta = Delta::between(&old, &new);
        assert_eq!((delta.elapsed_ms, delta.notes.len()), (-50, 1));
        new.source.program = Some("another.slabtrace".into());
        let delta = Delta::between(&old, &new);
        assert_eq!((delta.elapsed_ms, delta.notes.len()), (4_000, 0));
    }

    #[test]
    fn other_machines_are_said() {
        let (mut old, mut new) = (snapshot(&[]), snapshot(&[]));
        old.machine.page_bytes = Some(4096);
        new.machine.page_bytes = Some(65536);
        new.source.kind = SourceKind::Core;
        let notes = Delta::between(&old, &new).notes.join("; ");
        let want = "another kind of source: process, now core; \
                    pages of another size: 4096, now 65536";
        assert_eq!(notes, want);
    }
}
