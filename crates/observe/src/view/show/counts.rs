//! A cache's counters: each counter, also split by CPU, as in a kernel's files; ratios of counters;
//! and how long slow frees took, by the number of slabs that they drained.

use crate::drains::{self, DrainBucket};
use crate::fields::{self, COUNTER_RATIOS, FIELDS, Field, FieldKind, field};
use crate::snapshot::{Cache, Snapshot, SourceKind};
use crate::value::{Reading, Value};
use crate::view::grid::{Grid, Weight};
use crate::view::{Style, Units, cell};
use std::io::{self, Write};

/// How to have a process count.
const HOW: &str = "\
slow paths are not counted; `slabyard run --set count=1 -- PROGRAM` starts a program that does";

/// Writes what was counted: counters of 0 in a line of their number.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    cache: &Cache,
    style: Style,
) -> io::Result<()> {
    let mut grid = Grid::new(["counters"]).words_from(2);
    let (mut known, mut zeros) = (false, 0);
    for field in FIELDS.iter().filter(|f| f.kind == FieldKind::Counter) {
        let Some(reading) = cache.reading(field.name) else { continue };
        // Where all are told, most are of what this kind of cache never does.
        if counts(cache) && reading.value.exact() == Some(0) {
            zeros += 1;
            continue;
        }
        known = true;
        let value = cell::value(Some(&reading.value), field.unit, style.units);
        let beside = by_cpu(&reading.cpus).unwrap_or_else(|| field.help.to_owned());
        grid.push(Weight::Row, [field.name.to_owned(), value, beside]);
    }
    for field in ratios() {
        if let Some(value) = fields::value(field, snapshot, cache) {
            let value = cell::value(Some(&value), field.unit, style.units);
            grid.push(Weight::Row, [field.name.to_owned(), value, field.help.to_owned()]);
        }
    }
    if known {
        writeln!(out)?;
        grid.write(out, style.colour)?;
    }
    if zeros > 0 {
        writeln!(out, "{zeros} counters of 0 are not shown")?;
    }
    if !counts(cache) && matches!(snapshot.source.kind, SourceKind::Process | SourceKind::Core) {
        writeln!(out, "{HOW}")?;
    }
    write_drains(out, cache, style)
}

fn write_drains(out: &mut dyn Write, cache: &Cache, style: Style) -> io::Result<()> {
    let all = drains::of(cache);
    if all.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(["slabs drained", "slow frees", "mean ns", "longest ns", "total ns"]);
    for drains in &all {
        let DrainBucket { least, most, frees, total_ns, mean_ns, longest_ns } = *drains;
        let slabs = match most {
            Some(most) if most == least => least.to_string(),
            Some(most) => format!("{least} to {most}"),
            None => format!("{least} and more"),
        };
        let numbers = [frees, mean_ns, longest_ns, total_ns].map(|n| n.to_string());
        grid.push(Weight::Row, std::iter::once(slabs).chain(numbers));
    }
    writeln!(out)?;
    grid.write(out, style.colour)
}

/// All caches together, as a cache without other numbers; `None` where none counts.
#[must_use]
pub fn sum(snapshot: &Snapshot) -> Option<Cache> {
    let mut all = Cache::new("all caches");
    for cache in snapshot.caches.iter().filter(|cache| counts(cache)) {
        for (name, reading) in cache.readings.iter().filter(|(name, _)| is_counted(name)) {
            let (longest, old) = (name.ends_with("longest_ns"), all.reading(name).cloned());
            let sum = old.map_or_else(|| reading.clone(), |old| plus(&old, reading, longest));
            all.set(name.clone(), sum);
        }
    }
    counts(&all).then_some(all)
}

fn is_counted(name: &str) -> bool {
    drains::is_name(name) || field(name).is_some_and(|field| field.kind == FieldKind::Counter)
}

/// The sum of two readings, or the larger of each of their numbers.
fn plus(a: &Reading, b: &Reading, larger: bool) -> Reading {
    let join = |a: &Value, b: &Value| match larger {
        true => Value::Exact(a.high().max(b.high()).unwrap_or(0)),
        false => a.plus(b).unwrap_or(Value::Exact(u64::MAX)),
    };
    let mut sum = Reading { value: join(&a.value, &b.value), ..a.clone() };
    for (cpu, value) in &b.cpus {
        match sum.cpus.iter_mut().find(|(number, _)| number == cpu) {
            Some((_, old)) => *old = join(old, value),
            None => sum.cpus.push((*cpu, value.clone())),
        }
    }
    sum.cpus.sort_by_key(|(cpu, _)| *cpu);
    sum
}

/// True if the source counted what slow paths of the cache did.
#[must_use]
pub fn counts(cache: &Cache) -> bool {
    cache.reading("alloc_slowpath").is_some()
}

/// `C0=12 C1=4`, as a kernel has it.
#[must_use]
pub fn by_cpu(cpus: &[(u32, Value)]) -> Option<String> {
    let part = |(cpu, value): &(u32, Value)| {
        format!("C{cpu}={}", cell::value(Some(value), crate::fields::Unit::Count, Units::Plain))
    };
    let all: Vec<String> = cpus.iter().map(part).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

fn ratios() -> impl Iterator<Item = &'static Field> {
    COUNTER_RATIOS.iter().filter_map(|name| field(name))
}
