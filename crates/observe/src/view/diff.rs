//! The differences between two snapshots as a table: changed numbers as signed differences,
//! attributes and tunables as old and new value.

use super::grid::{Grid, Weight};
use super::json::{self, ValueJson};
use super::{Style, Units, cell};
use crate::delta::{CacheDelta, Change, Delta, Difference, Presence};
use crate::fields::{FIELDS, Field, FieldKind, Unit};
use crate::snapshot::{self, Snapshot, Source};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::io::{self, Write};

/// Which numbers are columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// Those of the plain list.
    #[default]
    Plain,
    /// All that are different.
    All,
}

/// Writes the table.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, delta: &Delta, columns: Columns, style: Style) -> io::Result<()> {
    for note in &delta.notes {
        writeln!(out, "note: {}", cell::clean(note))?;
    }
    if delta.is_empty() {
        return writeln!(out, "no difference");
    }
    if !delta.caches.is_empty() {
        let columns = fields(delta, columns);
        caches(out, delta, &columns, style)?;
        let hidden = hidden(delta, &columns);
        if !hidden.is_empty() {
            writeln!(out, "different as well, and shown by --all: {}", hidden.join(", "))?;
        }
        settings(out, delta, style)?;
    }
    totals(out, delta, style)
}

/// Columns: each of the permitted ones that changed in a cache.
fn fields(delta: &Delta, columns: Columns) -> Vec<&'static Field> {
    let moved = |f: &&Field| delta.caches.iter().any(|c| c.change(f.name).is_some_and(moves));
    let moved: Vec<&Field> = FIELDS.iter().filter(moved).collect();
    let plain: Vec<&Field> = moved.iter().filter(|f| f.column).copied().collect();
    // What was asked for by name may be no column of the plain list.
    if columns == Columns::All || plain.is_empty() { moved } else { plain }
}

fn moves(change: &Change) -> bool {
    matches!(change.kind, FieldKind::Gauge | FieldKind::Counter)
}

fn hidden(delta: &Delta, columns: &[&Field]) -> Vec<&'static str> {
    let shown = |f: &&Field| columns.iter().any(|c| c.name == f.name);
    let moved = |f: &&Field| delta.caches.iter().any(|c| c.change(f.name).is_some_and(moves));
    FIELDS.iter().filter(moved).filter(|f| !shown(f)).map(|f| f.name).collect()
}

fn caches(
    out: &mut dyn Write,
    delta: &Delta,
    columns: &[&'static Field],
    style: Style,
) -> io::Result<()> {
    let mut grid = Grid::new(std::iter::once("name").chain(columns.iter().map(|c| c.name)));
    for cache in &delta.caches {
        let mark = match cache.presence {
            Presence::Both => "",
            Presence::Came => " (came)",
            Presence::Went => " (went)",
        };
        let cells: Vec<String> =
            columns.iter().map(|c| moved(cache.change(c.name), style.units)).collect();
        if cache.presence == Presence::Both && cells.iter().all(String::is_empty) {
            continue;
        }
        let name = format!("{}{mark}", cell::clean(&cache.name));
        grid.push(Weight::Row, std::iter::once(name).chain(cells));
    }
    if columns.is_empty() && delta.caches.iter().all(|c| c.presence == Presence::Both) {
        return Ok(());
    }
    grid.write(out, style.colour)
}

/// A difference with its sign; nothing where there is none.
fn moved(change: Option<&Change>, units: Units) -> String {
    let Some((change, difference)) = change.and_then(|c| Some((c, c.difference()?))) else {
        return String::new();
    };
    let number = |n: i128| {
        let size =
            cell::number(u64::try_from(n.unsigned_abs()).unwrap_or(u64::MAX), change.unit, units);
        let sign = match n.signum() {
            1 => "+",
            -1 => "-",
            _ => "",
        };
        format!("{sign}{size}")
    };
    let Difference { low, high } = difference;
    if low == high { number(low) } else { format!("{}..{}", number(low), number(high)) }
}

/// Attributes and tunables, one a line.
fn settings(out: &mut dyn Write, delta: &Delta, style: Style) -> io::Result<()> {
    let in_both = |c: &&CacheDelta| c.presence == Presence::Both;
    let mut first = true;
    for cache in delta.caches.iter().filter(in_both) {
        for change in cache.changes.iter().filter(|c| !moves(c)) {
            if std::mem::take(&mut first) {
                writeln!(out)?;
            }
            let [old, new] = [&change.old, &change.new]
                .map(|v| cell::value(v.as_ref(), change.unit, style.units));
            writeln!(out, "{}: {} {old} -> {new}", cell::clean(&cache.name), change.name)?;
        }
    }
    Ok(())
}

fn totals(out: &mut dyn Write, delta: &Delta, style: Style) -> io::Result<()> {
    if delta.totals.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(["total", "old", "new", "difference"]);
    for change in &delta.totals {
        let [old, new] =
            [&change.old, &change.new].map(|v| cell::value(v.as_ref(), change.unit, style.units));
        let difference = moved(Some(change), style.units);
        grid.push(Weight::Row, [change.name.to_owned(), old, new, difference]);
    }
    if !delta.caches.is_empty() {
        writeln!(out)?;
    }
    grid.write(out, style.colour)
}

/// Writes JSON: `{"equal", "elapsed_ms", "old", "new", "notes", "caches", "totals"}`. A
/// cache has `name`, `state` (`changed`, `came` or `went`) and `fields`; each of these
/// and each total is `{"old", "new", "difference"}`.
///
/// # Errors
/// Those of `out`.
pub fn write_json(
    out: &mut dyn Write,
    old: &Snapshot,
    new: &Snapshot,
    delta: &Delta,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Shape<'a> {
        equal: bool,
        elapsed_ms: i64,
        old: Look<'a>,
        new: Look<'a>,
        notes: &'a [String],
        caches: Vec<CacheShape<'a>>,
        totals: Changes<'a>,
    }
    #[derive(Serialize)]
    struct Look<'a> {
        source: &'a Source,
        taken_at: String,
    }
    #[derive(Serialize)]
    struct CacheShape<'a> {
        name: &'a str,
        state: &'static str,
        fields: Changes<'a>,
    }
    fn look(snapshot: &Snapshot) -> Look<'_> {
        Look { source: &snapshot.source, taken_at: snapshot::time(snapshot.taken_at_ms) }
    }
    let caches = delta.caches.iter().map(|cache| CacheShape {
        name: &cache.name,
        state: match cache.presence {
            Presence::Both => "changed",
            Presence::Came => "came",
            Presence::Went => "went",
        },
        fields: Changes(&cache.changes),
    });
    let shape = Shape {
        equal: delta.is_empty(),
        elapsed_ms: delta.elapsed_ms,
        old: look(old),
        new: look(new),
        notes: &delta.notes,
        caches: caches.collect(),
        totals: Changes(&delta.totals),
    };
    json::line(out, &shape)
}

struct Changes<'a>(&'a [Change]);

impl Serialize for Changes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shape<'a> {
            old: ValueJson<'a>,
            new: ValueJson<'a>,
            difference: Signed,
        }
        let mut object = serializer.serialize_map(Some(self.0.len()))?;
        for change in self.0 {
            let shape = Shape {
                old: ValueJson(change.old.as_ref(), change.unit),
                new: ValueJson(change.new.as_ref(), change.unit),
                difference: Signed(change.difference(), change.unit),
            };
            object.serialize_entry(change.name, &shape)?;
        }
        object.end()
    }
}

/// A number, `[low, high]`, or `null`; a share is a share of 1.
struct Signed(Option<Difference>, Unit);

impl Serialize for Signed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(Difference { low, high }) = self.0 else { return serializer.serialize_none() };
        #[allow(clippy::cast_precision_loss, reason = "four digits of a share")]
        let share = |n: i128| n as f64 / 10_000.0;
        match (self.1, low == high) {
            (Unit::Share, true) => share(low).serialize(serializer),
            (Unit::Share, false) => [share(low), share(high)].serialize(serializer),
            (_, true) => low.serialize(serializer),
            (_, false) => [low, high].serialize(serializer),
        }
    }
}
