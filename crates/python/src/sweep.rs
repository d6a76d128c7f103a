//! Sweeps: the points of the command's sweep, replayed here or by other programs' workers, and the same
//! table whoever replayed them.
//!
//! Neighbours: `slabyard-ask` plans, replays and writes; the package's `_cluster.py` submits points to
//! a cluster. Invariant: a row goes between machines as the line that the sweep's own journal has, with
//! a checksum and the digest of its sweep.

use crate::columns::{Column, Holds, named, table};
use crate::error::{cannot, raised};
use crate::table::{Table, as_table};
use crate::work;
use pyo3::prelude::*;
use serde_json::Value as Json;
use slabyard_ask::Listener as _;
use slabyard_ask::sweep::columns::{ColumnKind, Value};
use slabyard_ask::sweep::{self, Row, SweepRequest};
use std::path::PathBuf;
use std::sync::Arc;

/// The points of a sweep.
#[pyclass(frozen, module = "slabyard")]
pub struct Plan(Arc<sweep::Plan>);

/// The rows of a sweep, in the order of its points.
#[pyclass(frozen, module = "slabyard")]
pub struct Sweep {
    plan: Arc<sweep::Plan>,
    rows: Vec<Row>,
    /// A row for each point, as `slabyard sweep` writes it.
    #[pyo3(get)]
    table: Table,
}

#[pymethods]
impl Plan {
    /// Reads the traces and finds out which points cannot be.
    #[new]
    #[pyo3(signature = (files, vary, machine, keep_impossible, progress = None))]
    fn new(
        py: Python<'_>,
        files: Vec<PathBuf>,
        vary: Vec<String>,
        machine: String,
        keep_impossible: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Plan> {
        let asked = SweepRequest { files, vary, machine, keeps_impossible: keep_impossible };
        let plan = work::run(py, progress, move |watch| sweep::plan(&asked, watch))?;
        Ok(Plan(Arc::new(plan)))
    }

    /// Digest of all that is asked for; a row of another sweep is refused by it.
    #[getter]
    fn digest(&self) -> &str {
        &self.0.digest
    }

    /// The points' names, by their numbers.
    #[getter]
    fn points(&self) -> Vec<String> {
        self.0.points.iter().map(|point| point.name.clone()).collect()
    }

    /// Replays points on all CPUs of this machine, and gives a line each.
    #[pyo3(signature = (points, progress = None))]
    fn run(
        &self,
        py: Python<'_>,
        points: Vec<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<String>> {
        let plan = Arc::clone(&self.0);
        work::run(py, progress, move |watch| {
            let (mut lines, all) = (Vec::new(), points.len());
            watch.done(0, all);
            sweep::run(&plan, &points, watch, &mut |row| {
                lines.push(row.line());
                watch.done(lines.len(), all);
                Ok(())
            })?;
            Ok(lines)
        })
    }

    /// Replays one point on one CPU.
    fn run_point(&self, py: Python<'_>, point: usize) -> PyResult<String> {
        let plan = Arc::clone(&self.0);
        work::run(py, None, move |watch| Ok(sweep::run_point(&plan, point, watch)?.line()))
    }

    /// Puts lines together, from whichever workers they are.
    fn gather(&self, lines: Vec<String>) -> PyResult<Sweep> {
        let rows: Result<Vec<Row>, _> = lines.iter().map(|line| self.0.row_of_line(line)).collect();
        let mut rows = rows.map_err(raised)?;
        rows.sort_by_key(Row::point);
        let points = rows.iter().map(Row::point);
        if !points.eq(0..self.0.points.len()) {
            let text = "a point has no row, or two";
            return Err(cannot(anyhow::anyhow!(text)));
        }
        let table = arrow(&self.0, &rows).map_err(cannot)?;
        Ok(Sweep { plan: Arc::clone(&self.0), rows, table })
    }
}

fn arrow(plan: &sweep::Plan, rows: &[Row]) -> anyhow::Result<Table> {
    let column = |(nth, column): (usize, &sweep::columns::Column)| -> Column {
        let holds = match column.kind {
            ColumnKind::Whole => Holds::Count,
            ColumnKind::Decimal => Holds::Real,
            ColumnKind::Words => Holds::Text,
        };
        named(&column.name, &nth.to_string(), holds)
    };
    let columns: Vec<Column> = plan.columns.iter().enumerate().map(column).collect();
    table(&columns, rows.iter().map(|row| row.cells().iter().map(json).collect::<Json>()))
}

fn json(value: &Value) -> Json {
    match value {
        Value::Whole(number) => (*number).into(),
        Value::Decimal(number) => (*number).into(),
        Value::Words(text) => text.clone().into(),
        Value::Unknown => Json::Null,
    }
}

as_table!(Sweep, table);

#[pymethods]
impl Sweep {
    /// Writes the table to a `.csv`, `.json` or `.parquet` file: byte for byte what `slabyard sweep`
    /// writes.
    fn write(&self, file: PathBuf) -> PyResult<()> {
        sweep::write(&self.plan, self.rows.clone(), &file).map_err(raised)
    }

    /// Digest of all that was asked for.
    #[getter]
    fn digest(&self) -> &str {
        &self.plan.digest
    }

    fn __repr__(&self) -> String {
        format!("<slabyard.Sweep {}: {} points>", self.plan.digest, self.rows.len())
    }
}
