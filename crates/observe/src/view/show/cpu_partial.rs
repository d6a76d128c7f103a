//! Prints what CPU partial lists hold: in the format of a kernel's `slabs_cpu_partial`, and slab by
//! slab in the format of the patch that dumps a kernel's lists ("SLUB: percpu partial object count
//! is highly inaccurate", 2021).

use super::fullness::{Line, dump, lines};
use crate::fields::Unit;
use crate::snapshot::{Cache, SlabPlace, Snapshot, SourceKind};
use crate::value::{Reading, Value};
use crate::view::grid::{Grid, Weight};
use crate::view::{Style, Units, cell, json};
use serde::Serialize;
use std::io::{self, Write};

/// `slabs_cpu_partial`, as a kernel has it: `52(5) C0=52(5)`, objects and in brackets slabs; `None`
/// where the source does not tell both.
#[must_use]
pub fn form(cache: &Cache) -> Option<String> {
    let objects = cache.reading("objects_cpu_partial")?;
    let slabs = cache.reading("slabs_cpu_partial")?;
    let text = |objects: &Value, slabs: &Value| {
        let [objects, slabs] =
            [objects, slabs].map(|n| cell::value(Some(n), Unit::Count, Units::Plain));
        format!("{objects}({slabs})")
    };
    let mut form = text(&objects.value, &slabs.value);
    for (cpu, slabs) in slabs.cpus.iter().filter(|(_, slabs)| slabs.high() > Some(0)) {
        let counted = of_cpu(objects, *cpu).unwrap_or(&Value::Exact(0));
        form += &format!(" C{cpu}={}", text(counted, slabs));
    }
    Some(form)
}

fn of_cpu(reading: &Reading, cpu: u32) -> Option<&Value> {
    reading.cpus.iter().find(|(number, _)| *number == cpu).map(|(_, value)| value)
}

/// Writes that form in a line.
pub(super) fn line(out: &mut dyn Write, cache: &Cache) -> io::Result<()> {
    match form(cache) {
        Some(form) => writeln!(out, "\nslabs_cpu_partial: {form}"),
        None => Ok(()),
    }
}

/// Writes the lists of a cache, and nothing else; nothing where they are empty.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    cache: &Cache,
    style: Style,
) -> io::Result<()> {
    let lines = of_cpus(snapshot, cache);
    dump(out, cache, &lines, style)?;
    if snapshot.source.kind != SourceKind::Kernel || lines.is_empty() {
        return Ok(());
    }
    let mut grid =
        Grid::new(["cpu", "slabs", "bytes", "empty", "empty bytes", "free", "free bytes"]);
    for of in sums(snapshot, cache, &lines) {
        let bytes = |n| cell::number(n, Unit::Bytes, style.units);
        let [slabs, empty, free] = [of.slabs, of.empty, of.free].map(|n| n.to_string());
        let [all, empties, frees] = [of.bytes, of.empty_bytes, of.free_bytes].map(bytes);
        grid.push(Weight::Row, [of.cpu.to_string(), slabs, all, empty, empties, free, frees]);
    }
    writeln!(out)?;
    grid.write(out, style.colour)
}

/// What a CPU's partial list pins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct ListSums {
    cpu: u32,
    slabs: u64,
    bytes: u64,
    /// Slabs without a used object.
    empty: u64,
    empty_bytes: u64,
    /// Free objects, those of empty slabs among them.
    free: u64,
    free_bytes: u64,
}

/// The sums of each CPU that has slabs on its list.
fn sums(snapshot: &Snapshot, cache: &Cache, lines: &[Line]) -> Vec<ListSums> {
    let page_bytes = snapshot.machine.page_bytes.unwrap_or(0);
    let object_bytes = cache.exact("slab_size").unwrap_or(0);
    let of_place = |lines: &[Line]| {
        let SlabPlace::Cpu(cpu) = lines[0].place else { return ListSums::default() };
        let mut sums = ListSums { cpu, ..ListSums::default() };
        for line in lines {
            let bytes = page_bytes << line.order;
            sums.slabs += 1;
            sums.bytes += bytes;
            sums.free += u64::from(line.objects.saturating_sub(line.inuse));
            if line.inuse == 0 {
                sums.empty += 1;
                sums.empty_bytes += bytes;
            }
        }
        ListSums { free_bytes: sums.free * object_bytes, ..sums }
    };
    lines.chunk_by(|a, b| a.place == b.place).map(of_place).collect()
}

/// Writes the same of these caches as JSON: `{"source", ..., "caches": [{"name",
/// "slabs_cpu_partial", "partial_slabs", "cpus"}]}`.
///
/// # Errors
/// Those of `out`.
pub fn write_json(out: &mut dyn Write, snapshot: &Snapshot, caches: &[&Cache]) -> io::Result<()> {
    #[derive(Serialize)]
    struct Lists<'a> {
        name: &'a str,
        slabs_cpu_partial: Option<String>,
        partial_slabs: Vec<Line>,
        cpus: Vec<ListSums>,
    }
    let caches = caches.iter().map(|cache| {
        let partial_slabs = of_cpus(snapshot, cache);
        Lists {
            name: &cache.name,
            slabs_cpu_partial: form(cache),
            cpus: sums(snapshot, cache, &partial_slabs),
            partial_slabs,
        }
    });
    json::of_caches(out, snapshot, caches)
}

/// The slabs on CPUs' lists.
fn of_cpus(snapshot: &Snapshot, cache: &Cache) -> Vec<Line> {
    let mut lines = lines(snapshot, cache).unwrap_or_default();
    lines.retain(|line| matches!(line.place, SlabPlace::Cpu(_)));
    lines
}
