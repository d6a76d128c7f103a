//! The sums that must hold in every snapshot.
//!
//! ```text
//! all:    the parts                                                = committed
//!         live, parked_cpu, parked_node, free_partial of caches    = the same of all
//! cache:  live + parked_cpu + parked_node + in_transit
//!                                               + free_partial     = total_objects
//!         slabs * objs_per_slab                                    = total_objects
//!         total_objects * slab_size                               <= bytes
//!         partial + full + cpu_slabs                               = slabs
//!         empty                                                   <= partial
//!         empties_parked <= slabs_cpu_partial                     <= cpu_slabs
//! ```
//!
//! A sum of ranges holds if it holds for some choice within them; exact numbers must agree exactly.
//! Unknown numbers are not compared; if a source does not report `in_transit`, the sum may miss
//! some objects.

use crate::fields::TOTALS;
use crate::snapshot::{Cache, Snapshot};
use crate::value::Value;
use std::fmt;

/// An equation that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The cache, or `None` for all together.
    pub cache: Option<String>,
    /// The left side in words.
    pub what: String,
    /// The value on the left side.
    pub found: Value,
    /// How it must stand to the right side.
    pub relation: SumRelation,
    /// The right side in words.
    pub bound_name: &'static str,
    /// The value on the right side.
    pub bound: Value,
}

/// How two sums must stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumRelation {
    /// Both are the same.
    Equal,
    /// The left is not larger.
    AtMost,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.cache.as_deref().unwrap_or("all caches");
        let must = match self.relation {
            SumRelation::Equal => "not",
            SumRelation::AtMost => "more than",
        };
        let text = |value: &Value| match value {
            Value::Exact(n) => n.to_string(),
            Value::Range(low, high) => format!("{low} to {high}"),
            Value::Text(text) => text.clone(),
        };
        let (found, bound) = (text(&self.found), text(&self.bound));
        write!(f, "{place}: {} is {found}, {must} {} ({bound})", self.what, self.bound_name)
    }
}

/// Every equation of the snapshot that does not hold.
#[must_use]
pub fn check(snapshot: &Snapshot) -> Vec<Finding> {
    use SumRelation::Equal;
    let total = |name: &str| snapshot.total(name).cloned();
    let mut findings = Vec::new();
    let mut compare = |what: &str, found, relation, bound_name, bound| {
        findings.extend(finding(None, what, found, relation, bound_name, bound));
    };
    let parts = sum(TOTALS.iter().filter(|t| t.part).map(|t| total(t.name)));
    compare("the sum of the parts", parts, Equal, "committed", total("committed"));
    for name in ["live", "parked_cpu", "parked_node", "free_partial"] {
        if total(name).is_some() {
            let bytes = |cache: &Cache| cache.value(name)?.times(cache.exact("slab_size")?);
            let caches = sum(snapshot.caches.iter().map(bytes));
            compare(&format!("{name} of all caches"), caches, Equal, "the total", total(name));
        }
    }
    snapshot.caches.iter().for_each(|cache| of_cache(cache, &mut findings));
    findings
}

fn of_cache(cache: &Cache, findings: &mut Vec<Finding>) {
    use SumRelation::{AtMost, Equal};
    let value = |name: &str| cache.value(name).cloned();
    let mut compare = |what: &str, found, relation, bound_name, bound| {
        findings.extend(finding(Some(cache), what, found, relation, bound_name, bound));
    };
    let places = ["live", "parked_cpu", "parked_node", "free_partial", "in_transit"];
    let (known, transit) = match value("in_transit") {
        Some(_) => (&places[..], Equal),
        None => (&places[..4], AtMost),
    };
    let all = sum(known.iter().map(|name| value(name)));
    compare("the sum of the places", all, transit, "total_objects", value("total_objects"));
    let objects = cache.exact("objs_per_slab").and_then(|n| cache.value("slabs")?.times(n));
    compare("slabs times objs_per_slab", objects, Equal, "total_objects", value("total_objects"));
    let bytes = cache.exact("slab_size").and_then(|n| cache.value("total_objects")?.times(n));
    compare("total_objects times slab_size", bytes, AtMost, "bytes", value("bytes"));
    let held = value("cpu_slabs").or(Some(Value::Exact(0)));
    let slabs = sum([value("partial"), value("full"), held]);
    compare("partial, full and cpu_slabs", slabs, Equal, "slabs", value("slabs"));
    compare("empty", value("empty"), AtMost, "partial", value("partial"));
    let listed = value("slabs_cpu_partial");
    compare("empties_parked", value("empties_parked"), AtMost, "slabs_cpu_partial", listed.clone());
    // A kernel counts the two one after the other.
    let held = value("empties_parked").and(value("cpu_slabs"));
    compare("slabs_cpu_partial", listed, AtMost, "cpu_slabs", held);
}

/// The sum, if all are known.
fn sum(values: impl IntoIterator<Item = Option<Value>>) -> Option<Value> {
    values.into_iter().try_fold(Value::Exact(0), |sum, value| sum.plus(&value?))
}

fn finding(
    cache: Option<&Cache>,
    what: &str,
    found: Option<Value>,
    relation: SumRelation,
    bound_name: &'static str,
    bound: Option<Value>,
) -> Option<Finding> {
    let (found, bound) = (found?, bound?);
    let ((low, high), (least, most)) = (found.bounds()?, bound.bounds()?);
    let holds = match relation {
        SumRelation::Equal => low <= most && high >= least,
        SumRelation::AtMost => low <= most,
    };
    let cache = cache.map(|c| c.name.clone());
    (!holds).then(|| Finding { cache, what: what.to_owned(), found, relation, bound_name, bound })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Source, SourceKind};
    use crate::value::Reading;

    fn sound() -> Snapshot {
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Process));
        let mut cache = Cache::new("malloc-64");
        for (name, number) in [
            ("slab_size", 64u64),
            ("objs_per_slab", 64),
            ("slabs", 2),
            ("partial", 1),
            ("full", 1),
            ("empty", 0),
            ("total_objects", 128),
            ("live", 70),
            ("parked_cpu", 4),
            ("parked_node", 0),
            ("in_transit", 0),
            ("free_partial", 54),
            ("bytes", 8192),
        ] {
            cache.set(name, number);
        }
        snapshot.caches.push(cache);
        for total in TOTALS.iter().filter(|t| t.part) {
            snapshot.totals.insert(total.name.into(), Value::Exact(0));
        }
        for (name, number) in [
            ("live", 4480),
            ("parked_cpu", 256),
            ("free_partial", 3456),
            ("free_runs", 4096),
            ("returned", 4096),
            ("committed", 12288),
        ] {
            snapshot.totals.insert(name.into(), Value::Exact(number));
        }
        snapshot
    }

    #[test]
    fn a_sound_snapshot_has_no_finding() {
        assert_eq!(check(&sound()), []);
    }

    #[test]
    fn each_part_counts_to_the_byte() {
        for total in TOTALS.iter().filter(|t| t.part) {
            let mut snapshot = sound();
            let more = snapshot.totals[total.name].plus(&Value::Exact(1)).unwrap();
            snapshot.totals.insert(total.name.into(), more);
            let findings = check(&snapshot);
            assert_eq!(
                findings[0].to_string(),
                "all caches: the sum of the parts is 12289, not committed (12288)",
                "{}",
                total.name
            );
        }
    }

    #[test]
    fn each_equation_of_a_cache_is_asked() {
        for (name, number, what) in [
            ("live", 71, "the sum of the places"),
            ("slabs", 3, "slabs times objs_per_slab"),
            ("bytes", 8191, "total_objects times slab_size"),
            ("full", 2, "partial, full and cpu_slabs"),
            ("cpu_slabs", 1, "partial, full and cpu_slabs"),
            ("empty", 2, "empty"),
        ] {
            let mut snapshot = sound();
            snapshot.caches[0].set(name, Reading::from(number));
            let findings = check(&snapshot);
            assert!(findings.iter().any(|f| f.what == what), "{name}: {findings:?}");
        }
    }

    #[test]
    fn bounds_agree_where_some_choice_of_them_does() {
        let mut snapshot = sound();
        snapshot.caches[0].set("live", Value::Range(60, 70));
        snapshot.caches[0].set("in_transit", Value::Range(0, 10));
        snapshot.totals.insert("live".into(), Value::Range(3840, 4480));
        assert_eq!(check(&snapshot), []);
        snapshot.caches[0].set("live", Value::Range(40, 59));
        let texts: Vec<_> = check(&snapshot).iter().map(Finding::to_string).collect();
        assert_eq!(
            texts,
            [
                "all caches: live of all caches is 2560 to 3776, not the total (3840 to 4480)",
                "malloc-64: the sum of the places is 98 to 127, not total_objects (128)",
            ]
        );
    }

    #[test]
    fn what_is_unknown_is_not_compared() {
        let mut snapshot = sound();
        snapshot.totals.remove("metadata");
        snapshot.totals.insert("committed".into(), Value::Exact(1));
        snapshot.caches[0].readings.remove("in_transit");
        snapshot.caches[0].set("live", 60u64);
        snapshot.totals.insert("live".into(), Value::Exact(60 * 64));
        assert_eq!(check(&snapshot), []);
    }
}
