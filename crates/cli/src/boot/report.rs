//! What a boot is foretold to use, as a table and as JSON.

use crate::failure::Failure;
use anyhow::Context;
use slabyard_ask::boot::side::{Side, orders_of};
use slabyard_ask::boot::{Boots, Variant};
use slabyard_lab::population::CacheOutcome;
use slabyard_lab::population::measured;
use slabyard_lab::rules::Settings;
use slabyard_lab::snapshot::KernelSnapshot;
use std::cmp::Reverse;
use std::fmt::Write;

/// Caches that the table without `--all` and the chart show.
pub(super) const SHOWN: usize = 20;

/// Before and after, if one variant was asked for.
pub(super) struct Report<'a> {
    pub(super) snapshot: &'a KernelSnapshot,
    pub(super) boots: &'a Boots,
}

/// What a boot's JSON has.
pub(super) fn json(snapshot: &KernelSnapshot, boots: &Boots) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(&boots.json(snapshot)).context("JSON")? + "\n")
}

impl Report<'_> {
    /// Before and after.
    pub(super) fn both(&self) -> [&Variant; 2] {
        [&self.boots.base, &self.boots.variants[0]]
    }

    /// What the JSON has of both.
    pub(super) fn sides(&self) -> [Side<'_>; 2] {
        self.both().map(Variant::side)
    }

    /// Caches with slabs, as they stand in both outcomes, those whose bytes change most first.
    pub(super) fn by_change(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.boots.base.outcome.caches.len()).collect();
        places.retain(|at| self.pair(*at).0.slabs + self.pair(*at).1.slabs > 0);
        places
            .sort_by_key(|at| Reverse(self.pair(*at).0.slab_kb.abs_diff(self.pair(*at).1.slab_kb)));
        places
    }

    /// A cache before and after.
    pub(super) fn pair(&self, at: usize) -> (&CacheOutcome, &CacheOutcome) {
        let [before, after] = self.both().map(|boot| &boot.outcome.caches[at]);
        (before, after)
    }

    pub(super) fn table(&self, all: bool) -> String {
        let pairs: Vec<_> = self.by_change().iter().map(|at| self.pair(*at)).collect();
        let shown = if all { pairs.len() } else { pairs.len().min(SHOWN) };
        let width = pairs[..shown].iter().map(|pair| pair.0.id.len()).max().unwrap_or(0).max(10);
        let mut text = String::new();
        let [before, after] = self.both();
        for (name, boot) in [("before", before), ("after", after)] {
            let _ = writeln!(text, "{name}: {}", machine(&boot.settings));
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
        let kib = [before, after].map(|boot| boot.outcome.slab_kb);
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
        if let Some(range) = sides[1].totals.range().filter(|_| !after.errors.is_empty()) {
            let _ = writeln!(text, "nine of ten guests had {range} KiB");
        }
        if let Some(line) = measured::line(&after.errors) {
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
