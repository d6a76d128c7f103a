//! The answers of `ask` as a table: a row for the base and for each variant.

use crate::arguments::values;
use crate::columns::{Column, Holds, named, table};
use crate::error::cannot;
use crate::table::{Table, as_table};
use crate::work::Watch;
use pyo3::prelude::*;
use slabyard_ask::asked::{Asked, Asking};
use slabyard_ask::axis::Changes;
use slabyard_ask::{Error, Listener as _, asked};

/// What a load takes under each variant, with the base in the first row.
#[pyclass(frozen, module = "slabyard")]
pub struct Answers {
    /// The rows, the base's first.
    #[pyo3(get)]
    table: Table,
    asked: Asked,
}

/// Replays the base and each variant.
pub fn ask(asking: &Asking<'_>, watch: &Watch) -> Result<Answers, Error> {
    let asked = asked::ask(asking, watch)?;
    let of_base = asked.answers.first().map_or(&[][..], |row| &row.answer.notes);
    of_base.iter().chain(&asked.notes).for_each(|note| watch.say(note));
    let mut all = vec![named("name", "name", Holds::Text)];
    all.extend(keys(asking.variants));
    all.extend(answer_columns());
    Ok(Answers { table: table(&all, &asked.answers)?, asked })
}

/// A column for each key that is varied; null where the base's value holds.
fn keys(variants: &[Changes]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for (key, _) in variants.iter().flatten() {
        if columns.iter().all(|column| column.name != *key) {
            columns.push(named(key, &format!("changes.{key}"), Holds::Text));
        }
    }
    columns
}

/// The columns of an answer, by the names that a sweep's table has for them.
fn answer_columns() -> Vec<Column> {
    use Holds::{Count, Difference, Flag, Real, Text};
    let rows = [
        ("rules", "rules", Text),
        ("calls", "calls", Count),
        ("peak_bytes", "memory.peak", Count),
        ("saved_bytes", "saved", Difference),
        ("mean_bytes", "memory.mean", Real),
        ("end_bytes", "memory.end", Count),
        ("untouched_bytes", "memory.untouched", Count),
        ("live_mean_bytes", "memory.live", Real),
        ("live_end_bytes", "memory.live_end", Count),
        ("free_partial_mean_bytes", "memory.free_partial", Real),
        ("parked_mean_bytes", "memory.parked", Real),
        ("cpu_slabs_mean_bytes", "memory.parked_by_place.cpu_slabs", Real),
        ("cpu_partial_mean_bytes", "memory.parked_by_place.cpu_partial", Real),
        ("sheaves_mean_bytes", "memory.parked_by_place.sheaves", Real),
        ("barns_mean_bytes", "memory.parked_by_place.barns", Real),
        ("partial_slabs_end", "memory.partial_slabs", Count),
        ("slow_calls_per_million", "work.slow_calls", Real),
        ("list_locks_per_million", "work.list_locks", Real),
        ("exchanges_per_million", "work.exchanges", Real),
        ("refills_per_million", "work.refills", Real),
        ("moved_per_million", "work.moved", Real),
        ("page_calls_per_million", "work.page_calls", Real),
        ("ns_per_call", "work.ns", Real),
        ("out_of_memory_ns", "out_of_memory_ns", Count),
        ("error_low", "error.0", Real),
        ("error_high", "error.1", Real),
        ("is_base", "is_base", Flag),
        ("changed", "changed", Text),
        ("live_differs", "live_differs", Text),
        ("unlike", "unlike", Text),
        ("gone", "gone", Text),
        ("waits_cpus", "waits.cpus", Count),
        ("list_locks_waited", "waits.list_locks_waited", Real),
        ("barn_locks_waited", "waits.barn_locks_waited", Real),
        ("exchanges_failed", "waits.exchanges_failed", Real),
        ("exchanges_under_list_lock_per_million", "waits.exchanges_under_list_lock", Real),
        ("waiting", "waits.waiting", Real),
        ("longest_wait_ns", "waits.longest_wait_ns", Count),
        ("ns_per_call_with_waits", "waits.ns", Real),
    ];
    rows.map(|(name, path, holds)| named(name, path, holds)).into()
}

as_table!(Answers, table);

#[pymethods]
impl Answers {
    /// What the answers are worth, as `slabyard ask --json` has it; `None` if it was not asked for.
    #[getter]
    fn trust<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values(py, &self.asked.trust)
    }

    /// The same in a line.
    #[getter]
    fn trust_line(&self) -> Option<String> {
        self.asked.trust.as_ref().map(|trust| trust.line())
    }

    /// What people should know of the rules.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.asked.notes.clone()
    }

    /// Nanoseconds of each operation that `ns` counts with.
    #[getter]
    fn costs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values(py, &self.asked.costs)
    }

    /// All of it as `slabyard ask --json` prints it.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.asked).map_err(cannot)
    }

    fn __repr__(&self) -> String {
        let line = self.trust_line().unwrap_or_else(|| "not checked".into());
        format!("<slabyard.Answers: {} rows; {line}>", self.table.__len__())
    }
}
