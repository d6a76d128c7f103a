//! The slabs of object sizes by a kernel's rules.

use crate::arguments::question;
use crate::columns::{Holds, columns, table};
use crate::error::UsageError;
use crate::table::Table;
use crate::work;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use slabyard_ask::sizes::size;
use slabyard_ask::{Error, geometry as rules};
use slabyard_kernels::engines::EngineName;

/// The slabs of each size, by the rules and on the machine of `keys`.
#[pyfunction]
#[pyo3(signature = (*sizes, **keys))]
pub fn geometry(
    py: Python<'_>,
    sizes: Vec<Bound<'_, PyAny>>,
    keys: Option<&Bound<'_, PyDict>>,
) -> PyResult<Table> {
    let question = question(keys)?;
    if question.memory.is_some() || question.tasks() > 1 {
        return Err(UsageError::new_err("memory and tasks change no geometry"));
    }
    let sizes: PyResult<Vec<u32>> = sizes
        .iter()
        .map(|typed| {
            let text = typed.str()?.to_string();
            size(&text).map_err(|why| UsageError::new_err(format!("{text}: {why}")))
        })
        .collect();
    let (sizes, wanted) = (sizes?, question.wanted);
    let of_slabs = ["size", "slab_size", "order", "objs_per_slab", "waste"];
    work::run(py, None, move |watch| {
        let mut all = columns(Holds::Count, &of_slabs);
        if wanted.engine == EngineName::Slab {
            let (_, rows) = rules::slab(&wanted, &sizes)?;
            let of_slab =
                ["colours", "colour_offset", "limit", "batchcount", "sharedfactor", "free_limit"];
            all.extend(columns(Holds::Text, &["index"]));
            all.extend(columns(Holds::Count, &of_slab));
            return Ok::<_, Error>(table(&all, &rows)?);
        }
        let (_, rows) = rules::slub(&wanted, &sizes, watch)?;
        let of_slub =
            ["cpu_partial", "cpu_partial_slabs", "min_partial", "sheaf_capacity", "obj_ext"];
        all.extend(columns(Holds::Count, &of_slub));
        Ok(table(&all, &rows)?)
    })
}
