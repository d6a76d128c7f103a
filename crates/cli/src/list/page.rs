//! The list of caches as a page: their memory, how much of it is live, and tables.

use crate::failure::Failure;
use crate::html;
use anyhow::Context;
use slabyard_observe::fields::{self, FIELDS, Field, TOTALS};
use slabyard_observe::source::SourceName;
use slabyard_observe::view::json;
use slabyard_observe::{Cache, Snapshot};
use slabyard_page::{Cell, Chart, Page, Section, Series, Table};
use std::cmp::Reverse;

/// Caches in a chart.
const SHOWN: usize = 25;

/// The page of the caches that are picked, which are in its data in their order.
pub fn of(snapshot: &Snapshot, caches: &[&Cache], source: &SourceName) -> Result<Page, Failure> {
    let mut data = Vec::new();
    json::write(&mut data, snapshot, caches).context("the list")?;
    let data = String::from_utf8(data).context("the list")?;
    let taken = slabyard_observe::snapshot::time(snapshot.taken_at_ms);
    let mut totals = Table::new(["total", "", "what it is"]);
    for total in TOTALS {
        if let Some(value) = snapshot.total(total.name) {
            let value = html::cell(Some(value), total.unit);
            totals.push([Cell::text(total.name), value, Cell::text(total.help)]);
        }
    }
    let mut section = Section::new("Caches");
    for (title, names) in [
        ("Memory, and what of it is live", &["bytes", "live_bytes"][..]),
        ("Share that is live", &["used"]),
    ] {
        if let Some(chart) = chart(title, snapshot, caches, names) {
            section = section.chart(chart);
        }
    }
    let first = Section::new("Totals").text(format!("Taken at {taken}."));
    let missing = snapshot.missing.iter().fold(first, |section, missing| {
        section.text(format!("Not known: {}: {}.", missing.what, missing.why))
    });
    Ok(html::page(format!("Caches of {}", html::short(source)), data)
        .with(missing.table(totals))
        .with(section.text("Where a bar is pale its end is not known: a kernel does not say how many of its active objects are free in CPU slabs, CPU partial lists, sheaves and barns.").table(table(snapshot, caches))))
}

/// Where the caches are, those with most bytes first.
fn by_bytes(snapshot: &Snapshot, caches: &[&Cache]) -> Vec<usize> {
    let field = fields::field("bytes");
    let bytes =
        |cache| field.and_then(|f| fields::value(f, snapshot, cache)).and_then(|v| v.high());
    let mut places: Vec<usize> = (0..caches.len()).collect();
    places.sort_by_key(|at| Reverse(bytes(caches[*at])));
    places
}

/// Bars of these fields, of the caches with most bytes; `None` if all are unknown.
fn chart(title: &str, snapshot: &Snapshot, caches: &[&Cache], names: &[&str]) -> Option<Chart> {
    let mut rows = by_bytes(snapshot, caches);
    rows.truncate(SHOWN);
    let known =
        |field: &Field| rows.iter().any(|at| fields::value(field, snapshot, caches[*at]).is_some());
    let shown: Vec<&Field> =
        names.iter().filter_map(|name| fields::field(name)).filter(|f| known(f)).collect();
    let mut chart = Chart::bars(title, html::names(), html::axis("", shown.first()?.unit));
    for field in shown {
        let path = format!("/caches/*/{}", field.name);
        chart =
            chart.with(Series::new(field.name, "/caches/*/name", path).rows(rows.iter().copied()));
    }
    Some(chart)
}

/// The columns of the plain list, the caches with most bytes first.
fn table(snapshot: &Snapshot, caches: &[&Cache]) -> Table {
    let columns: Vec<&Field> = FIELDS.iter().filter(|field| field.column).collect();
    let mut table = Table::new(std::iter::once("cache").chain(columns.iter().map(|f| f.name)));
    for cache in by_bytes(snapshot, caches).into_iter().map(|at| caches[at]) {
        let cells = columns
            .iter()
            .map(|field| html::cell(fields::value(field, snapshot, cache).as_ref(), field.unit));
        table.push(std::iter::once(Cell::text(cache.name.clone())).chain(cells));
    }
    table
}
