//! A snapshot of a modelled run: its numbers are exact, and nothing is hidden.

use super::scene::text;
use slabyard_observe::fields::{self, field};
use slabyard_observe::snapshot::{Machine, Source, SourceKind};
use slabyard_observe::view::{Style, list, openmetrics};
use slabyard_observe::{Cache, Snapshot, Value};

fn run() -> Snapshot {
    let source = Source {
        program: Some("load.slabtrace".into()),
        release: Some("6.8".into()),
        ..Source::of(SourceKind::Lab)
    };
    let mut snapshot = Snapshot::new(source);
    snapshot.machine = Machine { page_bytes: Some(4096), ..Machine::default() };
    let mut cache = Cache::new("filp");
    for (name, value) in [
        ("order", 0),
        ("slab_size", 192),
        ("objs_per_slab", 21),
        ("slabs", 4),
        ("total_objects", 84),
        ("live", 30),
        ("parked_cpu", 40),
        ("parked_node", 0),
        ("free_partial", 14),
        ("objects", 70),
        ("partial", 1),
        ("cpu_slabs", 2),
    ] {
        cache.set(name, value);
    }
    snapshot.caches.push(cache);
    for (name, objects) in [("live", 30), ("parked_cpu", 40), ("parked_node", 0)] {
        snapshot.totals.insert(name.into(), Value::Exact(objects * 192));
    }
    snapshot
}

#[test]
fn what_is_live_is_exact_and_slabs_of_cpus_are_not_full() {
    let snapshot = run();
    let get = |name: &str| fields::value(field(name).unwrap(), &snapshot, &snapshot.caches[0]);
    for (name, value) in [("live", 30), ("parked", 40), ("full", 1), ("bytes", 4 * 4096)] {
        assert_eq!(get(name), Some(Value::Exact(value)), "{name}");
    }
}

#[test]
fn a_list_has_no_line_of_what_is_not_modelled() {
    let listed = text(|out| list::write(out, &run(), &list::Options::default(), Style::PLAIN));
    let memory: Vec<&str> = listed.lines().skip_while(|line| !line.starts_with("memory")).collect();
    let names: Vec<_> = memory.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["memory", "live", "parked_cpu", "parked_node"], "{listed}");
    assert!(!listed.contains("may be parked"), "{listed}");
}

#[test]
fn it_is_exported_as_any_other_source() {
    let exported = text(|out| openmetrics::write(out, &run(), 10));
    for bound in ["low", "high"] {
        let line = format!("slabyard_cache_live_objects{{cache=\"filp\",bound=\"{bound}\"}} 30");
        assert!(exported.contains(&line), "{exported}");
    }
}
