//! Complete traces are not in doubt with their own snapshots; with rows removed, or with a snapshot
//! taken at another moment, they are.

use crate::recorded::recorded;
use slabyard_lab::case::{self, Case};
use slabyard_lab::event::{Event, EventKind};
use slabyard_lab::prepare::doubts::{Doubt, doubts};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::Trace;
use std::path::Path;

const TRACES: [&str; 3] = ["forkexec", "hackbench", "tr64k_hb_smp4"];

fn snapshot(directory: &str, name: &str) -> KernelSnapshot {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory).join(name);
    KernelSnapshot::open(&path).expect("a snapshot").remove(0)
}

fn found(trace: &Trace, snapshot: &KernelSnapshot) -> Vec<Doubt> {
    let (settings, _) = snapshot.settings().expect("a known kernel");
    let case = Case::new(trace, snapshot, &settings, case::order_of(snapshot)).expect("a case");
    doubts(&case.prepared, snapshot)
}

#[test]
fn whole_traces_and_their_own_snapshots_are_beyond_doubt() {
    for name in TRACES {
        let (trace, before) = recorded(name);
        assert_eq!(found(trace, before), [], "{name}");
    }
}

#[test]
fn one_row_in_a_hundred_is_missed_whichever_it_is() {
    type Taken = fn(&Event) -> bool;
    let kinds: [(&str, Taken); 3] = [
        ("any", |_| true),
        ("allocations", |e| matches!(e.kind, EventKind::CacheAlloc | EventKind::Kmalloc)),
        ("frees", |e| matches!(e.kind, EventKind::CacheFree | EventKind::Kfree)),
    ];
    for name in TRACES {
        let (whole, before) = recorded(name);
        let is_missed = |what: &str, trace: &Trace| {
            let doubts = found(trace, before);
            assert!(matches!(doubts[..], [Doubt::RowsMissing(_)]), "{name}, {what}: {doubts:?}");
        };
        for (what, taken) in kinds {
            let mut random = 0x9e37_79b9_7f4a_7c15u64;
            let mut trace = whole.clone();
            trace.events.retain(|event| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                !(taken(event) && (random >> 20).is_multiple_of(100))
            });
            assert!(trace.events.len() < whole.events.len());
            is_missed(what, &trace);
        }
        let mut trace = whole.clone();
        let (middle, share) = (whole.events.len() / 2, whole.events.len() / 100);
        trace.events.drain(middle..middle + share);
        is_missed("in one piece", &trace);
    }
}

#[test]
fn pages_that_were_got_without_a_word_are_missed() {
    for name in ["forkexec", "hackbench"] {
        let (mut trace, before) = recorded(name).clone();
        let mut nth = 0u32;
        trace.events.retain(|event| {
            nth += u32::from(event.kind == EventKind::PageAlloc);
            event.kind != EventKind::PageAlloc || !nth.is_multiple_of(50)
        });
        let doubts = found(&trace, &before);
        assert!(matches!(doubts[..], [Doubt::RowsMissing(_)]), "{name}: {doubts:?}");
    }
}

#[test]
fn a_snapshot_of_another_moment_is_told() {
    for (name, other) in [
        ("hackbench", "hackbench.after"),
        ("hackbench", "hackbench.after_shrunk"),
        ("forkexec", "forkexec.after_shrunk"),
    ] {
        let (trace, _) = recorded(name);
        let doubts = found(trace, &snapshot("tests/data", &format!("{other}.json.zst")));
        assert!(matches!(doubts[..], [Doubt::OtherMoment { .. }]), "{name}, {other}: {doubts:?}");
        assert!(doubts[0].to_string().contains("snapshot seems to be of another moment"));
    }
}
