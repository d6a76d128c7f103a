//! Boots: what a kernel's slabs would use under other rules and on other machines, from a snapshot alone.
//!
//! Neighbour: `slabyard-ask` foretells. Invariant: the numbers are those of `slabyard boot --json`.

use crate::columns::{Column, Holds, columns, named, table};
use crate::table::{Table, as_table};
use crate::work;
use pyo3::prelude::*;
use serde_json::{Value as Json, json};
use slabyard_ask::Error;
use slabyard_ask::axis::Axis;
use slabyard_ask::boot::{BootRequest, Boots, Variant, foretell, open};
use slabyard_lab::snapshot::KernelSnapshot;
use std::path::PathBuf;

/// The boot of a snapshot, as it was and as it is asked for.
#[pyclass(frozen, module = "slabyard")]
pub struct Boot {
    /// A row for the boot as it was, `base`, and for each variant.
    #[pyo3(get)]
    table: Table,
    /// A row for each of their caches.
    #[pyo3(get)]
    caches: Table,
    /// A row for each order of their slabs.
    #[pyo3(get)]
    orders: Table,
    /// By how much totals were missed on real guests, for each kind of change of each variant.
    #[pyo3(get)]
    errors: Table,
    json: String,
}

/// Foretells the boots of all combinations of `vary`, such as `["max_order=0..3", "cpus=16,64"]`.
#[pyfunction]
#[pyo3(signature = (snapshot, vary, shrunk = None, progress = None))]
pub fn boot(
    py: Python<'_>,
    snapshot: PathBuf,
    vary: Vec<String>,
    shrunk: Option<PathBuf>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Boot> {
    work::run(py, progress, move |watch| {
        let axes = vary.iter().map(|text| Axis::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let asked = BootRequest::of_axes(axes.clone())?;
        let snapshot = open(&snapshot)?;
        let shrunk = shrunk.as_deref().map(open).transpose()?;
        let boots = foretell(&snapshot, shrunk.as_ref(), &asked, watch)?;
        told(&snapshot, &boots, &asked)
    })
}

fn told(snapshot: &KernelSnapshot, boots: &Boots, asked: &BootRequest) -> Result<Boot, Error> {
    let all: Vec<&Variant> = std::iter::once(&boots.base).chain(&boots.variants).collect();
    let sides = all.iter().map(|variant| of_variant(variant));
    let sides: Vec<Json> = sides.collect::<Result<_, _>>().map_err(anyhow::Error::from)?;
    // The parts of a variant, each with its name.
    let parts = |key: &str| -> Vec<Json> {
        let of_one = |side: &Json| -> Vec<Json> {
            let parts = side[key].as_array().into_iter().flatten();
            parts.map(|part| json!({"variant": side["name"], "of": part})).collect()
        };
        sides.iter().flat_map(of_one).collect()
    };
    let part = |name: &str, holds| named(name, &format!("of.{name}"), holds);
    let variant = || named("variant", "variant", Holds::Text);
    let counts = |names: &[&str]| names.iter().map(|n| part(n, Holds::Count)).collect::<Vec<_>>();
    let reals = |names: &[&str]| names.iter().map(|n| part(n, Holds::Real)).collect::<Vec<_>>();
    let of_caches = [
        vec![variant(), part("name", Holds::Text)],
        counts(&["order", "objs_per_slab", "slabs", "bytes"]),
    ];
    let of_orders = [vec![variant()], counts(&["order", "slabs", "bytes"])];
    let of_errors = [
        vec![variant(), part("change", Holds::Text)],
        counts(&["page_size", "pairs"]),
        reals(&["low", "high", "lowest", "highest"]),
    ];
    Ok(Boot {
        table: table(&of_variants(asked), &sides)?,
        caches: table(&of_caches.concat(), parts("caches"))?,
        orders: table(&of_orders.concat(), parts("orders"))?,
        errors: table(&of_errors.concat(), parts("error_to_expect"))?,
        json: serde_json::to_string(&boots.json(snapshot)).map_err(anyhow::Error::from)?,
    })
}

/// What the command's JSON has of a variant, with its name, the keys that differ, and the error to expect.
fn of_variant(variant: &Variant) -> serde_json::Result<Json> {
    let mut all = serde_json::to_value(variant.side())?;
    let changes =
        variant.changes.iter().map(|(key, value)| (key.clone(), Json::from(value.as_str())));
    all["name"] = variant.name.as_str().into();
    all["changes"] = Json::Object(changes.collect());
    all["error_to_expect"] = serde_json::to_value(variant.expected())?;
    Ok(all)
}

/// A column for each key that is asked for; null where the snapshot's value holds.
fn of_variants(asked: &BootRequest) -> Vec<Column> {
    let keys = asked.options.iter().chain(&asked.set).map(|axis| &axis.key);
    let key = |key: &String| named(key, &format!("changes.{key}"), Holds::Text);
    let mut all = vec![named("name", "name", Holds::Text)];
    all.extend(keys.map(key));
    all.push(named("rules", "release", Holds::Text));
    all.extend(columns(Holds::Count, &["page_size", "present_cpus", "possible_cpus"]));
    let totals = ["slabs", "bytes", "least_bytes", "most_bytes"];
    all.extend(totals.map(|name| named(name, &format!("totals.{name}"), Holds::Count)));
    all
}

as_table!(Boot, table);

#[pymethods]
impl Boot {
    /// All of it as `slabyard boot --json` prints it.
    fn to_json(&self) -> String {
        self.json.clone()
    }

    fn __repr__(&self) -> String {
        format!("<slabyard.Boot: {} variants>", self.table.__len__().saturating_sub(1))
    }
}
