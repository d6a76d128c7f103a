//! The results of a replay as a page: memory over time by place and by cache, how full partial slabs
//! are, caches and counters.

use super::args::ReplayArgs;
use super::table::{HEADS, MEMORY, SumOf, cells, name, sentence};
use crate::html;
use crate::terminal::bytes;
use slabyard_ask::figures::{CacheFigures, Figures, Sum};
use slabyard_lab::accuracy;
use slabyard_page::{Axis, Cell, Chart, Page, Section, Series, Table, Unit, path};
use std::cmp::Reverse;

/// Caches that have a curve.
const CURVES: usize = 8;
/// Caches in the chart of before and after.
const SHOWN: usize = 20;

/// The page of these figures, which the JSON has as well.
pub(super) fn of(args: &ReplayArgs, heading: &str, figures: &Figures, json: String) -> Page {
    let page = html::page(format!("Replay of {}", args.trace.name()), json)
        .with(memory(heading, figures))
        .with(over_time(figures));
    let slabs = Axis::new("slabs", Unit::Count);
    let partial =
        Chart::histogram("Slabs on partial lists", Axis::new("objects in use", Unit::Name), slabs)
            .with(Series::new("slabs", "/partial_slabs/*/in_use", "/partial_slabs/*/slabs"));
    let text = "At the end, those of CPUs and of nodes, of all caches.";
    page.with(Section::new("Partial slabs").text(text).chart(partial))
        .with(caches(figures))
        .with(counters(figures))
}

/// Bytes by place, and what makes the figures doubtful.
fn memory(heading: &str, figures: &Figures) -> Section {
    let totals = &figures.totals;
    let mut table = Table::new(["memory of slabs", "before", "after"]);
    for (what, get) in MEMORY {
        let side = |sum: &Sum| known(get(sum));
        table.push([Cell::text(what.trim_start()), side(&totals.before), side(&totals.after)]);
    }
    let peak = format!("At the peak: {}.", bytes(Some(totals.peak_bytes)));
    let mut section = Section::new("Memory").text(heading.trim_end()).table(table).text(peak);
    let doubts = [figures.gone.clone(), figures.unlike.clone(), accuracy::line(&figures.changes)];
    for doubt in doubts.into_iter().flatten() {
        section = section.text(format!("{doubt}."));
    }
    match figures.contradictions.any() {
        true => section.text(format!("{}.", figures.contradictions)),
        false => section,
    }
}

fn known(number: Option<u64>) -> Cell {
    number.map_or_else(Cell::unknown, |n| Cell::number(bytes(Some(n)), n as f64))
}

/// Curves, if samples were asked for.
fn over_time(figures: &Figures) -> Section {
    let section = Section::new("Over time");
    if figures.series.is_empty() {
        return section.text("With --samples N here are curves of memory by place and by cache.");
    }
    let axes = || (Axis::new("time", Unit::Nanoseconds), Axis::new("", Unit::Bytes));
    let (time, memory) = axes();
    let mut places = Chart::areas("Memory by place", time, memory);
    for (what, key, get) in PLACES {
        if figures.series.iter().any(|point| get(&point.totals).is_some()) {
            places =
                places.with(Series::new(what, "/series/*/time_ns", format!("/series/*/{key}")));
        }
    }
    let (time, memory) = axes();
    let mut curves = Chart::lines("Memory of the largest caches that change", time, memory);
    for cache in by_peak(figures)
        .into_iter()
        .map(|at| &figures.caches[at])
        .filter(|cache| cache.moved())
        .take(CURVES)
    {
        let bytes = format!("/series/*/caches/{}/bytes", path::key(&cache.name));
        curves = curves.with(Series::new(name(cache), "/series/*/time_ns", bytes));
    }
    section.chart(places).chart(curves)
}

/// What adds up to the memory of slabs: words, key in JSON, number.
const PLACES: [(&str, &str, SumOf); 5] = [
    ("live", "live", |sum| sum.live),
    ("parked on CPUs", "parked_cpu", |sum| sum.parked_cpu),
    ("parked in barns", "parked_node", |sum| sum.parked_node),
    ("free on nodes' lists", "free_partial", |sum| sum.free_partial),
    ("waste", "padding", |sum| sum.padding),
];

/// Where the caches are, those with the largest peak first.
fn by_peak(figures: &Figures) -> Vec<usize> {
    let key = |cache: &CacheFigures| (Reverse(cache.peak << cache.order), cache.name.clone());
    let mut places: Vec<usize> = (0..figures.caches.len()).collect();
    places.sort_by_key(|at| key(&figures.caches[*at]));
    places
}

fn caches(figures: &Figures) -> Section {
    let by_peak = by_peak(figures);
    let mut chart =
        Chart::bars("Memory of the largest caches", html::names(), Axis::new("", Unit::Bytes));
    for side in ["before", "after"] {
        let [names, bytes] = ["name", "bytes"].map(|key| format!("/{side}/caches/*/{key}"));
        chart =
            chart.with(Series::new(side, names, bytes).rows(by_peak.iter().copied().take(SHOWN)));
    }
    let mut table = Table::new(HEADS);
    for cache in by_peak.into_iter().map(|at| &figures.caches[at]) {
        let mut cells = cells(cache).into_iter();
        let name = cells.next().map(Cell::text);
        let waste = known(cache.after.padding);
        let numbers: Vec<String> = cells.collect();
        let last = numbers.len() - 1;
        let numbers = numbers.into_iter().take(last).map(|text| match text.parse() {
            Ok(number) => Cell::number(text, number),
            Err(_) => Cell::unknown(),
        });
        table.push(name.into_iter().chain(numbers).chain([waste]));
    }
    Section::new("Caches").chart(chart).table(table)
}

fn counters(figures: &Figures) -> Section {
    let mut table = Table::new(["counter", "", "what it counts"]);
    for (name, help, count) in figures.counters.each().filter(|(_, _, count)| *count > 0) {
        let number = Cell::number(count.to_string(), count as f64);
        table.push([Cell::text(name), number, Cell::text(sentence(help))]);
    }
    Section::new("Counters").table(table)
}
