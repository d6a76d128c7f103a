//! What a boot is foretold to use, as a table and as JSON.

use crate::failure::Failure;
use anyhow::Context;
use serde::Serialize;
use slabyard_lab::population::measured::{self, Measured};
use slabyard_lab::population::{CacheOutcome, Outcome};
use slabyard_lab::rules::Settings;
use slabyard_lab::snapshot::KernelSnapshot;
use std::cmp::Reverse;
use std::fmt::Write;

/// Caches that the table without `--all` and the chart show.
pub(super) const SHOWN: usize = 20;

/// Before and after.
pub(super) struct Report<'a> {
    pub(super) snapshot: &'a KernelSnapshot,
    pub(super) own: &'a Settings,
    pub(super) new: &'a Settings,
    pub(super) before: Outcome,
    pub(super) after: Outcome,
    pub(super) errors: Vec<Measured>,
}

#[derive(Serialize)]
struct Json<'a> {
    dump: Option<&'a str>,
    kernel: Option<&'a str>,
    before: Side<'a>,
    after: Side<'a>,
    error_to_expect: Vec<Expected>,
}

#[derive(Serialize)]
struct Side<'a> {
    release: String,
    page_size: u32,
    present_cpus: u32,
    possible_cpus: u32,
    caches: Vec<Row<'a>>,
    totals: Totals,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    order: u8,
    objs_per_slab: u32,
    slabs: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Totals {
    slabs: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Expected {
    change: &'static str,
    /// Bytes of the compared guests' pages.
    page_size: u32,
    pairs: usize,
    /// Shares of the real bytes of all caches, between which nine of ten pairs are; null if no
    /// guests were compared.
    low: Option<f64>,
    high: Option<f64>,
    /// The range of all pairs.
    lowest: Option<f64>,
    highest: Option<f64>,
}

fn side<'a>(settings: &Settings, outcome: &'a Outcome) -> Side<'a> {
    let machine = &settings.machine;
    let row = |cache: &'a CacheOutcome| Row {
        name: &cache.id,
        order: cache.order,
        objs_per_slab: cache.objects,
        slabs: cache.slabs,
        bytes: cache.slab_kb << 10,
    };
    let slabs = outcome.caches.iter().map(|cache| cache.slabs).sum();
    Side {
        release: settings.rules_name(),
        page_size: machine.page_size,
        present_cpus: machine.present_cpus,
        possible_cpus: machine.possible_cpus,
        caches: outcome.caches.iter().map(row).collect(),
        totals: Totals { slabs, bytes: outcome.slab_kb << 10 },
    }
}

impl Report<'_> {
    pub(super) fn json(&self) -> Result<String, Failure> {
        let expected = |measured: &Measured| Expected {
            change: measured.change.name(),
            page_size: measured.page_size,
            pairs: measured.pairs,
            low: measured.errors.map(|errors| -errors.expected),
            high: measured.errors.map(|errors| errors.expected),
            lowest: measured.errors.map(|errors| errors.range.0),
            highest: measured.errors.map(|errors| errors.range.1),
        };
        let json = Json {
            dump: self.snapshot.dump.as_deref(),
            kernel: self.snapshot.kernel.as_deref(),
            before: side(self.own, &self.before),
            after: side(self.new, &self.after),
            error_to_expect: self.errors.iter().map(expected).collect(),
        };
        let text = serde_json::to_string_pretty(&json).context("JSON")?;
        Ok(text + "\n")
    }

    /// Caches with slabs, as they stand in both outcomes, those whose bytes change most first.
    pub(super) fn by_change(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.before.caches.len()).collect();
        places.retain(|at| self.pair(*at).0.slabs + self.pair(*at).1.slabs > 0);
        places
            .sort_by_key(|at| Reverse(self.pair(*at).0.slab_kb.abs_diff(self.pair(*at).1.slab_kb)));
        places
    }

    /// A cache before and after.
    pub(super) fn pair(&self, at: usize) -> (&CacheOutcome, &CacheOutcome) {
        (&self.before.caches[at], &self.after.caches[at])
    }

    pub(super) fn table(&self, all: bool) -> String {
        let pairs: Vec<_> = self.by_change().iter().map(|at| self.pair(*at)).collect();
        let shown = if all { pairs.len() } else { pairs.len().min(SHOWN) };
        let width = pairs[..shown].iter().map(|pair| pair.0.id.len()).max().unwrap_or(0).max(10);
        let mut text = String::new();
        for (name, settings) in [("before", self.own), ("after", self.new)] {
            let _ = writeln!(text, "{name}: {}", machine(settings));
        }
        let _ = writeln!(
            text,
            "{:<width$} {:>11} {:>17} {:>21} {:>8}",
            "cache", "order", "slabs", "KiB", "change"
        );
        for (before, after) in &pairs[..shown] {
            let order = arrow(before.order, after.order);
            let slabs = arrow(before.slabs, after.slabs);
            row(&mut text, width, &before.id, &order, &slabs, [before.slab_kb, after.slab_kb]);
        }
        let rest = pairs.len() - shown;
        let sum = |outcome: &Outcome| outcome.caches.iter().map(|cache| cache.slabs).sum::<u64>();
        let slabs = arrow(sum(&self.before), sum(&self.after));
        let kib = [self.before.slab_kb, self.after.slab_kb];
        row(&mut text, width, "all caches", "", &slabs, kib);
        if rest > 0 {
            let _ = writeln!(text, "{rest} more caches change less: --all shows them");
        }
        if let Some(line) = measured::line(&self.errors) {
            let _ = writeln!(text, "error to expect: {line}");
        }
        text
    }
}

/// Both, where they differ.
pub(super) fn arrow<T: PartialEq + std::fmt::Display>(before: T, after: T) -> String {
    if before == after { before.to_string() } else { format!("{before} → {after}") }
}

fn row(text: &mut String, width: usize, name: &str, order: &str, slabs: &str, kib: [u64; 2]) {
    let [before, after] = kib;
    let change = match before {
        0 => "new".into(),
        _ => format!("{:+.1} %", (after as f64 / before as f64 - 1.0) * 100.0),
    };
    let kib = arrow(before, after);
    let _ = writeln!(text, "{name:<width$} {order:>11} {slabs:>17} {kib:>21} {change:>8}");
}

/// Rules and machine in words.
pub(super) fn machine(settings: &Settings) -> String {
    let machine = &settings.machine;
    format!(
        "release {}, pages of {} KiB, {} CPUs of {} possible; a slab should hold {} objects, of \
         order {} at most",
        settings.rules_name(),
        machine.page_size >> 10,
        machine.present_cpus,
        machine.possible_cpus,
        settings.wanted_objects(),
        settings.max_order(),
    )
}
