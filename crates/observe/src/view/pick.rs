//! Which caches are shown, and in which order.
//!
//! Invariants: a cache is picked if a pattern matches any of its names; a cache without a value for
//! the sort field comes last.

use crate::fields::{self, FIELDS, Field};
use crate::snapshot::{Cache, Snapshot};
use crate::value::Value;
use std::cmp::Ordering;
use std::str::FromStr;
use thiserror::Error;

/// A pattern of names, such as `kmalloc-*`.
pub use glob::Pattern;

/// What caches are sorted by.
#[derive(Clone, Copy)]
pub enum Key {
    /// Their names, a to z.
    Name,
    /// A number of theirs, the largest first; words a to z.
    Field(&'static Field),
}

/// No field has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown field `{name}`; {}`slabyard list --help` names all", near(name))]
pub struct UnknownField {
    /// What was typed.
    pub name: String,
}

/// Fields that may have been meant, in words; nothing where none is near.
fn near(name: &str) -> String {
    const MOST: usize = 5;
    const LEAST: f64 = 0.8;
    let name = name.to_ascii_lowercase().replace('-', "_");
    let likeness = |field: &str| {
        let holds = name.len() > 2 && (field.contains(&name) || name.contains(field));
        strsim::jaro_winkler(&name, field) + if holds { 1.0 } else { 0.0 }
    };
    let mut near: Vec<(f64, &str)> = std::iter::once("name")
        .chain(FIELDS.iter().map(|f| f.name))
        .map(|field| (likeness(field), field))
        .filter(|(likeness, _)| *likeness >= LEAST)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let names: Vec<&str> = near.into_iter().take(MOST).map(|(_, name)| name).collect();
    if names.is_empty() { String::new() } else { format!("near it: {}; ", names.join(", ")) }
}

impl FromStr for Key {
    type Err = UnknownField;

    fn from_str(name: &str) -> Result<Key, UnknownField> {
        if name == "name" {
            return Ok(Key::Name);
        }
        crate::fields::field(name).map(Key::Field).ok_or_else(|| UnknownField { name: name.into() })
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Key::Name => f.write_str("name"),
            Key::Field(field) => f.write_str(field.name),
        }
    }
}

/// Whether caches without slabs are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Empty {
    /// They are shown like the others.
    #[default]
    Shown,
    /// They are left out, unless a pattern picked them.
    Hidden,
}

/// What picks and sorts caches.
#[derive(Clone, Debug, Default)]
pub struct CacheFilter {
    /// Patterns such as `kmalloc-*`; without one every cache is picked.
    pub patterns: Vec<Pattern>,
    /// What sorts them; without, they stay as the source has them.
    pub key: Option<Key>,
    /// The other way round.
    pub reverse: bool,
    /// Most caches that are shown.
    pub top: Option<usize>,
    /// Whether caches without slabs are taken.
    pub empty: Empty,
}

/// The caches that were picked, and how many were not.
pub struct FilteredCaches<'a> {
    /// The caches to show, in order.
    pub caches: Vec<&'a Cache>,
    /// Caches that were left out because they have no slabs.
    pub empty: usize,
    /// Caches that were left out because there are too many.
    pub beyond: usize,
}

impl CacheFilter {
    /// The largest first, those without slabs left out: what a table begins with.
    #[must_use]
    pub fn by_bytes() -> CacheFilter {
        let key = crate::fields::field("bytes").map(Key::Field);
        CacheFilter { key, empty: Empty::Hidden, ..CacheFilter::default() }
    }

    /// The caches of a snapshot that are picked, sorted.
    #[must_use]
    pub fn caches<'a>(&self, snapshot: &'a Snapshot) -> FilteredCaches<'a> {
        let mut caches: Vec<&Cache> = snapshot.caches.iter().filter(|c| self.takes(c)).collect();
        let all = caches.len();
        if self.empty == Empty::Hidden && self.patterns.is_empty() {
            caches.retain(|c| c.exact("slabs") != Some(0));
        }
        let empty = all - caches.len();
        if let Some(key) = self.key {
            let mut keyed: Vec<_> =
                caches.into_iter().map(|c| (Sorted::of(key, snapshot, c), c)).collect();
            keyed.sort_by(|(a, x), (b, y)| {
                let order = a.compare(b, self.reverse);
                order.then_with(|| x.name.cmp(&y.name))
            });
            caches = keyed.into_iter().map(|(_, c)| c).collect();
        } else if self.reverse {
            caches.reverse();
        }
        let shown = self.top.map_or(caches.len(), |top| top.min(caches.len()));
        let beyond = caches.len() - shown;
        caches.truncate(shown);
        FilteredCaches { caches, empty, beyond }
    }

    /// True if the patterns pick the cache.
    #[must_use]
    pub fn takes(&self, cache: &Cache) -> bool {
        let takes = |pattern: &Pattern| cache.names().any(|name| pattern.matches(name));
        self.patterns.is_empty() || self.patterns.iter().any(takes)
    }
}

/// What a cache is sorted by.
enum Sorted {
    Name(String),
    Numbers(u64, u64),
    Unknown,
}

impl Sorted {
    fn of(key: Key, snapshot: &Snapshot, cache: &Cache) -> Sorted {
        let field = match key {
            Key::Name => return Sorted::Name(cache.name.clone()),
            Key::Field(field) => field,
        };
        match fields::value(field, snapshot, cache) {
            Some(Value::Text(text)) => Sorted::Name(text),
            Some(Value::Exact(n)) => Sorted::Numbers(n, n),
            Some(Value::Range(low, high)) => Sorted::Numbers(high, low),
            None => Sorted::Unknown,
        }
    }

    fn compare(&self, other: &Sorted, reverse: bool) -> Ordering {
        let order = match (self, other) {
            (Sorted::Name(a), Sorted::Name(b)) => a.cmp(b),
            (Sorted::Numbers(a, b), Sorted::Numbers(c, d)) => (c, d).cmp(&(a, b)),
            // The unknown stays last, whichever way round.
            (a, b) => return a.rank().cmp(&b.rank()),
        };
        if reverse { order.reverse() } else { order }
    }

    fn rank(&self) -> u8 {
        match self {
            Sorted::Numbers(..) => 0,
            Sorted::Name(_) => 1,
            Sorted::Unknown => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Source, SourceKind};

    fn snapshot() -> Snapshot {
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Process));
        for (name, slabs) in [("malloc-32", Some(0)), ("b", Some(3)), ("a", Some(3)), ("c", None)] {
            let mut cache = Cache::new(name);
            if let Some(slabs) = slabs {
                cache.set("slabs", slabs);
                cache.set("bytes", slabs * 4096);
            }
            snapshot.caches.push(cache);
        }
        snapshot.caches[1].aliases = vec!["other".into()];
        snapshot
    }

    fn names(pick: &CacheFilter) -> Vec<String> {
        pick.caches(&snapshot()).caches.iter().map(|c| c.name.clone()).collect()
    }

    #[test]
    fn the_largest_come_first_then_names_and_the_unknown_last() {
        assert_eq!(names(&CacheFilter::by_bytes()), ["a", "b", "c"]);
        assert_eq!(CacheFilter::by_bytes().caches(&snapshot()).empty, 1);
        assert_eq!(
            names(&CacheFilter { reverse: true, ..CacheFilter::by_bytes() }),
            ["a", "b", "c"]
        );
        let by_name = CacheFilter { key: Some(Key::Name), reverse: true, ..CacheFilter::default() };
        assert_eq!(names(&by_name), ["malloc-32", "c", "b", "a"]);
        assert_eq!(names(&CacheFilter::default()), ["malloc-32", "b", "a", "c"]);
    }

    #[test]
    fn a_range_sorts_by_its_high_end() {
        let mut snapshot = snapshot();
        snapshot.caches[0].set("live", Value::Range(0, 10));
        snapshot.caches[1].set("live", Value::Range(5, 9));
        snapshot.caches[2].set("live", Value::Range(6, 9));
        let pick = CacheFilter { key: "live".parse().ok(), ..CacheFilter::default() };
        let names: Vec<_> = pick.caches(&snapshot).caches.iter().map(|c| &*c.name).collect();
        assert_eq!(names, ["malloc-32", "a", "b", "c"]);
    }

    #[test]
    fn patterns_match_aliases_and_show_what_is_empty() {
        let pick = |pattern: &str| CacheFilter {
            patterns: vec![Pattern::new(pattern).unwrap()],
            ..CacheFilter::by_bytes()
        };
        assert_eq!(names(&pick("oth*")), ["b"]);
        assert_eq!(names(&pick("malloc-*")), ["malloc-32"]);
        assert_eq!(names(&pick("none")), [""; 0]);
    }

    #[test]
    fn the_rest_is_counted() {
        let pick = CacheFilter { top: Some(1), ..CacheFilter::by_bytes() };
        assert_eq!(names(&pick), ["a"]);
        assert_eq!(pick.caches(&snapshot()).beyond, 2);
    }

    #[test]
    fn an_unknown_field_has_those_that_are_near_it_and_where_all_are() {
        let said = |name: &str| name.parse::<Key>().unwrap_err().to_string();
        let all = "`slabyard list --help` names all";
        for far in ["colour", "", "zzzzzzzz", "42"] {
            assert_eq!(said(far), format!("unknown field `{far}`; {all}"));
        }
        for (typed, meant) in [
            ("patial", "partial"),
            ("liv", "live"),
            ("Live", "live"),
            ("object-size", "object_size"),
            ("obj_size", "object_size"),
            ("byte", "bytes"),
            ("sheaf", "sheaf_capacity"),
            ("names", "name"),
        ] {
            let said = said(typed);
            assert!(said.contains(meant) && said.ends_with(all), "{said}");
            assert!(said.len() < 160, "{said}");
        }
    }
}
