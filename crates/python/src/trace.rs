//! A trace that is loaded once and asked often.
//!
//! Neighbours: [`crate::asked`] and [`crate::replayed`] have the results.

use crate::arguments::{question, texts};
use crate::asked::{self, Answers};
use crate::error::{UsageError, raised};
use crate::replayed::{self, Replay};
use crate::work;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use slabyard_ask::asked::Asking;
use slabyard_ask::load::{self, Loaded, TraceFile};
use slabyard_ask::{Wanted, axis, costs};
use slabyard_lab::replay::contend::COSTS;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A kernel's trace and the snapshot that it begins with: `slabyard.open()` makes one.
#[pyclass(frozen, module = "slabyard")]
pub struct Trace {
    file: Arc<TraceFile>,
    loaded: Arc<Loaded>,
}

#[pymethods]
impl Trace {
    /// Reads a trace; as `slabyard.open()`.
    #[new]
    #[pyo3(signature = (file, *, start = None, dump = None, no_lists = false, partial = false, progress = None))]
    fn new(
        py: Python<'_>,
        file: PathBuf,
        start: Option<PathBuf>,
        dump: Option<String>,
        no_lists: bool,
        partial: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Trace> {
        let file = Arc::new(TraceFile { file, start, dump, no_lists, partial });
        let of_it = Arc::clone(&file);
        let loaded = work::run(py, progress, move |watch| {
            load::load(&of_it, &Wanted::default(), watch).map(Arc::new)
        })?;
        Ok(Trace { file, loaded })
    }

    /// Replays it by the rules and on the machine of `keys`; what is not named is the traced kernel's.
    #[pyo3(signature = (*, samples = 0, progress = None, **keys))]
    fn replay(
        &self,
        py: Python<'_>,
        samples: usize,
        progress: Option<&Bound<'_, PyAny>>,
        keys: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Replay> {
        let (file, loaded) = (Arc::clone(&self.file), Arc::clone(&self.loaded));
        let question = question(keys)?;
        work::run(py, progress, move |watch| {
            replayed::replay(&file, &loaded, &question, samples, watch)
        })
    }

    /// Answers what the load takes with each of the variants beside the base, which `keys` name.
    #[pyo3(signature = (*variants, costs = "measured", cost = None, contention = None, check = true, progress = None, **keys))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn ask(
        &self,
        py: Python<'_>,
        variants: Vec<Bound<'_, PyAny>>,
        costs: &str,
        cost: Option<BTreeMap<String, u32>>,
        contention: Option<u32>,
        check: bool,
        progress: Option<&Bound<'_, PyAny>>,
        keys: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Answers> {
        let takes = "a variant is a text such as \"max_order=0..3\"";
        let variants = axis::variants(&texts(&variants, takes)?).map_err(raised)?;
        let (file, loaded) = (Arc::clone(&self.file), Arc::clone(&self.loaded));
        let base = question(keys)?;
        let typed = cost.into_iter().flatten().map(|(name, ns)| format!("{name}={ns}"));
        let typed: Vec<String> = typed.collect();
        let are_measured = match costs {
            "measured" => true,
            "table" => false,
            _ => return Err(UsageError::new_err("costs is \"measured\" or \"table\"")),
        };
        work::run(py, progress, move |watch| {
            let from = if are_measured { costs::measured() } else { COSTS };
            let asking = Asking {
                file: &file,
                loaded: &loaded,
                base: &base,
                variants: &variants,
                costs: costs::typed(from, &typed)?,
                contention,
                is_checked: check,
            };
            asked::ask(&asking, watch)
        })
    }

    /// The kernel's release, as far as it is known.
    #[getter]
    fn kernel(&self) -> Option<&str> {
        let told = Some(self.loaded.trace.header.release.as_str()).filter(|told| !told.is_empty());
        self.loaded.snapshot.kernel.as_deref().or(told)
    }

    /// Allocations, frees and other events.
    #[getter]
    fn events(&self) -> u64 {
        self.loaded.trace.nr_events()
    }

    /// Events that the recorder lost.
    #[getter]
    fn lost(&self) -> u64 {
        self.loaded.trace.lost
    }

    /// Nanoseconds from its first event to its last.
    #[getter]
    fn duration_ns(&self) -> u64 {
        let (first, last) = self.loaded.trace.span().into_inner();
        last - first
    }

    /// Bytes of a page.
    #[getter]
    fn page_size(&self) -> u32 {
        self.loaded.traced.page_size
    }

    /// As many as were online.
    #[getter]
    fn cpus(&self) -> u32 {
        self.loaded.traced.online_cpus
    }

    /// CPUs that the kernel had room for.
    #[getter]
    fn possible_cpus(&self) -> u32 {
        self.loaded.traced.possible_cpus
    }

    /// Memory nodes.
    #[getter]
    fn nodes(&self) -> u32 {
        self.loaded.traced.nodes
    }

    fn __repr__(&self) -> String {
        let (file, kernel) = (self.file.file.display(), self.kernel().unwrap_or("unknown"));
        let (events, cpus) = (self.events(), self.cpus());
        format!("<slabyard.Trace {file}: {events} events, kernel {kernel}, {cpus} CPUs>")
    }
}
