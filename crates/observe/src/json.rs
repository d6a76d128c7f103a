//! The JSON view: `{"source", "caches": [{"name", ...}], "totals"}`.
//!
//! Every other key is a name of `abi`'s tables and every number is as it was
//! sampled; what is unknown is `null`. Keys are added, never renamed.

use crate::ended::{Cache, Counters, Numbers, Snapshot};
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use std::io::{self, Write};

/// Writes the snapshot, indented, with a line feed at the end.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, snapshot: &Snapshot) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, snapshot)?;
    writeln!(out)
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Snapshot", 3)?;
        object.serialize_field("source", &Source { pid: self.pid })?;
        object.serialize_field("caches", &self.caches)?;
        object.serialize_field("totals", &self.yard)?;
        object.end()
    }
}

#[derive(serde::Serialize)]
struct Source {
    pid: Option<u32>,
}

impl Serialize for Cache {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("name", &self.name)?;
        entries(&mut object, &self.numbers)?;
        object.end()
    }
}

impl<T: Counters> Serialize for Numbers<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        entries(&mut object, self)?;
        object.end()
    }
}

fn entries<M: SerializeMap, T: Counters>(
    object: &mut M,
    numbers: &Numbers<T>,
) -> Result<(), M::Error> {
    numbers.iter().try_for_each(|n| object.serialize_entry(n.name, &n.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use slabyard_abi::counters::{CACHE_FIELDS, YARD_FIELDS};

    fn shown(snapshot: &Snapshot) -> Value {
        let mut out = Vec::new();
        write(&mut out, snapshot).unwrap();
        assert_eq!(out.last(), Some(&b'\n'));
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn keys_are_the_names_of_the_tables_and_unknown_is_null() {
        let mut cache = Cache { name: "malloc-64".into(), ..Default::default() };
        cache.numbers.set("live", u64::MAX);
        let mut snapshot = Snapshot { pid: Some(7), caches: vec![cache], ..Default::default() };
        snapshot.yard.set("committed", 4096);
        let value = shown(&snapshot);

        assert_eq!(value["source"], json!({ "pid": 7 }));
        let cache = value["caches"][0].as_object().unwrap();
        assert_eq!(cache["name"], "malloc-64");
        assert_eq!(cache["live"], u64::MAX);
        assert_eq!(cache.values().filter(|v| v.is_null()).count(), CACHE_FIELDS.len() - 1);
        assert!(CACHE_FIELDS.iter().all(|f| cache.contains_key(f.name)));

        let totals = value["totals"].as_object().unwrap();
        assert_eq!(totals["committed"], 4096);
        assert_eq!(totals.len(), YARD_FIELDS.len());
        assert!(YARD_FIELDS.iter().all(|f| totals.contains_key(f.name)));
    }

    #[test]
    fn an_empty_snapshot_is_valid_json() {
        let value = shown(&Snapshot::default());
        assert_eq!(value["source"]["pid"], Value::Null);
        assert_eq!(value["caches"], json!([]));
    }
}
