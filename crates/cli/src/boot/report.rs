//! What a boot is foretold to use, as a table and as JSON.

use crate::failure::Failure;
use anyhow::Context;
use serde::Serialize;
use slabyard_lab::population::measured::{self, Measured};
use slabyard_lab::population::{CacheOutcome, Outcome};
use slabyard_lab::rules::Settings;
use slabyard_lab::snapshot::KernelSnapshot;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
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

/// A boot on a machine. The bytes of its caches and of its orders each add up to the totals.
#[derive(Serialize)]
pub(super) struct Side<'a> {
    release: String,
    page_size: u32,
    present_cpus: u32,
    possible_cpus: u32,
    pub(super) orders: Vec<OfOrder>,
    caches: Vec<Row<'a>>,
    pub(super) totals: Totals,
}

/// All slabs of an order.
#[derive(Serialize)]
pub(super) struct OfOrder {
    pub(super) order: u8,
    pub(super) slabs: u64,
    pub(super) bytes: u64,
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
pub(super) struct Totals {
    pub(super) slabs: u64,
    pub(super) bytes: u64,
    /// Between these, nine of ten guests were; null if no such guests were compared.
    pub(super) least_bytes: Option<u64>,
    pub(super) most_bytes: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct Expected {
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

impl<'a> Side<'a> {
    pub(super) fn of(settings: &Settings, outcome: &'a Outcome, errors: &[Measured]) -> Side<'a> {
        let machine = &settings.machine;
        let row = |cache: &'a CacheOutcome| Row {
            name: &cache.id,
            order: cache.order,
            objs_per_slab: cache.objects,
            slabs: cache.slabs,
            bytes: cache.slab_kb << 10,
        };
        Side {
            release: settings.rules_name(),
            page_size: machine.page_size,
            present_cpus: machine.present_cpus,
            possible_cpus: machine.possible_cpus,
            orders: orders(outcome),
            caches: outcome.caches.iter().map(row).collect(),
            totals: Totals::of(outcome, errors),
        }
    }

    /// Slabs and KiB of an order.
    pub(super) fn of_order(&self, order: u8) -> (u64, u64) {
        let of = self.orders.iter().find(|of| of.order == order);
        of.map_or((0, 0), |of| (of.slabs, of.bytes >> 10))
    }
}

impl Totals {
    fn of(outcome: &Outcome, errors: &[Measured]) -> Totals {
        let bytes = outcome.slab_kb << 10;
        // Errors are shares of the real total, which this one is not.
        let real = |off: f64| (bytes as f64 / (1.0 + off)).round() as u64;
        let expected = measured::expected(errors);
        Totals {
            slabs: outcome.caches.iter().map(|cache| cache.slabs).sum(),
            bytes,
            least_bytes: expected.map(real),
            most_bytes: expected.map(|off| real(-off)),
        }
    }

    /// In KiB and words, between which nine of ten guests were.
    pub(super) fn range(&self) -> Option<String> {
        Some(format!("{} to {}", self.least_bytes? >> 10, self.most_bytes? >> 10))
    }
}

/// In their order; those without a slab are left out.
fn orders(outcome: &Outcome) -> Vec<OfOrder> {
    let mut orders = BTreeMap::new();
    for cache in outcome.caches.iter().filter(|cache| cache.slabs > 0) {
        let none = OfOrder { order: cache.order, slabs: 0, bytes: 0 };
        let of: &mut OfOrder = orders.entry(cache.order).or_insert(none);
        of.slabs += cache.slabs;
        of.bytes += cache.slab_kb << 10;
    }
    orders.into_values().collect()
}

/// The orders of any of the boots.
pub(super) fn orders_of(sides: &[Side<'_>]) -> BTreeSet<u8> {
    sides.iter().flat_map(|side| &side.orders).map(|of| of.order).collect()
}

/// What is known of the errors.
pub(super) fn expected(errors: &[Measured]) -> Vec<Expected> {
    let one = |measured: &Measured| Expected {
        change: measured.change.name(),
        page_size: measured.page_size,
        pairs: measured.pairs,
        low: measured.errors.map(|errors| -errors.expected),
        high: measured.errors.map(|errors| errors.expected),
        lowest: measured.errors.map(|errors| errors.range.0),
        highest: measured.errors.map(|errors| errors.range.1),
    };
    errors.iter().map(one).collect()
}

impl Report<'_> {
    /// Before and after.
    pub(super) fn sides(&self) -> [Side<'_>; 2] {
        [Side::of(self.own, &self.before, &[]), Side::of(self.new, &self.after, &self.errors)]
    }

    pub(super) fn json(&self) -> Result<String, Failure> {
        let [before, after] = self.sides();
        let json = Json {
            dump: self.snapshot.dump.as_deref(),
            kernel: self.snapshot.kernel.as_deref(),
            before,
            after,
            error_to_expect: expected(&self.errors),
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
        let sides = self.sides();
        let slabs = arrow(sides[0].totals.slabs, sides[1].totals.slabs);
        let kib = [self.before.slab_kb, self.after.slab_kb];
        row(&mut text, width, "all caches", "", &slabs, kib);
        for order in orders_of(&sides) {
            let [(slabs, kib), (slabs_after, kib_after)] =
                [&sides[0], &sides[1]].map(|side| side.of_order(order));
            let name = format!("of order {order}");
            row(&mut text, width, &name, "", &arrow(slabs, slabs_after), [kib, kib_after]);
        }
        if rest > 0 {
            let _ = writeln!(text, "{rest} more caches change less: --all shows them");
        }
        if let Some(range) = sides[1].totals.range().filter(|_| !self.errors.is_empty()) {
            let _ = writeln!(text, "nine of ten guests had {range} KiB");
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
