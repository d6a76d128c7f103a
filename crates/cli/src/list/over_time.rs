//! `list --over-time`: how the caches of a timeline changed, as a table with curves, JSON and a page.
//!
//! Neighbour: `slabyard_observe::timeline` has the looks. Invariants: a look that is damaged is a gap
//! in every curve, and is said; a cache that a look does not have is a gap, too.

use crate::bars::Bars;
use crate::failure::Failure;
use crate::terminal::{Colour, Grid, Progress, bytes};
use crate::{html, look, stdout};
use anyhow::{Context, anyhow};
use serde::Serialize;
use slabyard_ask::Listener;
use slabyard_observe::fields::{TOTALS, Unit, field, value};
use slabyard_observe::snapshot::{Snapshot, Source, time};
use slabyard_observe::source::SourceName;
use slabyard_observe::timeline::Timeline;
use slabyard_observe::value::plural;
use slabyard_observe::view::pick::{CacheFilter, Empty};
use slabyard_page::{Axis, Chart, Page, Section, Series, Unit as PageUnit, path};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Characters of a curve.
const CURVE: usize = 40;
/// Curves in a chart: as many as there are colours.
const SHOWN: usize = 8;
/// What totals of the machine's memory begin with, beside which slabs look small.
const OF_MACHINE: &str = "mem_";

/// What is printed as JSON, and drawn.
#[derive(Serialize)]
pub struct OverTime {
    source: Source,
    /// Looks that could not be read.
    damaged: usize,
    /// Bytes behind the last look, which a writer did not complete.
    incomplete_bytes: usize,
    taken_at: Vec<String>,
    /// Seconds since the first look.
    seconds: Vec<f64>,
    totals: BTreeMap<&'static str, Vec<Option<u64>>>,
    /// The largest at its peak first.
    caches: Vec<Curve>,
}

/// A cache at each look.
#[derive(Serialize)]
struct Curve {
    name: String,
    bytes: Vec<Option<u64>>,
    /// Bytes more than at its first look.
    grown: Vec<Option<i64>>,
    /// Live objects, at least and at most.
    live_low: Vec<Option<u64>>,
    live_high: Vec<Option<u64>>,
}

impl OverTime {
    /// Of the caches that are picked; of `top` those with the largest peaks.
    pub fn of(
        timeline: &Timeline,
        named: &SourceName,
        picked: &CacheFilter,
    ) -> Result<OverTime, Failure> {
        let times: Vec<u64> = timeline.times().collect();
        let first = times.first().copied().unwrap_or(0);
        let mut curves = Curves::new(times.len(), picked);
        let (mut source, mut damaged, mut why) = (None, 0, None);
        let progress = Progress::new();
        for (at, look) in timeline.looks().enumerate() {
            progress.stage(&format!("look {} of {}", at + 1, times.len()));
            match look {
                Ok(look) => {
                    curves.add(at, &look);
                    source = Some(look.source);
                }
                Err(error) => {
                    damaged += 1;
                    why.get_or_insert(error);
                }
            }
        }
        let Some(source) = source else {
            let none = || anyhow!("{named} has no look yet");
            return Err(why.map_or_else(none, anyhow::Error::from).into());
        };
        if let Some(why) = why {
            progress.say(&why.to_string());
        }
        look::has_match(!curves.caches.is_empty(), named, &picked.patterns)?;
        Ok(OverTime {
            source,
            damaged,
            incomplete_bytes: timeline.incomplete_bytes(),
            taken_at: times.iter().map(|ms| time(*ms)).collect(),
            seconds: times.iter().map(|ms| ms.saturating_sub(first) as f64 / 1e3).collect(),
            caches: curves.largest(picked.top),
            totals: curves.totals,
        })
    }

    /// As a table for people.
    pub fn print(&self) -> Result<std::process::ExitCode, Failure> {
        let mut grid = Grid::new(&["cache", "first", "last", "least", "most", "over time"]);
        let bars = Bars::of_terminal();
        let totals = self.totals.iter().map(|(name, values)| (*name, values));
        let caches = self.caches.iter().map(|curve| (curve.name.as_str(), &curve.bytes));
        let mut text = self.head();
        for (name, values) in totals.chain(caches) {
            let known = || values.iter().flatten().copied();
            let cells = [known().next(), known().next_back(), known().min(), known().max()];
            let curve: Vec<_> = values.iter().map(|value| value.map(|n| n as f64)).collect();
            let cells = cells.into_iter().map(bytes);
            let curve = std::iter::once(bars.sparkline(&curve, CURVE));
            grid.push(std::iter::once(name.to_owned()).chain(cells).chain(curve).collect());
        }
        grid.write(&mut text, Colour::of_stdout());
        stdout::print(text.as_bytes())
    }

    fn head(&self) -> String {
        let ends = self.taken_at.first().zip(self.taken_at.last());
        let (from, to) = ends.map_or(("", ""), |(from, to)| (from, to));
        let damaged = match self.damaged {
            0 => String::new(),
            n => format!(", {n} of them damaged"),
        };
        let looks = plural(self.taken_at.len() as u64, "look");
        format!("{looks}{damaged}, from {from} to {to}\n")
    }

    /// For programs.
    pub fn json(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string(self).context("the curves")? + "\n")
    }

    /// For a browser.
    pub fn page(&self, source: &str) -> Result<Page, Failure> {
        let axes = || (Axis::new("time", PageUnit::Seconds), Axis::new("", PageUnit::Bytes));
        let chart = |title, names: &mut dyn Iterator<Item = &&'static str>| {
            let (x, y) = axes();
            names.fold(Chart::lines(title, x, y), |chart, name| {
                let bytes = format!("/totals/{}/*", path::key(name));
                chart.with(Series::new(*name, "/seconds/*", bytes))
            })
        };
        let is_of_machine = |name: &&&str| name.starts_with(OF_MACHINE);
        let totals = chart("Memory", &mut self.totals.keys().filter(|name| !is_of_machine(name)));
        let curves = |title, key, order: &[usize]| {
            let (x, y) = axes();
            order.iter().take(SHOWN).fold(Chart::lines(title, x, y), |chart, at| {
                let bytes = format!("/caches/{at}/{key}/*");
                chart.with(Series::new(self.caches[*at].name.clone(), "/seconds/*", bytes))
            })
        };
        let by_peak: Vec<usize> = (0..self.caches.len()).collect();
        let mut by_growth = by_peak.clone();
        by_growth.sort_by_key(|at| Reverse(self.caches[*at].most_grown()));
        let caches = curves("The caches with the largest peaks", "bytes", &by_peak);
        let growth = curves("Growth of caches since their first look", "grown", &by_growth);
        let section = Section::new("Over time").text(self.head().trim_end());
        Ok(html::page(format!("Caches of {source} over time"), self.json()?).with(
            match self.totals.keys().any(|name| is_of_machine(&name)) {
                false => section.chart(totals).chart(growth).chart(caches),
                true => section.chart(totals).chart(growth).chart(caches).chart(chart(
                    "Memory of the machine",
                    &mut self.totals.keys().filter(is_of_machine),
                )),
            },
        ))
    }
}

/// What the looks have told so far.
struct Curves {
    looks: usize,
    picked: CacheFilter,
    totals: BTreeMap<&'static str, Vec<Option<u64>>>,
    caches: BTreeMap<String, Curve>,
}

impl Curves {
    /// Of so many looks.
    fn new(looks: usize, picked: &CacheFilter) -> Curves {
        let picked = CacheFilter { top: None, empty: Empty::Shown, ..picked.clone() };
        Curves { looks, picked, totals: BTreeMap::new(), caches: BTreeMap::new() }
    }

    fn add(&mut self, at: usize, look: &Snapshot) {
        for total in TOTALS.iter().filter(|total| total.unit == Unit::Bytes) {
            if let Some(known) = look.total(total.name).and_then(|value| value.high()) {
                let unknown = || vec![None; self.looks];
                self.totals.entry(total.name).or_insert_with(unknown)[at] = Some(known);
            }
        }
        for cache in self.picked.caches(look).caches {
            let of = |name| field(name).and_then(|field| value(field, look, cache));
            let new = || Curve::new(&cache.name, self.looks);
            let curve = self.caches.entry(cache.name.clone()).or_insert_with(new);
            curve.bytes[at] = of("bytes").and_then(|bytes| bytes.high());
            if let Some((low, high)) = of("live").and_then(|live| live.bounds()) {
                (curve.live_low[at], curve.live_high[at]) = (Some(low), Some(high));
            }
        }
    }

    /// The caches, the largest at its peak first, without those that never took memory.
    fn largest(&mut self, top: Option<usize>) -> Vec<Curve> {
        let peak = |curve: &Curve| curve.bytes.iter().flatten().max().copied();
        let caches = std::mem::take(&mut self.caches).into_values();
        let mut caches: Vec<Curve> = caches.filter(|curve| peak(curve) > Some(0)).collect();
        caches.sort_by_key(|curve| Reverse(peak(curve)));
        caches.truncate(top.unwrap_or(usize::MAX));
        caches.iter_mut().for_each(Curve::grow);
        caches
    }
}

impl Curve {
    fn new(name: &str, looks: usize) -> Curve {
        let unknown = || vec![None; looks];
        Curve {
            name: name.into(),
            bytes: unknown(),
            grown: vec![None; looks],
            live_low: unknown(),
            live_high: unknown(),
        }
    }

    fn grow(&mut self) {
        let first = self.bytes.iter().flatten().next().copied();
        let more = |bytes: u64| Some(i64::try_from(bytes).ok()? - i64::try_from(first?).ok()?);
        self.grown = self.bytes.iter().map(|bytes| more((*bytes)?)).collect();
    }

    fn most_grown(&self) -> u64 {
        self.grown.iter().flatten().map(|grown| grown.unsigned_abs()).max().unwrap_or(0)
    }
}
