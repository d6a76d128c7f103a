//! The JSON output.
//!
//! A list is `{"source", "taken_at", "took_ns", "machine", "caches": [...], "totals", "missing"}`,
//! and `incidents` if a kernel's log told some.
//! A cache has `name`, `id`, `aliases` (its other names; the field `aliases` is only their count)
//! and every other name of [`crate::fields::FIELDS`]. A value is a number, `[low, high]`, a string,
//! or `null` where it is unknown; a share is a fraction of 1. Keys are added, never renamed.

use super::cell::share;
use crate::fields::{self, FIELDS, TOTALS, Unit, field};
use crate::incident::Incident;
use crate::snapshot::{self, Cache, Machine, Missing, Snapshot, Source};
use crate::value::Value;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::io::{self, Write};

/// Writes a list of these caches, indented, with a line feed at the end.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, snapshot: &Snapshot, caches: &[&Cache]) -> io::Result<()> {
    let caches = caches.iter().map(|cache| CacheShape { snapshot, cache }).collect();
    let (head, totals) = (Head::of(snapshot), Totals(snapshot));
    line(out, &ListShape { head, caches, totals, incidents: &snapshot.incidents })
}

/// Writes what is shown of each of some caches: `{"source", "taken_at", ..., "caches": [...]}`.
pub(super) fn of_caches(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    caches: impl Iterator<Item: Serialize>,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Shape<'a, C> {
        #[serde(flatten)]
        head: Head<'a>,
        caches: Vec<C>,
    }
    line(out, &Shape { head: Head::of(snapshot), caches: caches.collect() })
}

/// Writes a value, indented, with a line feed at the end.
pub(super) fn line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Where a snapshot is from.
#[derive(Serialize)]
pub(super) struct Head<'a> {
    source: &'a Source,
    taken_at: String,
    took_ns: Option<u64>,
    machine: Machine,
    missing: &'a [Missing],
}

impl<'a> Head<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Head<'a> {
        Head {
            source: &snapshot.source,
            taken_at: snapshot::time(snapshot.taken_at_ms),
            took_ns: snapshot.took_ns,
            machine: snapshot.machine,
            missing: &snapshot.missing,
        }
    }
}

#[derive(Serialize)]
struct ListShape<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    caches: Vec<CacheShape<'a>>,
    totals: Totals<'a>,
    #[serde(skip_serializing_if = "<[Incident]>::is_empty")]
    incidents: &'a [Incident],
}

/// A cache's names and fields.
pub(super) struct CacheShape<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) cache: &'a Cache,
}

impl Serialize for CacheShape<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CacheShape { snapshot, cache } = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("name", &cache.name)?;
        object.serialize_entry("id", &cache.id)?;
        object.serialize_entry("aliases", &cache.aliases)?;
        for field in FIELDS.iter().filter(|f| f.name != "aliases") {
            let value = fields::value(field, snapshot, cache);
            object.serialize_entry(field.name, &ValueJson(value.as_ref(), field.unit))?;
        }
        // Attributes of a kernel that this version does not know.
        let known = |name: &str| field(name).is_some() || matches!(name, "name" | "id");
        for (name, reading) in cache.readings.iter().filter(|(name, _)| !known(name)) {
            object.serialize_entry(name, &reading.value)?;
        }
        object.end()
    }
}

struct Totals<'a>(&'a Snapshot);

impl Serialize for Totals<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        for total in TOTALS {
            let value = self.0.total(total.name);
            object.serialize_entry(total.name, &ValueJson(value, total.unit))?;
        }
        object.end()
    }
}

/// A value by its unit, as every output of JSON has it.
pub struct ValueJson<'a>(pub Option<&'a Value>, pub Unit);

impl Serialize for ValueJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.0, self.1) {
            (Some(Value::Exact(n)), Unit::Share) => share(*n).serialize(serializer),
            (Some(Value::Exact(n)), Unit::Hundredths) => {
                share(n.saturating_mul(100)).serialize(serializer)
            }
            (Some(Value::Range(low, high)), Unit::Share) => {
                [share(*low), share(*high)].serialize(serializer)
            }
            (value, _) => value.serialize(serializer),
        }
    }
}
