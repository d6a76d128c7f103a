//! Compares the sums that a snapshot must keep.
//!
//! Neighbours: [`crate::ended`].
//! The equations are those of `abi::counters`:
//!
//! ```text
//! yard:   the parts                                   = committed
//!         returned                                   <= free_runs
//! cache:  live + parked_cpu + parked_node + free_partial <= total_objects
//!         slabs * objs_per_slab                       = total_objects
//!         total_objects * slab_size                  <= bytes
//! ```
//!
//! A cache's parts may fall short of its total: objects in transit belong to
//! no cache's place. What is unknown is not compared.

use crate::ended::{Cache, Snapshot};
use std::fmt;

/// An equation that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The cache, or `None` for the yard.
    pub cache: Option<String>,
    /// The left side in words.
    pub what: &'static str,
    /// The left side.
    pub found: u64,
    /// How it must stand to the right side.
    pub relation: Relation,
    /// The right side in words.
    pub bound_name: &'static str,
    /// The right side.
    pub bound: u64,
}

/// How two sums must stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Both are the same.
    Equal,
    /// The left is not larger.
    AtMost,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.cache.as_deref().unwrap_or("yard");
        let must = match self.relation {
            Relation::Equal => "not",
            Relation::AtMost => "more than",
        };
        let Finding { what, found, bound_name, bound, .. } = self;
        write!(f, "{place}: {what} is {found}, {must} {bound_name} ({bound})")
    }
}

/// Every equation of the snapshot that does not hold.
#[must_use]
pub fn check(snapshot: &Snapshot) -> Vec<Finding> {
    use Relation::{AtMost, Equal};
    let yard = &snapshot.yard;
    let mut findings = Vec::new();
    let mut compare = |left, relation, right| {
        findings.extend(finding(None, left, relation, right));
    };
    compare(("the sum of the parts", yard.parts()), Equal, ("committed", yard.get("committed")));
    compare(("returned", yard.get("returned")), AtMost, ("free_runs", yard.get("free_runs")));
    snapshot.caches.iter().for_each(|cache| check_cache(cache, &mut findings));
    findings
}

fn check_cache(cache: &Cache, findings: &mut Vec<Finding>) {
    use Relation::{AtMost, Equal};
    let numbers = &cache.numbers;
    let product = |a: &str, b: &str| numbers.get(a)?.checked_mul(numbers.get(b)?);
    let total = ("total_objects", numbers.get("total_objects"));
    let mut compare = |left, relation, right| {
        findings.extend(finding(Some(cache), left, relation, right));
    };
    compare(("the sum of the parts", numbers.parts()), AtMost, total);
    compare(("slabs times objs_per_slab", product("slabs", "objs_per_slab")), Equal, total);
    compare(
        ("total_objects times slab_size", product("total_objects", "slab_size")),
        AtMost,
        ("bytes", numbers.get("bytes")),
    );
}

fn finding(
    cache: Option<&Cache>,
    (what, found): (&'static str, Option<u64>),
    relation: Relation,
    (bound_name, bound): (&'static str, Option<u64>),
) -> Option<Finding> {
    let (found, bound) = (found?, bound?);
    let holds = match relation {
        Relation::Equal => found == bound,
        Relation::AtMost => found <= bound,
    };
    let cache = cache.map(|c| c.name.clone());
    (!holds).then_some(Finding { cache, what, found, relation, bound_name, bound })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ended::Numbers;
    use slabyard_abi::counters::{CacheCounters, YARD_FIELDS, YardCounters};

    fn sound() -> Snapshot {
        let yard = YardCounters {
            live: 640,
            free_partial: 3456,
            metadata: 4096,
            committed: 8192,
            ..Default::default()
        };
        let cache = CacheCounters {
            slab_size: 64,
            objs_per_slab: 64,
            slabs: 1,
            total_objects: 64,
            live: 10,
            free_partial: 54,
            bytes: 4096,
            ..Default::default()
        };
        Snapshot {
            pid: Some(1),
            yard: Numbers::all(yard),
            caches: vec![Cache { name: "malloc-64".into(), numbers: Numbers::all(cache) }],
        }
    }

    #[test]
    fn a_sound_snapshot_has_no_finding() {
        assert_eq!(check(&sound()), []);
    }

    #[test]
    fn each_part_of_the_yard_counts() {
        for field in YARD_FIELDS.iter().filter(|f| f.part) {
            let mut snapshot = sound();
            let value = snapshot.yard.get(field.name).unwrap();
            snapshot.yard.set(field.name, value + 1);
            let findings = check(&snapshot);
            assert_eq!(findings.len(), 1, "{}", field.name);
            assert_eq!((findings[0].found, findings[0].bound), (8193, 8192));
            assert_eq!(
                findings[0].to_string(),
                "yard: the sum of the parts is 8193, not committed (8192)"
            );
        }
    }

    #[test]
    fn a_cache_with_more_objects_than_slabs_is_found() {
        let mut snapshot = sound();
        snapshot.caches[0].numbers.set("live", 11);
        let text = check(&snapshot)[0].to_string();
        assert_eq!(text, "malloc-64: the sum of the parts is 65, more than total_objects (64)");
        snapshot.caches[0].numbers.set("live", 9);
        assert_eq!(check(&snapshot), [], "an object may be in transit");
    }

    #[test]
    fn wrong_totals_of_a_cache_are_found() {
        let mut snapshot = sound();
        snapshot.caches[0].numbers.set("slabs", 2);
        snapshot.caches[0].numbers.set("bytes", 4095);
        let what: Vec<_> = check(&snapshot).iter().map(|f| f.what).collect();
        assert_eq!(what, ["slabs times objs_per_slab", "total_objects times slab_size"]);
    }

    #[test]
    fn more_returned_than_free_is_found() {
        let mut snapshot = sound();
        snapshot.yard.set("returned", 1);
        assert_eq!(check(&snapshot)[0].bound_name, "free_runs");
    }

    #[test]
    fn what_is_unknown_is_not_compared() {
        let mut snapshot = sound();
        snapshot.yard = Numbers::default();
        snapshot.yard.set("committed", 1);
        assert_eq!(check(&snapshot), []);
    }
}
