//! One cache, with everything known about it.
//!
//! [`places`] shows where its bytes are, [`counts`] its counters, [`cpu_partial`] its CPU partial
//! lists, [`fullness`] how full its slabs are, [`traces`] who allocated its objects. Unknown
//! numbers are left out here, unlike in the list.

pub mod counts;
pub mod cpu_partial;
pub mod fullness;
pub mod places;
pub mod sheaves;
pub mod traces;

use super::grid::{Grid, Weight, bold};
use super::json::{CacheShape, Head};
use super::{Style, Units, cell, json, missing};
use crate::drains::{self, DrainBucket};
use crate::fields::{self, COUNTER_RATIOS, FIELDS, Field, FieldKind, Unit, field};
use crate::snapshot::{Cache, Snapshot};
use crate::value::{Reading, Value};
use fullness::{Fullness, SlabLines};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Writes all of it.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    cache: &Cache,
    slabs: SlabLines,
    style: Style,
) -> io::Result<()> {
    title(out, snapshot, cache, style)?;
    let numbers =
        |kind: FieldKind| FIELDS.iter().filter(move |f| f.kind == kind && f.unit != Unit::Flag);
    section(out, "geometry", snapshot, cache, style, numbers(FieldKind::Attribute))?;
    flags(out, snapshot, cache)?;
    places::write(out, snapshot, cache, style)?;
    let of_slabs = FIELDS.iter().filter(|f| {
        f.kind == FieldKind::Gauge
            && matches!(f.unit, Unit::Slabs | Unit::Sheaves | Unit::Share)
            && !COUNTER_RATIOS.contains(&f.name)
    });
    section(out, "slabs", snapshot, cache, style, of_slabs)?;
    section(out, "tunables", snapshot, cache, style, numbers(FieldKind::Tunable))?;
    cpu_partial::line(out, cache)?;
    counts::write(out, snapshot, cache, style)?;
    others(out, cache, style)?;
    parts(out, "node", cache, |r| &r.nodes, style)?;
    parts(out, "CPU", cache, |r| &r.cpus, style)?;
    fullness::write(out, snapshot, cache, slabs, style)?;
    missing::write(out, snapshot)
}

/// Writes what it counted, under its name.
///
/// # Errors
/// Those of `out`.
pub fn write_counts(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    cache: &Cache,
    style: Style,
) -> io::Result<()> {
    title(out, snapshot, cache, style)?;
    counts::write(out, snapshot, cache, style)
}

/// Writes JSON: `{"source", "taken_at", ..., "cache": {...}}`, the cache as in a list,
/// with `nodes`, `cpus`, `hidden`, `fullness`, `partial_slabs` and `drains` besides.
///
/// # Errors
/// Those of `out`.
pub fn write_json(out: &mut dyn Write, snapshot: &Snapshot, cache: &Cache) -> io::Result<()> {
    #[derive(Serialize)]
    struct Shape<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        cache: WholeJson<'a>,
    }
    #[derive(Serialize)]
    struct WholeJson<'a> {
        #[serde(flatten)]
        cache: CacheShape<'a>,
        nodes: PartsJson<'a>,
        cpus: PartsJson<'a>,
        hidden: Option<String>,
        fullness: Option<Fullness>,
        partial_slabs: Option<Vec<fullness::Line>>,
        drains: Vec<DrainBucket>,
    }
    let whole = WholeJson {
        cache: CacheShape { snapshot, cache },
        nodes: PartsJson(cache, |r| &r.nodes),
        cpus: PartsJson(cache, |r| &r.cpus),
        hidden: reason(snapshot, cache),
        fullness: Fullness::of(cache),
        partial_slabs: fullness::lines(snapshot, cache),
        drains: drains::of(cache),
    };
    json::line(out, &Shape { head: Head::of(snapshot), cache: whole })
}

fn title(out: &mut dyn Write, snapshot: &Snapshot, cache: &Cache, style: Style) -> io::Result<()> {
    writeln!(out, "{}", bold(&cell::clean(&cache.name), style.colour))?;
    if let Some(id) = &cache.id {
        writeln!(out, "the kernel's name of it is {}", cell::clean(id))?;
    }
    if !cache.aliases.is_empty() {
        let names: Vec<String> = cache.aliases.iter().map(|name| cell::clean(name)).collect();
        writeln!(out, "merged with it: {}", names.join(", "))?;
    }
    if let Some(reason) = reason(snapshot, cache) {
        writeln!(out, "live is at least active less what may be parked: {}", cell::clean(&reason))?;
    }
    Ok(())
}

/// Why what is live is not known exactly.
fn reason(snapshot: &Snapshot, cache: &Cache) -> Option<String> {
    let live = field("live").and_then(|f| fields::value(f, snapshot, cache))?;
    let kernel = snapshot.source.kind == crate::snapshot::SourceKind::Kernel;
    if !kernel || live.exact().is_some() {
        return None;
    }
    crate::hidden::objects(snapshot, cache).map(|hidden| hidden.reason)
}

/// Fields that are known: name, value, help.
fn section(
    out: &mut dyn Write,
    heading: &str,
    snapshot: &Snapshot,
    cache: &Cache,
    style: Style,
    fields: impl Iterator<Item = &'static Field>,
) -> io::Result<()> {
    let mut grid = Grid::new([heading]).words_from(2);
    let mut known = false;
    for field in fields {
        let Some(value) = fields::value(field, snapshot, cache).filter(|v| !is_nothing(v)) else {
            continue;
        };
        known = true;
        let value = cell::value(Some(&value), field.unit, style.units);
        // The table stays narrow whatever a constructor is called.
        let row = match field.unit {
            Unit::Text => [field.name.to_owned(), String::new(), value],
            _ => [field.name.to_owned(), value, field.help.to_owned()],
        };
        grid.push(Weight::Row, row);
    }
    if known {
        writeln!(out)?;
        grid.write(out, style.colour)?;
    }
    Ok(())
}

/// Words that say nothing, such as the constructor of a cache without one.
fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Text(text) if text.trim().is_empty())
}

fn flags(out: &mut dyn Write, snapshot: &Snapshot, cache: &Cache) -> io::Result<()> {
    let set = |f: &&Field| fields::value(f, snapshot, cache).and_then(|v| v.exact()) == Some(1);
    let flags = FIELDS.iter().filter(|f| f.unit == Unit::Flag);
    let names: Vec<&str> = flags.filter(set).map(|f| f.name).collect();
    if names.is_empty() { Ok(()) } else { writeln!(out, "flags: {}", names.join(", ")) }
}

/// Attributes of a kernel that this version does not know.
fn others(out: &mut dyn Write, cache: &Cache, style: Style) -> io::Result<()> {
    let is_unknown = |name: &str| field(name).is_none() && !drains::is_name(name);
    let mut unknown = cache.readings.iter().filter(|(name, _)| is_unknown(name)).peekable();
    if unknown.peek().is_none() {
        return Ok(());
    }
    let mut grid = Grid::new(["not known to this version"]);
    for (name, reading) in unknown {
        let value = cell::value(Some(&reading.value), Unit::Count, style.units);
        grid.push(Weight::Row, [cell::clean(name), value]);
    }
    writeln!(out)?;
    grid.write(out, style.colour)
}

type GetParts = fn(&Reading) -> &Vec<(u32, Value)>;

/// A line for each node or CPU that has a part of something.
fn parts(
    out: &mut dyn Write,
    of: &str,
    cache: &Cache,
    get: GetParts,
    style: Style,
) -> io::Result<()> {
    // Those of counters stand beside their sums.
    let fields: Vec<&Field> = FIELDS
        .iter()
        .filter(|f| f.kind != FieldKind::Counter && has_parts(f, cache, get))
        .collect();
    if fields.is_empty() {
        return Ok(());
    }
    let heading = std::iter::once(of).chain(fields.iter().map(|f| f.name));
    let mut grid = Grid::new(heading);
    let has_any = |number| {
        fields.iter().any(|f| cache.reading(f.name).is_some_and(|r| part(get(r), number).is_some()))
    };
    for number in numbers(cache, get).into_iter().filter(|number| has_any(*number)) {
        let cells = fields.iter().map(|f| {
            let value = cache.reading(f.name).and_then(|r| part(get(r), number));
            cell::value(value, f.unit, Units::Plain)
        });
        grid.push(Weight::Row, std::iter::once(number.to_string()).chain(cells));
    }
    writeln!(out)?;
    grid.write(out, style.colour)
}

fn has_parts(field: &Field, cache: &Cache, get: GetParts) -> bool {
    cache.reading(field.name).is_some_and(|r| !get(r).is_empty())
}

fn numbers(cache: &Cache, get: GetParts) -> BTreeSet<u32> {
    cache.readings.values().flat_map(|r| get(r).iter().map(|(number, _)| *number)).collect()
}

fn part(parts: &[(u32, Value)], number: u32) -> Option<&Value> {
    parts.iter().find(|(n, _)| *n == number).map(|(_, value)| value)
}

/// `{"0": {"slabs": 3, ...}, ...}`.
struct PartsJson<'a>(&'a Cache, GetParts);

impl Serialize for PartsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let PartsJson(cache, get) = self;
        let mut object = serializer.serialize_map(None)?;
        for number in numbers(cache, *get) {
            let all = cache.readings.iter();
            let of: BTreeMap<&str, &Value> =
                all.filter_map(|(name, r)| Some((name.as_str(), part(get(r), number)?))).collect();
            object.serialize_entry(&number.to_string(), &of)?;
        }
        object.end()
    }
}
