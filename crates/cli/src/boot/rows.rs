//! What a boot is foretold to use under several rules or on several machines: a line each.
//!
//! Neighbour: [`super::report`] has the caches of one. Invariant: the table's numbers are the JSON's.

use super::report::machine;
use crate::terminal::{Colour, Grid};
use slabyard_ask::boot::side::{Side, orders_of};
use slabyard_ask::boot::{Boots, Variant};
use slabyard_lab::population::measured;
use slabyard_lab::snapshot::KernelSnapshot;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The boot as it was, and each variant.
pub(super) struct Rows<'a> {
    pub(super) snapshot: &'a KernelSnapshot,
    pub(super) boots: &'a Boots,
}

impl Rows<'_> {
    /// A heading, then the base and each variant: name, KiB, change, between which KiB nine of ten
    /// guests were, slabs, and KiB of each order.
    pub(super) fn cells(&self) -> Vec<Vec<String>> {
        let all: Vec<&Variant> =
            std::iter::once(&self.boots.base).chain(&self.boots.variants).collect();
        let sides: Vec<Side<'_>> = all.iter().map(|variant| variant.side()).collect();
        let orders = orders_of(&sides);
        let mut heading = ["", "KiB", "change", "nine of ten", "slabs"].map(String::from).to_vec();
        heading.extend(orders.iter().map(|order| format!("order {order}")));
        let mut rows = vec![heading];
        for (nth, (variant, side)) in all.iter().zip(&sides).enumerate() {
            let (before, kib) = (self.boots.base.outcome.slab_kb, variant.outcome.slab_kb);
            let is_same = variant.errors.is_empty();
            let change = match nth {
                0 => String::new(),
                _ if is_same && kib == before => "none".into(),
                _ => format!("{:+.1} %", (kib as f64 / before.max(1) as f64 - 1.0) * 100.0),
            };
            let range = side.totals.range().unwrap_or_else(|| "not known".into());
            let range = if is_same { String::new() } else { range };
            let mut row = vec![variant.name.clone(), kib.to_string(), change, range];
            row.push(side.totals.slabs.to_string());
            row.extend(orders.iter().map(|order| side.of_order(*order).1.to_string()));
            rows.push(row);
        }
        rows
    }

    /// What is known of the error of each kind of change.
    pub(super) fn errors(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let all = self.boots.variants.iter().flat_map(|variant| &variant.errors);
        let once = all.filter(|error| seen.insert((error.change, error.page_size)));
        once.filter_map(|error| measured::line(std::slice::from_ref(error))).collect()
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!("base: {}\n", machine(&self.boots.base.settings));
        let cells = self.cells();
        let heading: Vec<&str> = cells[0].iter().map(|head| &**head).collect();
        let mut grid = Grid::new(&heading);
        cells[1..].iter().for_each(|row| grid.push(row.clone()));
        grid.write(&mut text, Colour::of_stdout());
        let _ = writeln!(text, "orders and totals of nine of ten guests are in KiB");
        for line in self.errors() {
            let _ = writeln!(text, "error to expect: {line}");
        }
        text
    }
}
