//! Caches as comma-separated values (RFC 4180): a heading, then one line per cache.
//!
//! A cell has the format of a table with plain units: a number as sampled, a fraction of 1 with
//! four digits, `low..high` for a range; an empty cell means unknown.

use super::list::{ListContext, Options};
use super::{Units, cell as look};
use crate::fields::{self, Unit};
use crate::snapshot::Snapshot;
use crate::value::Value;
use std::io::{self, Write};

/// Writes the caches; without what is around them, the heading is left out.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, snapshot: &Snapshot, options: &Options) -> io::Result<()> {
    let picked = options.pick.caches(snapshot);
    let columns = options.columns.fields(snapshot, &picked.caches);
    let mut csv = csv::Writer::from_writer(out);
    if options.around == ListContext::Shown {
        csv.write_record(std::iter::once("name").chain(columns.iter().map(|c| c.name)))?;
    }
    for cache in picked.caches {
        let values =
            columns.iter().map(|c| cell(fields::value(c, snapshot, cache).as_ref(), c.unit));
        csv.write_record(std::iter::once(cache.name.clone()).chain(values))?;
    }
    csv.flush()
}

/// A value without units, nothing if it is unknown.
#[must_use]
pub fn cell(value: Option<&Value>, unit: Unit) -> String {
    match value {
        None => String::new(),
        Some(Value::Text(text)) => text.clone(),
        value => look::value(value, unit, Units::Plain),
    }
}
