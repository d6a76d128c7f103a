//! `geometry --explain`: the parts of a cache of a saved snapshot.

use crate::stage::{SLABYARD, text};
use serde_json::Value as Json;
use slabyard_observe::snapshot::{Source, SourceKind};
use slabyard_observe::{Cache, Snapshot, Value, file};
use std::path::Path;
use std::process::{Command, Output};

fn explained(snapshot: &Path, cache: &str, more: &[&str]) -> Output {
    Command::new(SLABYARD)
        .args(["geometry", "--explain", cache, "--against"])
        .arg(snapshot)
        .args(more)
        .output()
        .unwrap()
}

/// A kernel with `slab_debug=FZPU`, as 6.18 lays `kmalloc-1k` out.
fn debugged(path: &Path) {
    let mut snapshot = Snapshot::new(Source::of(SourceKind::Kernel));
    snapshot.source.release = Some("6.18.15".into());
    snapshot.machine.page_bytes = Some(4096);
    snapshot.machine.online_cpus = Some(2);
    let mut cache = Cache::new("kmalloc-1k");
    for (name, value) in [
        ("object_size", 1024),
        ("slab_size", 3072),
        ("align", 1024),
        ("order", 3),
        ("objs_per_slab", 10),
        ("slabs", 7),
        ("total_objects", 70),
        ("red_zone", 1),
        ("poison", 1),
        ("store_user", 1),
    ] {
        cache.set(name, value);
    }
    cache.set("ctor", Value::Text(String::new()));
    let mut short = cache.clone();
    short.name = "short".into();
    short.set("slab_size", 2048);
    let mut of_no_kernel = cache.clone();
    of_no_kernel.name = "of-no-kernel".into();
    of_no_kernel.set("order", 64);
    of_no_kernel.set("total_objects", u64::MAX);
    snapshot.caches.extend([cache, short, of_no_kernel]);
    let mut without = Cache::new("without-flags");
    without.set("object_size", 64);
    snapshot.caches.push(without);
    file::save(&snapshot, path).unwrap();
}

#[test]
fn a_debugged_kmalloc_is_taken_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("debugged.json");
    debugged(&path);
    let output = explained(&path, "kmalloc-1k", &["--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Json = serde_json::from_slice(&output.stdout).unwrap();
    let parts = json["parts"].as_array().unwrap();
    let sum: u64 = parts.iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
    assert_eq!((sum, parts.len()), (3072, 8), "{json:#}");
    assert_eq!(parts[0]["part"], "left_red_zone");
    assert_eq!(json["slab_size_without_debugging"], 1024);
    assert_eq!(json["tail"], 2048);
    let page = explained(&path, "kmalloc-1k", &[]);
    let said = text(&page.stdout);
    assert!(said.contains("3 KiB for an object of 1 KiB"), "{said}");
    assert!(said.contains("without slab_debug an object would take 1 KiB"), "{said}");
}

#[test]
fn what_cannot_be_explained_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("debugged.json");
    debugged(&path);
    for (cache, words) in [
        ("kmalloc-2k", "has no cache `kmalloc-2k`"),
        ("without-flags", "its red_zone is not known"),
        ("short", "its flags ask for 2136 bytes an object, and its objects are 2048 apart"),
        ("of-no-kernel", "its order is not known"),
    ] {
        let output = explained(&path, cache, &[]);
        assert_eq!(output.status.code(), Some(3), "{cache}");
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    let both = Command::new(SLABYARD).args(["geometry", "--explain", "x", "64"]).output().unwrap();
    assert_eq!(both.status.code(), Some(2));
}
