//! `slabyard replay` on traces of guests whose kernels and CPUs were not used to write the rules,
//! and predictions of one guest from the other's trace.

use crate::stage::SLABYARD;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn trace(guest: &str) -> PathBuf {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/traces");
    traces.join(format!("guest_{guest}.slabtrace"))
}

fn replay(guest: &str, args: &[&str]) -> (Value, String) {
    let mut command = Command::new(SLABYARD);
    command.arg("replay").arg(trace(guest)).arg("--json").args(args);
    let Output { stdout, stderr, .. } = command.output().expect("it runs");
    let told = String::from_utf8_lossy(&stderr).into_owned();
    (serde_json::from_slice(&stdout).unwrap_or_else(|error| panic!("{error}: {told}")), told)
}

/// Slabs at the peak above those of the start: the kernel's.
fn kernel(guest: &str) -> f64 {
    replay(guest, &["--check"]).0["totals"]["real"]["peak"].as_f64().expect("a peak")
}

/// The same of a replay.
fn model(guest: &str, machine: &[&str]) -> f64 {
    let replayed = replay(guest, machine).0;
    let before = replayed["before"]["caches"].as_array().expect("caches");
    let start: f64 = before.iter().filter_map(|cache| cache["slabs"].as_f64()).sum();
    replayed["totals"]["peak"].as_f64().expect("a peak") - start
}

fn off(foretold: f64, real: f64) -> f64 {
    (foretold - real).abs() / real
}

#[test]
fn the_curve_of_each_guest_is_foretold() {
    for guest in ["4", "16", "order1"] {
        let (checked, told) = replay(guest, &["--check"]);
        let relative = checked["totals"]["relative"].as_f64().expect("an error");
        assert!(relative < 0.01, "guest_{guest}: {relative}");
        assert!(!told.contains("uncertain"), "guest_{guest}: {told}");
        let out: Vec<&Value> = checked["caches"]
            .as_array()
            .expect("caches")
            .iter()
            .filter(|cache| !cache["left_out"].is_null())
            .map(|cache| &cache["name"])
            .collect();
        // It allocates the maple tree's nodes in bulk.
        assert_eq!(out, [":0000256"], "guest_{guest}");
    }
}

#[test]
fn one_guest_is_foretold_from_another() {
    for (guest, other, machine, most) in [
        ("order1", "4", ["--set", "max_order=1"], 0.08),
        ("4", "order1", ["--set", "max_order=3"], 0.08),
        ("16", "4", ["--cpus", "16"], 0.2),
        ("4", "16", ["--cpus", "4"], 0.2),
    ] {
        let real = kernel(guest);
        let foretold = model(other, &machine);
        println!("guest_{guest}: {real}; by guest_{other}: {foretold}");
        assert!(off(foretold, real) < most, "guest_{guest}: {real}, foretold {foretold}");
        // The other guest's own figure would not do.
        assert!(off(model(other, &[]), real) > most, "guest_{guest} is as guest_{other}");
    }
}
