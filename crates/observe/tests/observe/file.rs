//! Saved snapshots: a saved snapshot opens again, and a file of another kind is rejected with its
//! reason.

use proptest::prelude::*;
use slabyard_observe::file::{Error, looks_like_core, open, save};
use slabyard_observe::snapshot::{
    FORMAT, FreeBlocks, Machine, Missing, Slab, SlabPlace, Source, SourceKind,
};
use slabyard_observe::{Cache, Reading, Snapshot, Value};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The snapshot that the file of version 1 holds, with one of everything.
fn version_1() -> Snapshot {
    let parts = |sum: u64, parts: &[(u32, u64)]| Reading {
        value: Value::Exact(sum),
        nodes: parts.iter().map(|(node, n)| (*node, Value::Exact(*n))).collect(),
        cpus: Vec::new(),
    };
    let mut merged = Cache::new("filp");
    merged.id = Some(":A-0000192".into());
    merged.aliases = vec!["names_cache".into(), "sgpool-8".into()];
    merged.set("object_size", 184);
    merged.set("slab_size", 192);
    merged.set("order", 0);
    merged.set("objs_per_slab", 21);
    merged.set("objects", parts(4100, &[(0, 4000), (1, 100)]));
    merged.set("total_objects", parts(4200, &[(0, 4079), (1, 121)]));
    merged.set("slabs", 200);
    merged.set("partial", parts(7, &[(1, 7)]));
    merged.set("cpu_slabs", 13);
    merged.set("ctor", Value::Text("init_once+0x0/0x20".into()));
    let mut counted = Cache::new("malloc-64");
    counted.set("live", Value::Range(90, 93));
    counted.set(
        "alloc_slab",
        Reading {
            value: Value::Exact(12),
            nodes: Vec::new(),
            cpus: vec![(0, Value::Exact(5)), (3, Value::Exact(7))],
        },
    );
    counted.slabs = Some(vec![
        Slab {
            page: 0x7f00_0000_1000,
            order: 1,
            objects: 128,
            inuse: 3,
            place: SlabPlace::Cpu(3),
            ..Slab::default()
        },
        Slab { page: 0x7f00_0000_3000, order: 0, objects: 64, inuse: 64, ..Slab::default() },
    ]);
    Snapshot {
        format: 1,
        source: Source { release: Some("6.18.44".into()), ..Source::of(SourceKind::Kernel) },
        taken_at_ms: 1_790_000_000_123,
        took_ns: Some(6_600_000),
        machine: Machine {
            page_bytes: Some(4096),
            possible_cpus: Some(8),
            online_cpus: Some(4),
            nodes: Some(2),
        },
        caches: vec![merged, counted, Cache::new("empty")],
        totals: [
            ("slab", 262_044 << 10),
            ("mem_total", 24_684_084 << 10),
            ("maybe_parked", 52_416),
        ]
        .map(|(name, bytes): (&str, u64)| (name.to_owned(), Value::Exact(bytes)))
        .into(),
        free_blocks: vec![FreeBlocks { node: 0, zone: "Normal".into(), blocks: vec![9985, 0, 3] }],
        incidents: Vec::new(),
        missing: vec![Missing {
            what: "counters".into(),
            why: "this kernel counts no calls".into(),
        }],
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A directory, and a file in it.
fn place(name: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    (directory, path)
}

fn open_bytes(bytes: &[u8]) -> Result<Snapshot, Error> {
    let (_directory, path) = place("file");
    fs::write(&path, bytes).unwrap();
    open(&path)
}

fn text() -> String {
    serde_json::to_string(&version_1()).unwrap()
}

#[test]
fn a_file_of_version_1_is_read_for_ever() {
    let mut snapshot = open(&data("v1.json.zst")).unwrap();
    assert_eq!(snapshot.format, 1);
    // What later versions add is unknown in it.
    snapshot.format = version_1().format;
    assert_eq!(snapshot, version_1());
}

#[test]
fn what_is_saved_opens_again() {
    for (name, packed) in [("s.json", false), ("s.json.zst", true), ("s", false), ("s.zst", true)] {
        let (_directory, path) = place(name);
        save(&version_1(), &path).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]), packed, "{name}");
        assert_eq!(open(&path).unwrap(), version_1(), "{name}");
        // It is known by what is in it.
        let renamed = path.with_file_name("renamed.txt");
        fs::rename(&path, &renamed).unwrap();
        assert_eq!(open(&renamed).unwrap(), version_1(), "{name}");
    }
}

#[test]
fn saving_replaces_the_file_whole_and_leaves_nothing_beside() {
    let (directory, path) = place("s.json");
    fs::write(&path, "x".repeat(1 << 20)).unwrap();
    let link = directory.path().join("link");
    symlink("s.json", &link).unwrap();
    save(&version_1(), &link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(open(&path).unwrap(), version_1());
    let names = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 2, "the file and the link");
    // Others may read it, as any new file.
    assert_ne!(fs::metadata(&path).unwrap().permissions().mode() & 0o044, 0);
}

#[test]
fn a_failed_save_leaves_the_old_file() {
    let (directory, path) = place("no/such/directory/s.json");
    assert!(matches!(save(&version_1(), &path), Err(Error::Write { .. })));
    assert!(matches!(save(&version_1(), directory.path()), Err(Error::Write { .. })));
    assert!(directory.path().is_dir());
    // A device is written to, not replaced.
    save(&version_1(), Path::new("/dev/null")).unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn keys_that_nobody_knows_are_passed_over() {
    let text = text().replacen("{\"format\":1,", "{\"format\":1,\"of_tomorrow\":{\"a\":[1]},", 1);
    let text = text.replacen("\"name\":\"filp\",", "\"name\":\"filp\",\"colour\":\"red\",", 1);
    assert!(text.contains("colour"));
    assert_eq!(open_bytes(text.as_bytes()).unwrap(), version_1());
}

#[test]
fn a_newer_format_is_refused_in_words() {
    let newer = format!("{{\"format\":{},\"all\":\"else\"}}", FORMAT + 1);
    let error = open_bytes(newer.as_bytes()).unwrap_err();
    assert!(matches!(error, Error::Newer { found, .. } if found == u64::from(FORMAT) + 1));
    let text = error.to_string();
    assert!(text.contains(&format!("has format {}", FORMAT + 1)), "{text}");
    assert!(text.contains(&format!("reads up to {FORMAT}: use a newer one")), "{text}");
}

#[test]
fn other_files_are_not_snapshots() {
    let other: [&[u8]; 8] = [
        b"",
        b"\n\n",
        b"\x7fELF\x02\x01\x01",
        b"slabs of a kernel\n",
        b"[1,2,3]",
        b"{\"caches\":[]}",
        b"{ not json at all",
        b"\xff\xfe\x00",
    ];
    for bytes in other {
        let error = open_bytes(bytes).unwrap_err();
        assert!(matches!(error, Error::NotASnapshot { .. }), "{bytes:?}: {error}");
        assert!(error.to_string().contains("slabyard snapshot"), "{error}");
    }
    assert!(matches!(open(Path::new("/no/such/file")), Err(Error::Read { .. })));
    let (directory, _) = place("file");
    assert!(matches!(open(directory.path()), Err(Error::NotASnapshot { .. })));
    let cut = open_bytes(b"slabinfo - version: 2.1\n").unwrap_err();
    assert!(matches!(cut, Error::Damaged { .. }), "{cut}");
}

#[test]
fn a_core_file_is_known_by_its_magic() {
    let (_directory, path) = place("core");
    fs::write(&path, b"\x7fELF\x02\x01\x01\x00").unwrap();
    assert!(looks_like_core(&path));
    save(&version_1(), &path).unwrap();
    assert!(!looks_like_core(&path));
    fs::write(&path, b"\x7fE").unwrap();
    assert!(!looks_like_core(&path));
    assert!(!looks_like_core(Path::new("/no/such/file")));
}

#[test]
fn every_cut_is_noticed() {
    let text = text();
    for length in "{\"format\":1,".len()..text.len() {
        let error = open_bytes(&text.as_bytes()[..length]).unwrap_err();
        let Error::Truncated { at, .. } = &error else { panic!("{length}: {error}") };
        assert_eq!(*at, format!("at line 1, column {length}"));
    }
    let packed = fs::read(data("v1.json.zst")).unwrap();
    for length in 0..packed.len() {
        let error = open_bytes(&packed[..length]).unwrap_err();
        let cut = matches!(error, Error::Truncated { .. });
        assert!(
            cut || length < 4 && matches!(error, Error::NotASnapshot { .. }),
            "{length}: {error}"
        );
    }
}

#[test]
fn damage_says_where_it_is() {
    for (from, to, says) in [
        ("\"slab_size\":{\"value\":192", "\"slab_size\":{\"value\":-192", "column"),
        ("\"value\":[90,93]", "\"value\":[93,90]", "cache `malloc-64`: live is [93,90]"),
        ("\"name\":\"empty\"", "\"name\":\"filp\"", "cache `filp` comes twice"),
        ("\"name\":\"empty\"", "\"name\":\"\\u001b[2J\"", "is no name"),
        ("init_once", "\\u0007", "is no name"),
        ("\"kind\":\"kernel\"", "\"kind\":\"kernal\"", "kernal"),
        ("\"took_ns\":6600000", "\"took_ns\":66x0000", "column"),
        ("\"took_ns\":6600000", "\"took_ns\":99999999999999999999", "column"),
        ("\"machine\":", "\"machines\":", "machine"),
    ] {
        let text = text();
        let damaged = text.replacen(from, to, 1);
        assert_ne!(text, damaged, "{from} is there");
        let error = open_bytes(damaged.as_bytes()).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{to}: {error}");
        assert!(error.to_string().contains(says), "{to}: {error}");
    }
    assert!(matches!(open_bytes((text() + "}").as_bytes()), Err(Error::Damaged { .. })));
}

#[test]
fn damaged_dumps_of_kernels_say_where() {
    let good =
        r#"{"kernel":"6.12.1","page_size":4096,"slab":{"a":{"slab_size":64,"objects":"5 N0=5"}}}"#;
    let snapshot = open_bytes(good.as_bytes()).unwrap();
    assert_eq!(snapshot.caches[0].exact("objects"), Some(5));
    for (from, to) in [
        ("5 N0=5", "five"),
        ("\"slab_size\":64", "\"slab_size\":-64"),
        ("{\"a\"", "7, \"b\":{\"a\""),
    ] {
        let error = open_bytes(good.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{to}: {error}");
    }
    let error = open_bytes(br#"{"dumps":{"boot":{"kernel":"6.12.1"}}}"#).unwrap_err();
    assert!(error.to_string().contains("no caches"), "{error}");
}

proptest! {
    /// No byte that is changed makes the reader panic, and what it still takes keeps
    /// the invariants.
    #[test]
    fn changed_bytes_are_refused_or_harmless(
        packed in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = match packed {
            true => fs::read(data("v1.json.zst")).unwrap(),
            false => text().into_bytes(),
        };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(snapshot) = open_bytes(&bytes) {
            // A packed one has a checksum.
            prop_assert!(!packed || snapshot == version_1());
            prop_assert!(snapshot.format <= FORMAT);
            let mut names: Vec<_> = snapshot.caches.iter().map(|c| c.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), snapshot.caches.len());
        }
    }
}
