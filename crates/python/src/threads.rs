//! What mail threads measured and argued, with ours beside it, as a table.
//!
//! Neighbour: `slabyard-ask` has the rows, and computes them.

use crate::arguments::texts;
use crate::columns::{Holds, columns, named, table};
use crate::table::Table;
use crate::work;
use pyo3::prelude::*;
use serde_json::{Value as Json, json};
use slabyard_ask::Listener as _;
use slabyard_ask::threads::runs::Runs;
use slabyard_ask::threads::{self, Answer, wanted};

/// Each row of the threads or tables of these names, or of all, with the lab's number beside theirs. A row
/// that needs a program on this machine's CPUs has none: `slabyard reproduce` runs it.
#[pyfunction]
#[pyo3(signature = (*names, progress = None))]
pub fn reproduce(
    py: Python<'_>,
    names: Vec<Bound<'_, PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Table> {
    let names = texts(&names, "a thread or a table is a text such as \"64k\" or \"64k.boot\"")?;
    work::run(py, progress, move |watch| {
        let wanted = wanted::of(&names)?;
        let runs = Runs::new(None);
        let mut answers: Vec<Answer> = Vec::new();
        for (nth, (thread, table)) in wanted.iter().enumerate() {
            watch.go_on()?;
            watch.stage(&format!("{}.{}", thread.name, table.name));
            watch.done(nth, wanted.len());
            let rows = table.rows.iter();
            answers.extend(rows.map(|row| threads::answer(&runs, thread, table, row)));
        }
        watch.done(wanted.len(), wanted.len());
        let told = serde_json::to_value(threads::json::of(&wanted, &answers));
        Ok(rows(&told.map_err(anyhow::Error::from)?)?)
    })
}

fn rows(told: &Json) -> anyhow::Result<Table> {
    let mut all = columns(Holds::Text, &["thread", "table"]);
    let of = |name: &str, path: &str, holds| named(name, &format!("row.{path}"), holds);
    all.extend([
        of("name", "name", Holds::Text),
        of("theirs", "theirs", Holds::Real),
        of("claim", "claim", Holds::Text),
        of("ours", "ours", Holds::Real),
        of("missing", "missing", Holds::Text),
        of("difference", "difference", Holds::Real),
        of("unit", "unit", Holds::Text),
        of("basis", "basis.kind", Holds::Text),
        of("basis_of", "basis.of", Holds::Text),
        of("is_near", "near.holds", Holds::Flag),
        of("tolerance", "near.tolerance", Holds::Text),
        of("why", "near.why", Holds::Text),
        of("note", "note", Holds::Text),
    ]);
    let each = |value: &'_ Json| value.as_array().cloned().unwrap_or_default();
    let mut rows = Vec::new();
    for thread in each(&told["threads"]) {
        for of_it in each(&thread["tables"]) {
            let row =
                |row: Json| json!({"thread": thread["name"], "table": of_it["name"], "row": row});
            rows.extend(each(&of_it["rows"]).into_iter().map(row));
        }
    }
    table(&all, rows)
}
