//! Where a cache's objects and bytes are: the places add up to the bytes of its slabs if the source
//! reports exact numbers.

use crate::fields::{self, Unit, field};
use crate::snapshot::{Cache, Snapshot};
use crate::value::Value;
use crate::view::grid::{Grid, Weight};
use crate::view::memory::ratio;
use crate::view::{Style, cell};
use std::io::{self, Write};

/// Fields that are places of objects, in the order of their walk home.
pub const PLACES: &[&str] = &["live", "parked_cpu", "parked_node", "in_transit", "free_partial"];

pub(super) fn write(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    cache: &Cache,
    style: Style,
) -> io::Result<()> {
    let get = |name: &str| field(name).and_then(|f| fields::value(f, snapshot, cache));
    let stride = cache.exact("slab_size");
    let in_bytes = |objects: &Value| objects.times(stride?);
    let all = get("bytes");
    let mut grid = Grid::new(["place", "objects", "bytes", "share"]);
    let row = |name: &str, objects: Option<&Value>, bytes: Option<Value>| {
        [
            name.to_owned(),
            objects.map_or_else(String::new, |v| cell::value(Some(v), Unit::Objects, style.units)),
            cell::bytes(bytes.as_ref(), style.units),
            cell::value(ratio(bytes.as_ref(), all.as_ref()).as_ref(), Unit::Share, style.units),
        ]
    };
    for name in PLACES {
        if let Some(objects) = get(name) {
            grid.push(Weight::Row, row(name, Some(&objects), in_bytes(&objects)));
        }
    }
    let objects = get("total_objects");
    if let Some(padding) = padding(all.as_ref(), objects.as_ref().and_then(in_bytes).as_ref()) {
        grid.push(Weight::Row, row("padding", None, Some(padding)));
    }
    grid.push(Weight::Total, row("all", objects.as_ref(), all.clone()));
    writeln!(out)?;
    grid.write(out, style.colour)
}

/// What is behind the last objects of slabs.
fn padding(all: Option<&Value>, objects: Option<&Value>) -> Option<Value> {
    Some(Value::Exact(all?.exact()?.checked_sub(objects?.exact()?)?))
}
