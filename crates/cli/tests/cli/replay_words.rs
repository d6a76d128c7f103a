//! `slabyard replay`: its messages say why a request is impossible, and what to do instead.

use crate::stage::text;
use crate::traces::{ends, slabyard, tiny};
use std::fs;

#[test]
fn what_cannot_be_is_usage_with_the_reason() {
    let files = tiny();
    for (args, words) in [
        (&["--set", "max_order=12"][..], "max_order takes an order from 0 to 10"),
        (&["--cpus", "0"], "it must be from 1 to 8192"),
        (&["--nodes", "0"], "the number of nodes is 0"),
        (&["--page-size", "5k"], "5120 bytes; it must be 4096"),
        (&["--page-size", "big"], "expected bytes"),
        (&["--set", "max_ordr=1"], "did you mean `max_order`?"),
        (&["--set", "min_order=5", "--set", "max_order=1"], "min_order 5 is above max_order 1"),
        (&["--set", "max_order=1", "--set", "min_order=5"], "min_order 5 is above max_order 1"),
        (&["--set", "nomerge=1"], "nomerge changes nothing: "),
        (&["--set", "slab_nomerge"], "expected KEY=VALUE"),
        (&["--set", "slub_merge=1"], "merge changes nothing: "),
        (&["--set", "multiplier=2", "--set", "min_objects=8"], "multiplier counts where"),
        (&["--release", "7.1", "--set", "freezing=eager"], "freezing needs CPU slabs"),
        (&["--release", "6.1", "--set", "tiny=1"], "tiny came with 6.2"),
        (&["--release", "4.19"], "older than the oldest preset"),
        (&["--samples", "0"], "from 1 on"),
        (&["--samples", "5", "--every", "5"], "cannot be used with"),
        (&["--check", "--samples", "5"], "cannot be used with"),
        (&["--convert", "x", "--check"], "cannot be used with"),
        (&["--dump", "boot"], "no dump `boot`; leave it out"),
        (&["--check", "--cpus", "4"], "CPUs online are 4 here and 2 there"),
        (&["--check", "--page-size", "64k"], "truth of the traced machine alone"),
    ] {
        ends(&files.replay(args), 2, words);
    }
    ends(&slabyard(&[]), 2, "FILE");
}

#[test]
fn without_a_snapshot_it_is_said_how_to_take_one() {
    let files = tiny();
    fs::rename(files.path("load.before.json"), files.path("boot.json")).unwrap();
    let output = files.replay(&[]);
    ends(&output, 2, "--start SNAPSHOT");
    assert!(text(&output.stderr).contains("load.before.json.zst not found"));
    ends(&files.replay(&["--start", &files.path("boot.json")]), 0, "");
    ends(&files.replay(&["--start", &files.path("none.json")]), 3, "No such file");
}

#[test]
fn help_has_examples_keys_counters_and_the_way_to_a_snapshot() {
    let help = slabyard(&["--help"]);
    for part in [
        "Examples:",
        "--no-look-ahead",
        "min_partial: ",
        "cpu_partial_drain: ",
        "Exit codes",
        "/sys/kernel/slab",
    ] {
        assert!(text(&help.stdout).contains(part), "{part}");
    }
}
