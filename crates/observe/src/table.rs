//! The table view: one line a cache, then where the memory is.
//!
//! Neighbours: [`crate::ended`] is what it shows; its caller knows whether
//! the output is a terminal and chooses the [`Style`].
//! Invariants: caches are sorted by bytes, then by name; a cache is left out
//! only if it surely has no slab, and a line says how many are; totals cover
//! what is left out; `-` is unknown.

use crate::ended::{Cache, Snapshot};
use slabyard_abi::counters::Unit;
use std::cmp::Reverse;
use std::io::{self, Write};

/// How numbers look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// `1.5 MiB`, `12.3%`.
    Human,
    /// Bytes and shares of 1, for programs.
    Plain,
}

/// Whether headings stand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// With escape sequences.
    Yes,
    /// Plain text.
    No,
}

/// The look of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Numbers.
    pub units: Units,
    /// Headings.
    pub colour: Colour,
}

/// Writes the whole view.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, snapshot: &Snapshot, style: Style) -> io::Result<()> {
    let (shown, hidden) = caches(snapshot);
    let mut grid = Grid::new(["name", "live", "parked", "slabs", "order", "bytes", "used"]);
    shown.iter().for_each(|c| grid.push(Weight::Row, cache_row(c, style.units)));
    grid.push(Weight::Total, total_row(snapshot, style.units));
    grid.write(out, style.colour)?;
    match hidden {
        0 => {}
        1 => writeln!(out, "1 cache without slabs is not shown")?,
        n => writeln!(out, "{n} caches without slabs are not shown")?,
    }
    writeln!(out)?;
    memory(snapshot, style.units).write(out, style.colour)?;
    writeln!(out)?;
    writeln!(out, "{}", counts(snapshot))
}

/// The caches to show, largest first, and how many are left out.
#[must_use]
pub fn caches(snapshot: &Snapshot) -> (Vec<&Cache>, usize) {
    let mut shown: Vec<&Cache> =
        snapshot.caches.iter().filter(|c| c.numbers.get("slabs") != Some(0)).collect();
    shown.sort_by_key(|c| (Reverse(c.numbers.get("bytes")), &c.name));
    let hidden = snapshot.caches.len() - shown.len();
    (shown, hidden)
}

fn cache_row(cache: &Cache, units: Units) -> [String; 7] {
    let number = |name| count(cache.numbers.get(name));
    [
        cache.name.clone(),
        number("live"),
        count(cache.parked()),
        number("slabs"),
        number("order"),
        bytes(cache.numbers.get("bytes"), units),
        share(cache.used(), units),
    ]
}

fn total_row(snapshot: &Snapshot, units: Units) -> [String; 7] {
    let sum = |read: fn(&Cache) -> Option<u64>| {
        snapshot.caches.iter().try_fold(0u64, |sum, c| sum.checked_add(read(c)?))
    };
    let all = sum(|c| c.numbers.get("bytes"));
    [
        "total".into(),
        count(sum(|c| c.numbers.get("live"))),
        count(sum(Cache::parked)),
        count(sum(|c| c.numbers.get("slabs"))),
        String::new(),
        bytes(all, units),
        share(ratio(sum(Cache::live_bytes), all), units),
    ]
}

/// The parts, what they add up to, and what stands beside.
fn memory(snapshot: &Snapshot, units: Units) -> Grid<3> {
    let mut grid = Grid::new(["memory", "bytes", "share"]);
    let committed = snapshot.yard.get("committed");
    let in_bytes = || snapshot.yard.iter().filter(|n| n.unit == Unit::Bytes);
    let row = |name: &str, value, part| [name.to_owned(), bytes(value, units), share(part, units)];
    for part in in_bytes().filter(|n| n.part) {
        grid.push(Weight::Row, row(part.name, part.value, ratio(part.value, committed)));
    }
    for sum in in_bytes().filter(|n| n.name == "committed") {
        grid.push(Weight::Total, row(sum.name, sum.value, ratio(sum.value, committed)));
    }
    // Beside the sum, not in it: a share would suggest that it adds up.
    for other in in_bytes().filter(|n| !n.part && n.name != "committed") {
        let [name, value, _] = row(other.name, other.value, None);
        grid.push(Weight::Row, [name, value, String::new()]);
    }
    grid
}

/// The yard's numbers that are no bytes, on one line.
fn counts(snapshot: &Snapshot) -> String {
    let pairs = snapshot.yard.iter().filter(|n| n.unit != Unit::Bytes);
    pairs.map(|n| format!("{} {}", n.name, count(n.value))).collect::<Vec<_>>().join(", ")
}

#[allow(clippy::cast_precision_loss, reason = "a share for the screen")]
fn ratio(part: Option<u64>, whole: Option<u64>) -> Option<f64> {
    Some(part? as f64 / whole.filter(|w| *w > 0)? as f64)
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(|| "-".into(), |n| n.to_string())
}

fn share(value: Option<f64>, units: Units) -> String {
    match (value, units) {
        (None, _) => "-".into(),
        (Some(share), Units::Human) => format!("{:.1}%", share * 100.0),
        (Some(share), Units::Plain) => format!("{share:.4}"),
    }
}

fn bytes(value: Option<u64>, units: Units) -> String {
    match (value, units) {
        (None, _) => "-".into(),
        (Some(n), Units::Plain) => n.to_string(),
        (Some(n), Units::Human) => human(n),
    }
}

/// A number of bytes with one decimal and a binary unit.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "one decimal for the screen")]
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        // What would round to 1024.0 belongs to the next unit.
        if value < 1023.95 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Row,
    Total,
}

/// Columns aligned by their widest cell, the first to the left.
struct Grid<const N: usize> {
    heading: [&'static str; N],
    rows: Vec<(Weight, [String; N])>,
}

impl<const N: usize> Grid<N> {
    fn new(heading: [&'static str; N]) -> Self {
        Grid { heading, rows: Vec::new() }
    }

    fn push(&mut self, weight: Weight, row: [String; N]) {
        self.rows.push((weight, row));
    }

    fn write(&self, out: &mut dyn Write, colour: Colour) -> io::Result<()> {
        let heading = self.heading.map(str::to_owned);
        let lines = std::iter::once((Weight::Total, &heading))
            .chain(self.rows.iter().map(|(weight, row)| (*weight, row)));
        for (weight, row) in lines {
            let line = self.line(row);
            if weight == Weight::Total && colour == Colour::Yes {
                let bold = anstyle::Style::new().bold();
                writeln!(out, "{bold}{line}{bold:#}")?;
            } else {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    fn line(&self, row: &[String; N]) -> String {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = self.width(column);
            if column == 0 {
                line += &format!("{cell:width$}");
            } else {
                line += &format!("  {cell:>width$}");
            }
        }
        line.truncate(line.trim_end().len());
        line
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|(_, row)| row[column].chars().count());
        cells.chain([self.heading[column].len()]).max().unwrap_or(0)
    }
}
