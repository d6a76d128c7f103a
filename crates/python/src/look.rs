//! Slab memory as it is: of the running kernel, of a process, or of a file.
//!
//! Neighbour: `slabyard-observe` reads it. Invariant: a number that a source only bounds is null, and
//! its bounds are in two columns beside it.

use crate::arguments::values;
use crate::columns::{Column, Holds, named, table};
use crate::error::cannot;
use crate::table::Table;
use crate::work;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::{Map, Value as Json};
use slabyard_ask::Error;
use slabyard_observe::fields::{self, FIELDS, TOTALS, Unit};
use slabyard_observe::source::{self, ReadScope, SourceName};
use slabyard_observe::{Snapshot as Sample, Value, file};
use std::path::PathBuf;

/// The fields that a kernel may only bound: it does not say how many of its active objects are free.
const BOUNDED: [&str; 6] = ["live", "parked", "used", "live_bytes", "parked_cpu", "parked_node"];

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
                let (what, why) = (&missing.what, &missing.why);
                slabyard_ask::Listener::say(
                    watch,
                    &format!("{named}: not all of it could be read: {what}: {why}"),
                );
            }
        }
        let caches = rows(&sample)?;
        Ok(Snapshot { sample, caches })
    })
}

fn rows(sample: &Sample) -> Result<Table, Error> {
    let row = |cache| {
        let mut row = Map::new();
        for field in FIELDS {
            let value = fields::value(field, sample, cache);
            if let Some((low, high)) = value.as_ref().and_then(Value::bounds) {
                row.insert(format!("{}_low", field.name), number(low, field.unit));
                row.insert(format!("{}_high", field.name), number(high, field.unit));
            }
            let value = match value {
                Some(Value::Exact(exact)) => number(exact, field.unit),
                Some(Value::Text(text)) => Json::String(text),
                Some(Value::Range(..)) | None => Json::Null,
            };
            row.insert(field.name.into(), value);
        }
        row
    };
    let rows = sample.caches.iter().map(|cache| {
        let mut row = row(cache);
        row.insert("name".into(), cache.name.clone().into());
        row.insert("id".into(), cache.id.clone().into());
        row.insert("other_names".into(), cache.aliases.clone().into());
        row
    });
    Ok(table(&list_columns(), rows)?)
}

/// As the command's JSON has it: a share is a fraction of 1.
fn number(number: u64, unit: Unit) -> Json {
    match unit {
        Unit::Share => (number as f64 / 1e4).into(),
        Unit::Hundredths => (number as f64 / 1e2).into(),
        _ => number.into(),
    }
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
        if BOUNDED.contains(&field.name) {
            for end in ["low", "high"] {
                let name = format!("{}_{end}", field.name);
                all.push(named(&name, &name, holds));
            }
        }
    }
    all
}

#[pymethods]
impl Snapshot {
    /// The whole of the source, by the names of `slabyard list --json`; a number that is only bounded is
    /// a list of both ends.
    #[getter]
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let known = |name: &str| self.sample.total(name);
        let all: Map<String, Json> = TOTALS
            .iter()
            .map(|total| Ok((total.name.to_owned(), serde_json::to_value(known(total.name))?)))
            .collect::<Result<_, serde_json::Error>>()
            .map_err(cannot)?;
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

    /// The caches, as a stream of Arrow's C interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.caches.__arrow_c_stream__(py, requested_schema)
    }

    fn __len__(&self) -> usize {
        self.caches.__len__()
    }

    fn __repr__(&self) -> String {
        format!("<slabyard.Snapshot: {} caches>", self.caches.__len__())
    }
}
