//! Settings tuned to loads: the front, what is recommended, and how it held.
//!
//! Neighbour: `slabyard-ask` searches and judges. Invariant: all is as `slabyard tune --json` has it.

use crate::arguments::{question, values};
use crate::columns::{Holds, columns, named, table};
use crate::error::cannot;
use crate::table::{Table, as_table};
use crate::work;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use slabyard_ask::tune::tuned::{self, Tuned};
use std::path::PathBuf;

/// What was found for some loads.
#[pyclass(frozen, module = "slabyard")]
pub struct Tune {
    /// The front, smallest first, and the default: memory, peak, parked and work as parts of the
    /// default's.
    #[pyo3(get)]
    table: Table,
    /// What each judging load said of the best point, which was found without it.
    #[pyo3(get)]
    judges: Table,
    found: Tuned,
}

/// Tunes for the loads of traces, by the rules and on the machine of `keys`.
#[pyfunction]
#[pyo3(signature = (files, *, progress = None, **keys))]
pub fn tune(
    py: Python<'_>,
    files: Vec<PathBuf>,
    progress: Option<&Bound<'_, PyAny>>,
    keys: Option<&Bound<'_, PyDict>>,
) -> PyResult<Tune> {
    let base = question(keys)?;
    work::run(py, progress, move |watch| {
        let found = tuned::tune(&files, &base, watch)?;
        let part = |name: &str| named(name, &format!("score.{name}"), Holds::Real);
        let mut of_front = columns(Holds::Text, &["name"]);
        of_front.extend(["memory", "peak", "parked", "work"].map(part));
        let mut of_judges = columns(Holds::Text, &["load", "name"]);
        of_judges.extend(columns(Holds::Real, &["memory", "work"]));
        of_judges.extend(columns(Holds::Flag, &["holds"]));
        Ok(Tune {
            table: table(&of_front, &found.front)?,
            judges: table(&of_judges, found.judges.iter().flatten())?,
            found,
        })
    })
}

as_table!(Tune, table);

#[pymethods]
impl Tune {
    /// The settings to take; `None` if nothing is better than the default, or it did not hold.
    #[getter]
    fn recommended(&self) -> Option<&str> {
        self.found.recommended.as_deref()
    }

    /// The settings that are better and did not hold.
    #[getter]
    fn refused(&self) -> Option<&str> {
        self.found.refused.as_deref()
    }

    /// How a kernel is given what is recommended for all caches.
    #[getter]
    fn apply(&self) -> Vec<String> {
        self.found.apply.clone()
    }

    /// What is worth writing for single caches, for less memory and for less work, each with how it is
    /// given, `apply`, which is empty where it did not hold.
    #[getter]
    fn single_caches<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values(py, &self.found.single_caches)
    }

    /// All of it as `slabyard tune --json` prints it.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.found).map_err(cannot)
    }

    fn __repr__(&self) -> String {
        let found = self.recommended().unwrap_or("nothing is recommended");
        format!("<slabyard.Tune: {found}, of a front of {} points>", self.table.__len__())
    }
}
