//! `--html`: the page has the JSON that `--json` prints, and is written whole or not at all.

use crate::stage::{SLABYARD, text};
use serde_json::Value;
use slabyard_observe::snapshot::{Source, SourceKind};
use slabyard_observe::{Cache, Snapshot, Value as Reading, file};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const SNAPSHOT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/data/x86_618_4k_smp2.json.zst");
const BEFORE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/data/hackbench.before.json.zst");
const AFTER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/data/hackbench.after.json.zst");
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/traces/tr64k_hb_smp4.slabtrace");
const PASTED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../observe/tests/pasted/dentry-negative.txt");
/// What is beside it.
const START: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/traces/tr64k_hb_smp4.before.json.zst");

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).output().unwrap()
}

/// The JSON within a page.
fn embedded(page: &Path) -> Value {
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn each_page_has_the_json_that_is_printed() {
    let directory = TempDir::new().unwrap();
    let page = directory.path().join("page.html");
    let table = directory.path().join("out.csv");
    let table = table.to_str().unwrap();
    let typed: [(&[&str], i32); 9] = [
        (&["list", BEFORE], 0),
        (&["diff", BEFORE, AFTER], 1),
        (&["doctor", PASTED], 1),
        (&["boot", SNAPSHOT, "--set", "max_order=0"], 0),
        (&["boot", SNAPSHOT, "--set", "max_order=0..3"], 0),
        (&["replay", TRACE, "--samples", "20"], 0),
        (&["sweep", TRACE, "--vary", "max_order=0..1", "-o", table, "--restart"], 0),
        (&["reproduce", "slob.kernels", "64k.maxcpus"], 0),
        (&["compare", TRACE, "--with", "6.1", "--with", "7.0"], 0),
    ];
    for (args, code) in typed {
        let html = ["--html", page.to_str().unwrap()];
        let both = slabyard(&[args, &["--json"], &html].concat());
        assert_eq!(both.status.code(), Some(code), "{args:?}: {}", text(&both.stderr));
        let json: Value = serde_json::from_slice(&both.stdout).unwrap();
        assert_eq!(embedded(&page), json, "{args:?}");
        std::fs::remove_file(&page).unwrap();
        // Without --json the page has the same, but for what a later run measures.
        let table = slabyard(&[args, &html].concat());
        assert_eq!(table.status.code(), Some(code));
        if args[0] != "compare" {
            assert_eq!(embedded(&page), json, "{args:?}");
        }
        let written = std::fs::read_to_string(&page).unwrap();
        assert!(written.contains("<canvas") && written.contains("<table>"), "{args:?}");
        std::fs::remove_file(&page).unwrap();
    }
}

/// The page of a snapshot that is saved is that of the list of the file.
#[test]
fn a_saved_snapshot_has_the_page_of_its_list() {
    let directory = TempDir::new().unwrap();
    let [file, page] =
        ["s.json", "s.html"].map(|name| directory.path().join(name).to_str().unwrap().to_owned());
    let output = slabyard(&["snapshot", BEFORE, "-o", &file, "--html", &page]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let listed = slabyard(&["list", &file, "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(embedded(Path::new(&page))["caches"], listed["caches"]);
    let both = slabyard(&["snapshot", BEFORE, "-o", &file, "--html", &file]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_before_the_work() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::copy(BEFORE, path("in.json.zst")).unwrap();
    for (to, code, says) in [
        ("-".to_owned(), 2, "give --html the name of a file"),
        (path("in.json.zst"), 2, "which is read"),
        (path("none/page.html"), 3, "cannot write"),
        (path(""), 3, "cannot write"),
    ] {
        let output = slabyard(&["list", &path("in.json.zst"), "--html", &to]);
        assert_eq!(output.status.code(), Some(code), "{to}");
        assert!(output.stdout.is_empty() && text(&output.stderr).contains(says), "{to}");
    }
    let (csv, out) = (path("out.csv"), path("t.slabtrace"));
    for (args, to, says) in [
        (
            &["sweep", TRACE, "--vary", "max_order=0", "-o", &csv][..],
            &csv,
            "--html and -o are both",
        ),
        (&["sweep", &out, "--vary", "max_order=0", "-o", &csv], &out, "which is read"),
        (&["sweep", "join", &out, "-o", &csv], &csv, "--html and -o are both"),
        (&["reproduce", "--list"], &csv, "cannot be used with"),
    ] {
        std::fs::copy(TRACE, &out).unwrap();
        let output = slabyard(&[args, &["--html", to]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
    assert!(!Path::new(&csv).exists());
    // A dump of a file is read from the file, and a trace's snapshot from beside it.
    std::fs::copy(TRACE, path("t.slabtrace")).unwrap();
    std::fs::copy(START, path("t.before.json.zst")).unwrap();
    for (args, to) in [
        (&["list", &path("in.json.zst#boot")][..], path("in.json.zst")),
        (&["boot", &path("in.json.zst#boot"), "--set", "max_order=0"], path("in.json.zst")),
        (&["replay", &path("t.slabtrace")], path("t.before.json.zst")),
    ] {
        let output = slabyard(&[args, &["--html", &to]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains("which is read"), "{args:?}");
    }
    assert_eq!(std::fs::read(path("t.before.json.zst")).unwrap(), std::fs::read(START).unwrap());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3, "nothing is left");
    assert_eq!(std::fs::read(path("in.json.zst")).unwrap(), std::fs::read(BEFORE).unwrap());
}

#[test]
fn names_of_caches_cannot_leave_their_place() {
    const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, slabs) in [("a.json", 3u64), ("b.json", 5)] {
        let mut cache = Cache::new(HOSTILE);
        for (key, value) in
            [("slabs", slabs), ("order", 0), ("live", slabs), ("bytes", slabs << 12)]
        {
            cache.set(key, Reading::Exact(value));
        }
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Process));
        snapshot.caches.push(cache);
        file::save(&snapshot, &path(name)).unwrap();
    }
    let [a, b, page] =
        ["a.json", "b.json", "page.html"].map(|name| path(name).to_str().unwrap().to_owned());
    for args in [&["list", &a][..], &["diff", &a, &b]] {
        let output = slabyard(&[args, &["--html", &page]].concat());
        assert!(output.status.code() < Some(2), "{}", text(&output.stderr));
        let written = std::fs::read_to_string(&page).unwrap();
        assert!(written.contains("&lt;/script&gt;&lt;img src=x"), "{args:?}");
        assert!(!written.contains("<img"), "{args:?}");
        assert_eq!(embedded(Path::new(&page))["caches"][0]["name"], HOSTILE);
    }
}
