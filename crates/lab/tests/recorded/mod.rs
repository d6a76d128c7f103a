//! The recorded traces in this repository, each with the snapshot taken at its start. Many tests
//! read the same ones: each is read once.

use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::{self, Trace};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

type Recorded = (Trace, KernelSnapshot);

/// The trace of a name.
pub fn recorded(name: &str) -> &'static Recorded {
    static READ: Mutex<BTreeMap<String, &'static OnceLock<Recorded>>> = Mutex::new(BTreeMap::new());
    let of_name =
        *READ.lock().expect("no panic in here").entry(name.to_owned()).or_insert_with(|| {
            let of_name: Box<OnceLock<_>> = Box::default();
            Box::leak(of_name)
        });
    of_name.get_or_init(|| read(name))
}

fn read(name: &str) -> Recorded {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let start = traces.join(format!("{name}.before.json.zst"));
    let snapshot = KernelSnapshot::open(&start).expect("a snapshot").remove(0);
    (trace::open(&traces.join(format!("{name}.slabtrace"))).expect("a trace"), snapshot)
}
