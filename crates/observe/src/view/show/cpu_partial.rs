//! Prints what CPU partial lists hold: in the format of a kernel's `slabs_cpu_partial`, and slab by
//! slab in the format of the patch that dumps a kernel's lists ("SLUB: percpu partial object count
//! is highly inaccurate", 2021).

use super::fullness::{Line, dump, lines, slab_bytes};
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
    let object_bytes = cache.exact("slab_size").unwrap_or(0);
    let of_place = |lines: &[Line]| {
        let SlabPlace::Cpu(cpu) = lines[0].place else { return ListSums::default() };
        let mut sums = ListSums { cpu, ..ListSums::default() };
        for line in lines {
            let bytes = slab_bytes(snapshot, line.order);
            sums.slabs += 1;
            sums.bytes = sums.bytes.saturating_add(bytes);
            sums.free += u64::from(line.objects.saturating_sub(line.inuse));
            if line.inuse == 0 {
                sums.empty += 1;
                sums.empty_bytes = sums.empty_bytes.saturating_add(bytes);
            }
        }
        ListSums { free_bytes: sums.free.saturating_mul(object_bytes), ..sums }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Slab, Source};

    fn slab(cpu: u32, order: u32, inuse: u32) -> Slab {
        Slab { order, objects: 4, inuse, place: SlabPlace::Cpu(cpu), ..Slab::default() }
    }

    fn sums_of(slabs: Vec<Slab>) -> Vec<ListSums> {
        let snapshot = Snapshot::new(Source::of(SourceKind::Lab));
        let mut cache = Cache::new("x");
        cache.set("slab_size", 1024);
        cache.slabs = Some(slabs);
        sums(&snapshot, &cache, &of_cpus(&snapshot, &cache))
    }

    #[test]
    fn a_cpus_list_is_summed_by_slabs_empties_and_free_objects() {
        let mut on_node = slab(0, 0, 0);
        on_node.place = SlabPlace::Node(0);
        let sums = sums_of(vec![slab(3, 1, 1), slab(1, 0, 4), on_node, slab(3, 0, 0)]);
        let of_3 = ListSums {
            cpu: 3,
            slabs: 2,
            bytes: 8192 + 4096,
            empty: 1,
            empty_bytes: 4096,
            free: 7,
            free_bytes: 7 * 1024,
        };
        let of_1 = ListSums { cpu: 1, slabs: 1, bytes: 4096, ..ListSums::default() };
        assert_eq!(sums, [of_1, of_3]);
    }

    #[test]
    fn orders_that_no_slab_has_are_summed_to_the_most_that_there_is() {
        let sums = sums_of(vec![slab(0, 64, 0), slab(0, 60, 0), slab(0, u32::MAX, 4)]);
        assert_eq!((sums[0].slabs, sums[0].bytes, sums[0].empty_bytes), (3, u64::MAX, u64::MAX));
    }
}
