//! The differences of two snapshots.

use super::scene::{HUMAN, is_as, kernel, process, text};
use slabyard_observe::delta::Delta;
use slabyard_observe::view::Style;
use slabyard_observe::view::diff::{Columns, write, write_json};
use slabyard_observe::{Cache, Snapshot, Value};

fn later() -> Snapshot {
    let mut later = kernel();
    later.taken_at_ms += 5000;
    let dentry = &mut later.caches[0];
    for (name, value) in [("slabs", 63_u64), ("total_objects", 1323), ("objects", 1300)] {
        dentry.set(name, value);
    }
    dentry.set("min_partial", 10);
    later.caches.retain(|c| c.name != "task_struct");
    let mut fresh = Cache::new("fresh");
    for (name, value) in [("slabs", 1_u64), ("order", 1), ("objs_per_slab", 8)] {
        fresh.set(name, value);
    }
    later.caches.push(fresh);
    later.totals.insert("slab".into(), Value::Exact(66_000 << 10));
    later
}

#[test]
fn what_changed_in_a_kernel() {
    let (old, new) = (kernel(), later());
    let delta = Delta::between(&old, &new);
    is_as("diff.txt", &text(|out| write(out, &delta, Columns::Plain, HUMAN)));
    is_as("diff-all.txt", &text(|out| write(out, &delta, Columns::All, Style::PLAIN)));
    let json = text(|out| write_json(out, &old, &new, &delta));
    is_as("diff.json", &json);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["caches"][0]["name"], "task_struct");
    assert_eq!(value["caches"][0]["state"], "went");
    assert_eq!(value["totals"]["slab"]["difference"], (66_000 - 67_636) << 10);
}

#[test]
fn a_field_alone() {
    let mut delta = Delta::between(&kernel(), &later());
    delta.keep(&["min_partial"]);
    delta.caches.retain(|c| c.name == "dentry");
    let shown = text(|out| write(out, &delta, Columns::Plain, HUMAN));
    assert_eq!(shown, "\ndentry: min_partial 5 -> 10\n");
}

#[test]
fn the_same_look_has_no_difference() {
    let delta = Delta::between(&process(), &process());
    let shown = text(|out| write(out, &delta, Columns::Plain, HUMAN));
    assert_eq!(shown, "no difference\n");
}

#[test]
fn other_kinds_are_noted() {
    let delta = Delta::between(&kernel(), &process());
    let shown = text(|out| write(out, &delta, Columns::Plain, HUMAN));
    assert!(shown.starts_with("note: another kind of source: kernel, now process\n"), "{shown}");
}
