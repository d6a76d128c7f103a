//! `slabyard replay --offline`, `--online` and `--shrink`: events of the machine during the replay.

use crate::stage::text;
use crate::traces::{ends, parsed, real, tiny};

const TRACE: &str = "tr64k_hb_smp4.slabtrace";

/// CPU slabs and live objects at the end, of the caches together.
fn totals(args: &[&str]) -> [u64; 2] {
    let root = parsed(&real(TRACE, &[&["--json"], args].concat()), 0);
    let caches = root["after"]["caches"].as_array().expect("caches");
    ["cpu_slabs", "live"].map(|field| caches.iter().filter_map(|cache| cache[field].as_u64()).sum())
}

#[test]
fn events_happen_and_are_told() {
    let output = real(TRACE, &["--offline", "1@0.05"]);
    ends(&output, 0, "");
    let table = text(&output.stdout);
    assert!(table.contains("tasks are placed by a rule once a CPU went or came"), "{table}");
    assert!(table.contains("no machine was measured with CPUs that come and go"), "{table}");
    let output = real(TRACE, &["--shrink", "0.05"]);
    assert!(text(&output.stdout).contains("no machine was measured with caches that are shrunk"));
    // What a CPU held is gone with it, and the same objects are live.
    let (traced, gone) = (totals(&[]), totals(&["--offline", "1@0.05"]));
    assert!(gone[0] < traced[0] && gone[1] == traced[1], "{traced:?}, {gone:?}");
    let back = totals(&["--online", "1@0.05", "--shrink", "0.02"]);
    assert_eq!(back[1], traced[1]);
}

#[test]
fn events_that_cannot_be_are_refused() {
    let files = tiny();
    for (args, why) in [
        (&["--offline=3"][..], "expected a CPU and seconds since the trace began, such as 3@2.5"),
        (&["--shrink=-1"], "expected seconds since the trace began"),
        (&["--offline=9@0"], "CPU 9 is none of the machine's 2"),
        (&["--offline=0@0", "--offline=1@0"], "CPU 1 is the last one"),
        (&["--offline=1@0", "--offline=1@0"], "CPU 1 is gone already"),
        (&["--shrink=1000"], " is after the end of the trace, which is "),
        (&["--shrink=0", "--check"], "cannot be used with"),
        (&["--shrink=0", "--engine=slob"], "--shrink"),
    ] {
        ends(&files.replay(args), 2, why);
    }
}
