//! How many caches have slabs of each order, and how much memory these slabs take.

use super::cell;
use super::grid::{Grid, Weight};
use super::memory::ratio;
use super::{Style, json};
use crate::fields::{self, Unit, field};
use crate::snapshot::{self, Cache, Snapshot};
use crate::value::Value;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The slabs of one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Order {
    /// A slab is 2^order pages; `None` for caches that do not tell.
    pub order: Option<u64>,
    /// How many caches have it.
    pub caches: u64,
    /// Sum over these caches; `None` if one does not tell.
    pub slabs: Option<Value>,
    /// Memory of these slabs.
    pub bytes: Option<Value>,
}

/// The caches by order, the unknown order last.
#[must_use]
pub fn orders(snapshot: &Snapshot, caches: &[&Cache]) -> Vec<Order> {
    let mut orders: BTreeMap<u64, Order> = BTreeMap::new();
    for cache in caches {
        let order = cache.exact("order");
        // No order is as high as this.
        let row = orders.entry(order.unwrap_or(u64::MAX)).or_insert(Order {
            order,
            caches: 0,
            slabs: Some(Value::Exact(0)),
            bytes: Some(Value::Exact(0)),
        });
        let add = |sum: &Option<Value>, name: &str| {
            let value = field(name).and_then(|f| fields::value(f, snapshot, cache))?;
            sum.as_ref()?.plus(&value)
        };
        row.caches += 1;
        row.slabs = add(&row.slabs, "slabs");
        row.bytes = add(&row.bytes, "bytes");
    }
    orders.into_values().collect()
}

/// Writes a table.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, orders: &[Order], style: Style) -> io::Result<()> {
    let mut grid = Grid::new(["order", "caches", "slabs", "bytes", "share"]);
    let sum = |get: fn(&Order) -> &Option<Value>| {
        orders.iter().try_fold(Value::Exact(0), |sum, order| sum.plus(get(order).as_ref()?))
    };
    let bytes = sum(|o| &o.bytes);
    let row = |name: String, caches: u64, slabs: Option<&Value>, of: Option<&Value>| {
        [
            name,
            caches.to_string(),
            cell::value(slabs, Unit::Slabs, style.units),
            cell::bytes(of, style.units),
            cell::value(ratio(of, bytes.as_ref()).as_ref(), Unit::Share, style.units),
        ]
    };
    for order in orders {
        let name = order.order.map_or_else(|| cell::UNKNOWN.into(), |n| n.to_string());
        let cells = row(name, order.caches, order.slabs.as_ref(), order.bytes.as_ref());
        grid.push(Weight::Row, cells);
    }
    let caches = orders.iter().map(|o| o.caches).sum();
    let slabs = sum(|o| &o.slabs);
    grid.push(Weight::Total, row("total".into(), caches, slabs.as_ref(), bytes.as_ref()));
    grid.write(out, style.colour)
}

/// Writes JSON: `{"source", "taken_at", "orders": [...]}`.
///
/// # Errors
/// Those of `out`.
pub fn write_json(out: &mut dyn Write, snapshot: &Snapshot, orders: &[Order]) -> io::Result<()> {
    #[derive(Serialize)]
    struct Shape<'a> {
        source: &'a crate::snapshot::Source,
        taken_at: String,
        orders: &'a [Order],
    }
    let taken_at = snapshot::time(snapshot.taken_at_ms);
    json::line(out, &Shape { source: &snapshot.source, taken_at, orders })
}

/// Writes CSV.
///
/// # Errors
/// Those of `out`.
pub fn write_csv(out: &mut dyn Write, orders: &[Order]) -> io::Result<()> {
    let mut csv = ::csv::Writer::from_writer(out);
    csv.write_record(["order", "caches", "slabs", "bytes"])?;
    for order in orders {
        let cell = |value: Option<&Value>| super::csv::cell(value, Unit::Count);
        csv.write_record([
            order.order.map_or_else(String::new, |n| n.to_string()),
            order.caches.to_string(),
            cell(order.slabs.as_ref()),
            cell(order.bytes.as_ref()),
        ])?;
    }
    csv.flush()
}
