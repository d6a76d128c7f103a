//! The native part of the Python package `slabyard`: the lab's questions and the readers of slab
//! memory, with their results as Arrow tables.
//!
//! Neighbours: `slabyard-ask` loads, replays and answers, `slabyard-observe` reads; the package's
//! Python files have what needs Python alone. Invariants: nothing is computed here that the command
//! does not compute by the same call; the interpreter's lock is free while it works.
//!
//! Modules import downwards only: trace > asked, boot, replayed, sweep, geometry, look, threads, tune > arguments, columns, work > table > error.

mod arguments;
mod asked;
mod boot;
mod columns;
mod error;
mod geometry;
mod look;
mod replayed;
mod sweep;
mod table;
mod threads;
mod trace;
mod tune;
mod work;

use pyo3::prelude::*;

/// The native part of `slabyard`.
#[pymodule]
mod _slabyard {
    #[pymodule_export]
    use crate::asked::Answers;
    #[pymodule_export]
    use crate::boot::{Boot, boot};
    #[pymodule_export]
    use crate::error::{Error, Note, UsageError};
    #[pymodule_export]
    use crate::geometry::geometry;
    #[pymodule_export]
    use crate::look::{Snapshot, snapshot};
    #[pymodule_export]
    use crate::replayed::Replay;
    #[pymodule_export]
    use crate::sweep::{Plan, Sweep};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::threads::reproduce;
    #[pymodule_export]
    use crate::trace::Trace;
    #[pymodule_export]
    use crate::tune::{Tune, tune};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
