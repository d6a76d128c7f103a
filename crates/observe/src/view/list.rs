//! Prints the list: one line per cache, their sum, then the uses of memory.
//!
//! Invariants: memory totals cover all caches, whichever are picked; the sum below the lines covers
//! the caches that the patterns pick; a note says what is left out.

use super::cell;
use super::grid::{Grid, Weight};
use super::pick::{CacheFilter, FilteredCaches, Key};
use super::{Style, Units, incidents, memory, missing};
use crate::fields::{self, COUNTER_RATIOS, FIELDS, Field, FieldKind, Unit};
use crate::snapshot::{Cache, Snapshot};
use crate::value::Value;
use std::io::{self, Write};

/// Which fields are columns.
#[derive(Clone, Default)]
pub enum Columns {
    /// The fields whose `column` says so.
    #[default]
    Plain,
    /// Each that a cache shown has.
    All,
    /// These fields, in this order.
    These(Vec<&'static Field>),
}

/// Whether there is more than the lines of caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListContext {
    /// Heading, sum, memory and notes.
    #[default]
    Shown,
    /// Lines of caches alone.
    Hidden,
}

/// Which caches and fields a list has.
#[derive(Clone, Default)]
pub struct Options {
    /// Which caches are listed, and in which order.
    pub pick: CacheFilter,
    /// Which fields are columns.
    pub columns: Columns,
    /// Whether heading, sum and memory are shown.
    pub around: ListContext,
}

/// Columns in the order in which they give way on a narrow terminal.
const GIVE_WAY: &[&str] =
    &["objs_per_slab", "object_size", "partial", "total_objects", "order", "slabs"];

/// Writes a list as a table.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    options: &Options,
    style: Style,
) -> io::Result<()> {
    let picked = options.pick.caches(snapshot);
    let all = options.columns.fields(snapshot, &picked.caches);
    let without = |left_out: &[&str]| {
        let columns: Vec<&'static Field> =
            all.iter().filter(|c| !left_out.contains(&c.name)).copied().collect();
        grid(snapshot, &picked, &columns, options, style.units)
    };
    let left_out = options.left_out(style.width, |left_out| without(left_out).width());
    let grid = without(&left_out);
    grid.write(out, style.colour)?;
    if options.around == ListContext::Hidden {
        return Ok(());
    }
    merged(out, snapshot, &picked)?;
    notes(out, &picked, &left_out)?;
    memory::write(out, snapshot, style)?;
    incidents::write(out, snapshot)?;
    missing::write(out, snapshot)
}

impl Options {
    /// What is left out on a narrow terminal: the least important columns, until the rest fits,
    /// less those that fit all the same; never one that was requested by name.
    fn left_out(
        &self,
        width: Option<usize>,
        width_without: impl Fn(&[&'static str]) -> usize,
    ) -> Vec<&'static str> {
        let fits = |left_out: &[&'static str]| width.is_none_or(|w| width_without(left_out) <= w);
        let sorts = |name: &str| matches!(self.pick.key, Some(Key::Field(f)) if f.name == name);
        let plain = matches!(self.columns, Columns::Plain);
        let mut left_out = Vec::new();
        for name in GIVE_WAY.iter().copied().filter(|name| plain && !sorts(name)) {
            if fits(&left_out) {
                break;
            }
            left_out.push(name);
        }
        for name in left_out.clone().into_iter().rev().skip(1) {
            let rest: Vec<_> = left_out.iter().copied().filter(|n| *n != name).collect();
            if fits(&rest) {
                left_out = rest;
            }
        }
        left_out
    }
}

impl Columns {
    /// The fields, in their order.
    #[must_use]
    pub fn fields(&self, snapshot: &Snapshot, caches: &[&Cache]) -> Vec<&'static Field> {
        match self {
            Columns::Plain => FIELDS.iter().filter(|f| f.column).collect(),
            Columns::These(fields) => fields.clone(),
            Columns::All => {
                let has =
                    |f: &&Field| caches.iter().any(|c| fields::value(f, snapshot, c).is_some());
                FIELDS.iter().filter(has).collect()
            }
        }
    }
}

fn grid(
    snapshot: &Snapshot,
    picked: &FilteredCaches<'_>,
    columns: &[&'static Field],
    options: &Options,
    units: Units,
) -> Grid {
    let mut grid = match options.around {
        ListContext::Shown => {
            Grid::new(std::iter::once("name").chain(columns.iter().map(|c| c.name)))
        }
        ListContext::Hidden => Grid::bare(),
    };
    for cache in &picked.caches {
        let cells = columns.iter().map(|c| {
            let value = fields::value(c, snapshot, cache);
            cell::value(value.as_ref(), c.unit, units)
        });
        grid.push(Weight::Row, std::iter::once(cell::clean(&cache.name)).chain(cells));
    }
    if options.around == ListContext::Shown {
        let all: Vec<&Cache> =
            snapshot.caches.iter().filter(|cache| options.pick.takes(cache)).collect();
        let cells = columns.iter().map(|c| match sum(snapshot, &all, c) {
            Sum::None => String::new(),
            Sum::Of(value) => cell::value(value.as_ref(), c.unit, units),
        });
        grid.push(Weight::Total, std::iter::once("total".to_owned()).chain(cells));
    }
    grid
}

enum Sum {
    /// The field does not add up.
    None,
    /// The sum, where it is known.
    Of(Option<Value>),
}

fn sum(snapshot: &Snapshot, caches: &[&Cache], field: &Field) -> Sum {
    let of = |get: &dyn Fn(&Cache) -> Option<Value>| {
        caches.iter().try_fold(Value::Exact(0), |sum, cache| sum.plus(&get(cache)?))
    };
    let named = |name: &str| {
        let field = crate::fields::field(name)?;
        of(&|cache| fields::value(field, snapshot, cache))
    };
    match (field.kind, field.unit) {
        // Ratios of counters do not add up.
        _ if COUNTER_RATIOS.contains(&field.name) => Sum::None,
        (_, Unit::Share) => {
            Sum::Of(memory::ratio(named("live_bytes").as_ref(), named("bytes").as_ref()))
        }
        (FieldKind::Gauge | FieldKind::Counter, _) => {
            Sum::Of(of(&|cache| fields::value(field, snapshot, cache)))
        }
        (FieldKind::Attribute | FieldKind::Tunable, _) => Sum::None,
    }
}

/// Which names share slabs, one line a cache. Of a kernel, where most caches merge, `show` says it.
fn merged(out: &mut dyn Write, snapshot: &Snapshot, picked: &FilteredCaches<'_>) -> io::Result<()> {
    if snapshot.source.kind == crate::snapshot::SourceKind::Kernel {
        return Ok(());
    }
    for cache in picked.caches.iter().filter(|cache| !cache.aliases.is_empty()) {
        let names: Vec<String> = cache.aliases.iter().map(|name| cell::clean(name)).collect();
        writeln!(out, "merged with {}: {}", cell::clean(&cache.name), names.join(", "))?;
    }
    Ok(())
}

fn notes(out: &mut dyn Write, picked: &FilteredCaches<'_>, left_out: &[&str]) -> io::Result<()> {
    let counted = |n: usize| if n == 1 { "1 cache".into() } else { format!("{n} caches") };
    let are = |n: usize| if n == 1 { "is" } else { "are" };
    let FilteredCaches { caches, empty, beyond } = picked;
    if caches.is_empty() && *empty == 0 {
        writeln!(out, "no cache")?;
    }
    if *empty > 0 {
        writeln!(out, "{} without slabs {} not shown", counted(*empty), are(*empty))?;
    }
    if *beyond > 0 {
        writeln!(out, "{} more {} not shown", counted(*beyond), are(*beyond))?;
    }
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        writeln!(out, "left out for want of width: {names}")?;
    }
    Ok(())
}
