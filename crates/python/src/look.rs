//! Slab memory as it is: of the running kernel, of a process, or of a file.
//!
//! Neighbour: `slabyard-observe` reads it. Invariant: a number that a source only bounds is null, and
//! its bounds are in two columns beside it.

use crate::arguments::values;
use crate::columns::{Column, Holds, named, table};
use crate::error::cannot;
use crate::table::{Table, as_table};
use crate::work;
use pyo3::prelude::*;
use serde_json::{Map, Value as Json};
use slabyard_ask::{Error, Listener as _};
use slabyard_observe::fields::{self, FIELDS, Field, FieldKind, TOTALS, Unit};
use slabyard_observe::source::{self, ReadScope, SourceName};
use slabyard_observe::view::cell::clean;
use slabyard_observe::view::json::ValueJson;
use slabyard_observe::{Cache, Snapshot as Sample, file};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The slab memory of one allocator at one moment.
#[pyclass(frozen, module = "slabyard")]
pub struct Snapshot {
    sample: Sample,
    /// A row for each cache, with all fields that `slabyard list --help` names.
    #[pyo3(get)]
    caches: Table,
}

/// Reads the running `kernel`, a process by its id, or the file of a snapshot or a core.
#[pyfunction]
#[pyo3(signature = (source = None, *, progress = None))]
pub fn snapshot(
    py: Python<'_>,
    source: Option<&Bound<'_, PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Snapshot> {
    let named = match source {
        None => SourceName::Kernel,
        Some(source) => match source.extract::<u32>() {
            Ok(pid) => SourceName::Process(pid),
            Err(_) => {
                let path: PathBuf = source.extract()?;
                match path.to_str() {
                    // These three are typed as text; a path of such a name has a directory.
                    Some(text) => text.parse().unwrap_or(SourceName::File(path)),
                    None => SourceName::File(path),
                }
            }
        },
    };
    work::run(py, progress, move |watch| {
        let want = ReadScope { all: true, slabs: false };
        let sample = source::sample(&named, want).map_err(anyhow::Error::from)?;
        if matches!(named, SourceName::Kernel | SourceName::Process(_)) {
            for missing in &sample.missing {
                let (what, why) = (clean(&missing.what), clean(&missing.why));
                watch.say(&format!("{named}: not all of it could be read: {what}: {why}"));
            }
        }
        let caches = rows(&sample)?;
        Ok(Snapshot { sample, caches })
    })
}

fn rows(sample: &Sample) -> Result<Table, Error> {
    let row = |cache: &Cache| -> serde_json::Result<Map<String, Json>> {
        let mut row = Map::new();
        for field in FIELDS {
            let value = fields::value(field, sample, cache);
            let value = serde_json::to_value(ValueJson(value.as_ref(), field.unit))?;
            if is_bounded(field) {
                let (low, high) = match &value {
                    Json::Array(ends) => (&ends[0], &ends[1]),
                    exact => (exact, exact),
                };
                row.insert(format!("{}_low", field.name), low.clone());
                row.insert(format!("{}_high", field.name), high.clone());
            }
            let exact = Some(value).filter(|value| !value.is_array());
            row.insert(field.name.into(), exact.unwrap_or_default());
        }
        row.insert("name".into(), cache.name.clone().into());
        row.insert("id".into(), cache.id.clone().into());
        row.insert("other_names".into(), cache.aliases.clone().into());
        Ok(row)
    };
    let rows = sample.caches.iter().map(row).collect::<Result<Vec<_>, _>>();
    Ok(table(&list_columns(), rows.map_err(anyhow::Error::from)?)?)
}

/// True for what goes up and down: of a process it moves while it is read, and of the kernel's active
/// objects nobody says how many are free.
fn is_bounded(field: &Field) -> bool {
    field.kind == FieldKind::Gauge && field.unit != Unit::Text
}

fn list_columns() -> Vec<Column> {
    let text = |name| named(name, name, Holds::Text);
    let mut all: Vec<Column> = ["name", "id", "other_names"].map(text).into();
    for field in FIELDS {
        let holds = match field.unit {
            Unit::Share | Unit::Hundredths => Holds::Real,
            Unit::Text => Holds::Text,
            _ => Holds::Count,
        };
        all.push(named(field.name, field.name, holds));
        if is_bounded(field) {
            for end in ["low", "high"] {
                let name = format!("{}_{end}", field.name);
                all.push(named(&name, &name, holds));
            }
        }
    }
    all
}

as_table!(Snapshot, caches);

#[pymethods]
impl Snapshot {
    /// The whole of the source, by the names of `slabyard list --json`; a number that is only bounded is
    /// a list of both ends.
    #[getter]
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let known = |total: &'static Field| ValueJson(self.sample.total(total.name), total.unit);
        let all: BTreeMap<&str, ValueJson<'_>> =
            TOTALS.iter().map(|total| (total.name, known(total))).collect();
        values(py, &all)
    }

    /// Of which kind it is, and which one.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values(py, &self.sample.source)
    }

    /// The machine, as far as it is known.
    #[getter]
    fn machine<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values(py, &self.sample.machine)
    }

    /// When it was taken: milliseconds since 1970.
    #[getter]
    fn taken_at_ms(&self) -> u64 {
        self.sample.taken_at_ms
    }

    /// Writes it to a file that every command takes as its SOURCE; packed if it ends in `.zst`.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        file::save(&self.sample, &path).map_err(cannot)
    }

    fn __repr__(&self) -> String {
        format!("<slabyard.Snapshot: {} caches>", self.caches.__len__())
    }
}
