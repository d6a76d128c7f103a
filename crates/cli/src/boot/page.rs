//! What a boot is foretold to use, as a page.

use super::report::{self, Report, SHOWN, arrow, machine};
use super::rows::Rows;
use crate::failure::Failure;
use crate::html;
use crate::terminal::bytes;
use slabyard_ask::boot::side::Totals;
use slabyard_lab::population::measured;
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_page::{Axis, Cell, Chart, Page, Section, Series, Table, Unit};

/// The page: totals, the caches that change most, all caches, and the error to expect.
pub(super) fn of(report: &Report<'_>) -> Result<Page, Failure> {
    let by_change = report.by_change();
    let mut totals = Table::new(["", "machine and rules", "slabs", "memory"]);
    for (name, boot) in ["before", "after"].into_iter().zip(report.both()) {
        let Totals { slabs, bytes, .. } = boot.side().totals;
        let [slabs, memory] = [number(slabs), memory(bytes >> 10)];
        totals.push([Cell::text(name), Cell::text(machine(&boot.settings)), slabs, memory]);
    }
    let mut caches = Table::new(["cache", "order", "slabs", "before", "after", "change"]);
    for at in &by_change {
        let (before, after) = report.pair(*at);
        let change = after.slab_kb as f64 - before.slab_kb as f64;
        let sign = if change < 0.0 { "-" } else { "+" };
        let kib = before.slab_kb.abs_diff(after.slab_kb);
        caches.push([
            Cell::text(before.id.clone()),
            Cell::number(arrow(before.order, after.order), after.order.into()),
            Cell::number(arrow(before.slabs, after.slabs), after.slabs as f64),
            memory(before.slab_kb),
            memory(after.slab_kb),
            Cell::number(format!("{sign}{}", bytes(Some(kib << 10))), change),
        ]);
    }
    let side = |name: &str| {
        let paths = ["name", "bytes"].map(|key| format!("/{name}/caches/*/{key}"));
        let [names, bytes] = paths;
        Series::new(name, names, bytes).rows(by_change.iter().copied().take(SHOWN))
    };
    let chart = Chart::bars(
        "Memory of the caches that change most",
        html::names(),
        Axis::new("memory of slabs", Unit::Bytes),
    );
    let mut totals = Section::new("All caches").table(totals);
    if let Some(line) = measured::line(&report.both()[1].errors) {
        totals = totals.text(format!("Error to expect: {line}."));
    }
    let chart = chart.with(side("before")).with(side("after"));
    Ok(html::page(title(report.snapshot), report::json(report.snapshot, report.boots)?)
        .with(totals)
        .with(Section::new("By cache").chart(chart).table(caches)))
}

/// The page of several variants: their memory, and what is known of the error.
pub(super) fn of_rows(rows: &Rows<'_>) -> Result<Page, Failure> {
    let cells = rows.cells();
    let mut table = Table::new(cells[0].clone());
    for row in &cells[1..] {
        table.push(row.iter().map(|cell| match cell.parse::<u64>() {
            Ok(n) => number(n),
            Err(_) => Cell::text(cell.clone()),
        }));
    }
    let chart = Chart::bars(
        "Memory of all caches",
        html::names(),
        Axis::new("memory of slabs", Unit::Bytes),
    );
    let totals = Series::new("variants", "/variants/*/name", "/variants/*/totals/bytes");
    let mut section = Section::new("Variants").chart(chart.with(totals)).table(table);
    for line in rows.errors() {
        section = section.text(format!("Error to expect: {line}."));
    }
    let base = format!("The base is the snapshot: {}.", machine(&rows.boots.base.settings));
    Ok(html::page(title(rows.snapshot), report::json(rows.snapshot, rows.boots)?)
        .with(section.text(base)))
}

fn title(snapshot: &KernelSnapshot) -> String {
    let kernel = snapshot.kernel.as_deref().unwrap_or("unknown");
    format!("Slab memory foretold from a snapshot of Linux {kernel}")
}

fn number(n: u64) -> Cell {
    Cell::number(n.to_string(), n as f64)
}

fn memory(kib: u64) -> Cell {
    Cell::number(bytes(Some(kib << 10)), kib as f64)
}
