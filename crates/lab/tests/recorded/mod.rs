//! The recorded traces in this repository, each with the snapshot taken at its start.

use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::{self, Trace};
use std::path::Path;

/// The trace of a name.
pub fn recorded(name: &str) -> (Trace, KernelSnapshot) {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let start = traces.join(format!("{name}.before.json.zst"));
    let snapshot = KernelSnapshot::open(&start).expect("a snapshot").remove(0);
    (trace::open(&traces.join(format!("{name}.slabtrace"))).expect("a trace"), snapshot)
}
