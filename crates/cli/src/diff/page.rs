//! The differences as a page: bars of the caches that changed most, and tables.

use crate::failure::Failure;
use crate::html;
use anyhow::Context;
use slabyard_observe::Snapshot;
use slabyard_observe::delta::{CacheDelta, Change, Delta, Presence};
use slabyard_observe::fields::{FIELDS, Field, FieldKind};
use slabyard_observe::view::{Units, cell, diff};
use slabyard_page::{Cell, Chart, Page, Section, Series, Table};
use std::cmp::Reverse;

/// Caches in a chart.
const SHOWN: usize = 20;
/// Fields that have a chart, where none are asked for.
const FIELDS_SHOWN: [&str; 3] = ["bytes", "live", "parked"];

/// The page of two looks, which have these names.
pub(super) fn of(
    old: &Snapshot,
    new: &Snapshot,
    delta: &Delta,
    names: &[String; 2],
    asked: &[&'static str],
) -> Result<Page, Failure> {
    let mut json = Vec::new();
    diff::write_json(&mut json, old, new, delta).context("the differences")?;
    let json = String::from_utf8(json).context("the differences")?;
    let [from, to] = names;
    let mut caches = Section::new("Caches");
    let asked: Vec<&str> =
        asked.iter().copied().filter(|name| fields(delta).any(|f| f.name == *name)).collect();
    let charted = if asked.is_empty() { &FIELDS_SHOWN[..] } else { &asked };
    for field in charted.iter().filter_map(|name| fields(delta).find(|f| f.name == *name)) {
        caches = caches.chart(chart(delta, field, names));
    }
    caches = if delta.caches.is_empty() {
        caches.text("No cache is different.")
    } else {
        caches.table(table(delta))
    };
    let mut first = Section::new("Totals");
    for note in &delta.notes {
        first = first.text(format!("Note: {note}."));
    }
    let page = html::page(format!("What is different: {from} and {to}"), json);
    let totals = match delta.totals.is_empty() {
        true => first.text("No total is different."),
        false => first.table(totals(delta)),
    };
    Ok(page.with(totals).with(caches))
}

/// Numbers that changed in a cache.
fn fields(delta: &Delta) -> impl Iterator<Item = &'static Field> {
    let moved = |f: &&Field| delta.caches.iter().any(|c| c.change(f.name).is_some_and(moves));
    FIELDS.iter().filter(moved)
}

fn moves(change: &Change) -> bool {
    matches!(change.kind, FieldKind::Gauge | FieldKind::Counter)
}

/// A field of the caches in which it changed most.
fn chart(delta: &Delta, field: &Field, names: &[String; 2]) -> Chart {
    let weight = |cache: &CacheDelta| {
        let difference = cache.change(field.name).and_then(Change::difference);
        difference.map(|d| d.low.unsigned_abs().max(d.high.unsigned_abs()))
    };
    let mut rows: Vec<(usize, u128)> =
        delta.caches.iter().enumerate().filter_map(|(at, c)| Some((at, weight(c)?))).collect();
    rows.sort_by_key(|(_, weight)| Reverse(*weight));
    let rows: Vec<usize> = rows.into_iter().take(SHOWN).map(|(at, _)| at).collect();
    let title = format!("{}: {}", field.name, field.help);
    let mut chart = Chart::bars(title, html::names(), html::axis(field.name, field.unit));
    for (name, side) in names.iter().zip(["old", "new"]) {
        let path = format!("/caches/*/fields/{}/{side}", field.name);
        let name = format!("{side}: {name}");
        chart = chart.with(Series::new(name, "/caches/*/name", path).rows(rows.iter().copied()));
    }
    chart
}

/// Each cache with the numbers of the plain list that changed, and its settings.
fn table(delta: &Delta) -> Table {
    let plain: Vec<&Field> = fields(delta).filter(|field| field.column).collect();
    let columns = if plain.is_empty() { fields(delta).collect() } else { plain };
    let is_set = |change: &&Change| !moves(change);
    let any_set = delta
        .caches
        .iter()
        .any(|c| c.presence == Presence::Both && c.changes.iter().any(|c| !moves(c)));
    let heads = std::iter::once("cache").chain(columns.iter().map(|f| f.name));
    let mut table = Table::new(heads.chain(any_set.then_some("settings")));
    for cache in &delta.caches {
        let name = match cache.presence {
            Presence::Both => cache.name.clone(),
            Presence::Came => format!("{} (came)", cache.name),
            Presence::Went => format!("{} (went)", cache.name),
        };
        let mut row = vec![Cell::text(name)];
        row.extend(
            columns
                .iter()
                .map(|field| cache.change(field.name).map_or_else(|| Cell::text(""), moved)),
        );
        if any_set {
            let set =
                cache.changes.iter().filter(is_set).filter(|_| cache.presence == Presence::Both);
            let set: Vec<String> =
                set.map(|change| format!("{} {}", change.name, both(change))).collect();
            row.push(Cell::text(set.join(", ")));
        }
        table.push(row);
    }
    table
}

fn totals(delta: &Delta) -> Table {
    let mut table = Table::new(["total", "old", "new"]);
    for change in &delta.totals {
        let side = |value| html::cell(value, change.unit);
        table.push([Cell::text(change.name), side(change.old.as_ref()), side(change.new.as_ref())]);
    }
    table
}

/// Old and new; it sorts by the difference.
fn moved(change: &Change) -> Cell {
    match change.difference() {
        Some(difference) => Cell::number(both(change), difference.high as f64),
        None => Cell::text(both(change)),
    }
}

fn both(change: &Change) -> String {
    let [old, new] = [&change.old, &change.new]
        .map(|value| cell::value(value.as_ref(), change.unit, Units::Human));
    format!("{old} → {new}")
}
