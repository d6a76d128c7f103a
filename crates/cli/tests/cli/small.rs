//! `slabyard small`: small machines, generated loads and kernels' events.

use crate::stage::{SLABYARD, text};
use serde_json::Value;
use std::process::{Command, Output};

/// Standard output of a call that went well.
fn shown(args: &[&str]) -> String {
    text(&small(args).stdout).to_owned()
}

fn small(args: &[&str]) -> Output {
    Command::new(SLABYARD).arg("small").args(args).output().unwrap()
}

#[test]
fn every_allocator_is_in_the_table_and_told_to_programs() {
    let output = small(&["--seeds", "2", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = all.as_array().unwrap();
    let of = |name: &str| all.iter().find(|it| it["contender"] == name).unwrap();
    let free = |name: &str| of(name)["loads"][0]["looks"][0]["free_pages"].as_u64().unwrap();
    assert!(free("slob") > free("slub max_order=3"));
    assert_eq!(of("slob")["loads"].as_array().unwrap().len(), 2);
    let table = shown(&["--seeds", "1"]);
    for it in all {
        let name = it["contender"].as_str().unwrap();
        assert!(table.contains(&format!("\n  {name}")), "{name}");
    }
}

#[test]
fn a_request_that_fails_is_reported_as_a_kernel_does() {
    let args = ["--memory", "4M", "--seeds", "1", "--engine", "slub", "--report"];
    let report = shown(&args);
    assert!(report.contains("page allocation failure: order:7"), "{report}");
    assert!(report.contains("DMA32 free:") && report.contains("*4kB "), "{report}");
    assert!(report.contains("slab_unreclaimable:"), "{report}");
}

#[test]
fn scattered_pages_leave_no_large_block() {
    let args = ["--engine", "slob", "--seeds", "1", "--scattered", "200", "--report"];
    let report = shown(&args);
    assert!(report.contains("page allocation failure: order:7"), "{report}");
    let whole = shown(&["--engine", "slob", "--seeds", "1", "--report"]);
    assert!(whole.contains("no request failed"), "{whole}");
}

#[test]
fn a_kernel_s_events_are_served() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let events = "\
 <idle>-0 [000] d.... 0.1: mm_page_alloc: page=0 pfn=0x10 order=0 migratetype=0 gfp_flags=none
 <idle>-0 [000] d.... 0.2: kmalloc: call_site=f+0x1/0x2 ptr=ffff888000010040 bytes_req=100 bytes_alloc=128 gfp_flags=none
 init-1 [000] ..... 0.4: tracing_mark_write: HELD
";
    std::fs::write(trace.path(), events).unwrap();
    let path = trace.path().to_str().unwrap();
    let json = small(&["--events", path, "--contender", "slab max_order=0", "--json"]);
    assert_eq!(json.status.code(), Some(0), "{}", text(&json.stderr));
    let all: Value = serde_json::from_slice(&json.stdout).unwrap();
    let look = &all[0]["loads"][0]["looks"][0];
    assert_eq!((&look["moment"], &look["slab_unreclaimable"]), (&"HELD".into(), &1.into()));
    let live = shown(&["--events", path, "--live"]);
    assert_eq!(live, "kmalloc-128 128 1\n");
}

#[test]
fn what_cannot_be_is_refused() {
    let usage = small(&["--memory", "1M", "--reserved", "2M"]);
    assert_eq!(usage.status.code(), Some(2), "{}", text(&usage.stderr));
    let unknown = small(&["--contender", "slib"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("slob, slab max_order=0"), "{}", text(&unknown.stderr));
    let missing = small(&["--events", "/nothing/here.trace"]);
    assert_eq!(missing.status.code(), Some(3), "{}", text(&missing.stderr));
    let help = shown(&["--help"]);
    assert!(help.contains("Examples:") && help.contains("--events"), "{help}");
}
