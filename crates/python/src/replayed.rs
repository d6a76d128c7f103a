//! One replay's figures as tables: each cache before and after, its counters, and samples over time.

use crate::arguments::values;
use crate::columns::{Column, Holds, columns, named, table};
use crate::table::{Table, as_table};
use crate::work::Watch;
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::Value as Json;
use slabyard_ask::answer::Answerer;
use slabyard_ask::figures::{self, CacheFigures, Figures, State, Sum, Totals};
use slabyard_ask::load::{Loaded, TraceFile};
use slabyard_ask::question::Question;
use slabyard_ask::{Error, prepare};
use slabyard_lab::replay::contend::COSTS;
use std::collections::BTreeMap;

/// What a replay did: `slabyard.replay()` makes one.
#[pyclass(frozen, module = "slabyard")]
pub struct Replay {
    /// A row for each cache: its slabs by these rules, what it made and gave back, and what it held
    /// before and after, in objects unless a name says else.
    #[pyo3(get)]
    caches: Table,
    /// A row for each cache with its counters, by the kernel's names.
    #[pyo3(get)]
    counters: Table,
    /// A row for each sample: all caches together, in bytes but for `slabs`.
    #[pyo3(get)]
    samples: Table,
    /// A row for each sample and cache whose slabs change, in objects unless a name says else.
    #[pyo3(get)]
    cache_samples: Table,
    totals: Json,
    /// The counters of all caches together.
    #[pyo3(get)]
    counts: BTreeMap<&'static str, u64>,
    /// Whose rules held.
    #[pyo3(get)]
    rules: String,
    /// Why the figures do not compare with those of the traced machine.
    #[pyo3(get)]
    unlike: Option<String>,
    /// Which caches the release does not have.
    #[pyo3(get)]
    gone: Option<String>,
    /// True if events are missing or contradict others, so that all figures are uncertain.
    #[pyo3(get)]
    doubtful: bool,
}

/// Replays a trace.
pub fn replay(
    file: &TraceFile,
    loaded: &Loaded,
    question: &Question,
    samples: usize,
    watch: &Watch,
) -> Result<Replay, Error> {
    let mut answerer = Answerer::new(loaded, COSTS, watch)?;
    let settings = answerer.settings(question, watch)?;
    watch.go_on()?;
    let figures = answerer.figures(question, samples)?;
    let doubtful = prepare::doubts(file, loaded, answerer.case(), watch);
    let totals = &figures.totals;
    let all = All { totals, before: &totals.before, after: &totals.after };
    Ok(Replay {
        caches: caches(&figures)?,
        counters: counters(&figures)?,
        samples: table(&sample_columns(), &figures.series)?,
        cache_samples: cache_samples(&figures)?,
        totals: serde_json::to_value(all).map_err(anyhow::Error::from)?,
        counts: figures::named(&figures.counters).collect(),
        rules: settings.rules_name(),
        unlike: figures.unlike,
        gone: figures.gone,
        doubtful,
    })
}

/// A cache with what it holds before and after.
#[derive(Serialize)]
struct CacheRow<'a> {
    #[serde(flatten)]
    cache: &'a CacheFigures,
    before: &'a State,
    after: &'a State,
}

/// A cache at one moment.
#[derive(Serialize)]
struct Moment<'a> {
    time_ns: u64,
    #[serde(flatten)]
    state: &'a State,
}

/// All caches together, as `slabyard replay --json` has them.
#[derive(Serialize)]
struct All<'a> {
    #[serde(flatten)]
    totals: &'a Totals,
    before: &'a Sum,
    after: &'a Sum,
}

const STATE: [&str; 17] = [
    "slabs",
    "partial",
    "empty",
    "cpu_slabs",
    "slabs_cpu_partial",
    "slabs_cpu_partial_empty",
    "total_objects",
    "live",
    "parked",
    "parked_cpu",
    "parked_cpu_slabs",
    "parked_cpu_partial",
    "parked_sheaves",
    "parked_node",
    "free_partial",
    "padding",
    "bytes",
];

fn cache_columns() -> Vec<Column> {
    let attributes = [
        "slab_size",
        "order",
        "objs_per_slab",
        "waste",
        "cpu_partial",
        "cpu_partial_slabs",
        "min_partial",
        "sheaf_capacity",
        "allocated",
        "freed",
        "peak",
        "untouched",
    ];
    let mut all = columns(Holds::Text, &["name", "aliases", "left_out"]);
    all.extend(columns(Holds::Count, &attributes));
    for moment in ["before", "after"] {
        all.extend(STATE.iter().map(|key| {
            named(&format!("{moment}_{key}"), &format!("{moment}.{key}"), Holds::Count)
        }));
    }
    all
}

fn sample_columns() -> Vec<Column> {
    let paths = [
        "time_ns",
        "slabs",
        "bytes",
        "live",
        "parked",
        "parked_cpu",
        "parked_node",
        "free_partial",
        "padding",
    ];
    columns(Holds::Count, &paths)
}

fn caches(figures: &Figures) -> anyhow::Result<Table> {
    let rows = figures.caches.iter().map(|cache| CacheRow {
        cache,
        before: &cache.before,
        after: &cache.after,
    });
    table(&cache_columns(), rows)
}

fn counters(figures: &Figures) -> anyhow::Result<Table> {
    let mut all = columns(Holds::Text, &["name"]);
    let names = figures::named(&figures.counters);
    all.extend(names.map(|(name, _)| named(name, &format!("counters.{name}"), Holds::Count)));
    table(&all, &figures.caches)
}

fn cache_samples(figures: &Figures) -> anyhow::Result<Table> {
    let mut all = columns(Holds::Count, &["time_ns"]);
    all.extend(columns(Holds::Text, &["name"]));
    all.extend(columns(Holds::Count, &STATE));
    let rows = figures
        .series
        .iter()
        .flat_map(|at| at.caches.values().map(|state| Moment { time_ns: at.time_ns, state }));
    table(&all, rows)
}

as_table!(Replay, caches);

#[pymethods]
impl Replay {
    /// All caches together: `peak_bytes`, `allocated`, what they hold `before` and `after`, and more, as
    /// in `slabyard replay --json`.
    #[getter]
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values(py, &self.totals)
    }

    fn __repr__(&self) -> String {
        let (caches, rules) = (self.caches.__len__(), &self.rules);
        format!("<slabyard.Replay: {caches} caches by the rules of {rules}>")
    }
}
