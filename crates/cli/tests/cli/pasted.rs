//! Commands on texts that people paste: each takes them where it takes a saved snapshot.

use crate::stage::{SLABYARD, text};
use serde_json::Value as Json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn pasted(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../observe/tests/pasted").join(name)
}

fn slabyard(args: &[&str], file: &str) -> Output {
    Command::new(SLABYARD).args(args).arg(pasted(file)).output().unwrap()
}

fn printed(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn list_prints_what_each_text_tells() {
    for (file, words) in [
        ("dentry-negative.txt", "dentries_negative 29871203"),
        ("kmalloc-64-leak.txt", "kmalloc-64"),
        ("page-allocation-failure.txt", "nginx: page allocation failure: order:1"),
        (
            "slab-debug-redzone.txt",
            "allocated in sensor_probe+0x5c/0x1b0 [hwsensor] (process 611, CPU 2",
        ),
        ("glibc-arenas.xml", "arena 31"),
        ("jemalloc-retained.txt", "engine jemalloc 5.3.0"),
        ("mimalloc-segments.txt", "segments_abandoned 96"),
        ("smaps-outside.txt", "resident_brk"),
    ] {
        let output = slabyard(&["list"], file);
        let list = printed(&output);
        assert!(list.contains(words), "{file}:\n{list}");
    }
    let output = slabyard(&["list", "--json"], "slab-debug-redzone.txt");
    let list = printed(&output);
    let json: Json = serde_json::from_str(list).unwrap();
    assert_eq!(json["incidents"][0]["sites"][1]["role"], "freed");
    assert_eq!(json["source"]["formats"][0], "slab_debug report");
}

#[test]
fn a_text_on_standard_input_is_a_source() {
    let mut child = Command::new(SLABYARD)
        .args(["list", "-", "--columns", "objects,total_objects,slab_size", "--csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mail = std::fs::read(pasted("dentry-negative.txt")).unwrap();
    child.stdin.take().unwrap().write_all(&mail).unwrap();
    let output = child.wait_with_output().unwrap();
    let csv = printed(&output);
    assert!(csv.contains("\ndentry,30411990,30412368,192\n"), "{csv}");
}

#[test]
fn two_texts_are_compared_and_exported() {
    let (old, new) = (pasted("buffer-head.txt"), pasted("dentry-negative.txt"));
    let [old, new] = [&old, &new].map(|path| path.to_str().unwrap());
    let diff = Command::new(SLABYARD).args(["diff", old, new]).output().unwrap();
    assert_eq!(diff.status.code(), Some(1), "{}", text(&diff.stderr));
    assert!(text(&diff.stdout).contains("buffer_head"), "{}", text(&diff.stdout));
    let output = slabyard(&["export", "--top", "1"], "ebitmap-node.txt");
    let series = printed(&output);
    assert!(series.contains("slabyard_cache_bytes{cache=\"ebitmap_node\"}"), "{series}");
    let merged = pasted("filp-merged.txt");
    let shown = Command::new(SLABYARD).arg("show").arg(merged).arg("filp").output().unwrap();
    let shown = printed(&shown);
    assert!(shown.contains("merged with it: biovec-16, filp"), "{shown}");
}

#[test]
fn what_is_no_such_text_ends_with_3() {
    let directory = tempfile::tempdir().unwrap();
    let letter = directory.path().join("letter.txt");
    std::fs::write(&letter, "Dear all,\n").unwrap();
    let output = Command::new(SLABYARD).arg("list").arg(&letter).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let error = text(&output.stderr);
    assert!(error.contains("no line of it is of slabinfo, slabtop"), "{error}");
}

#[test]
fn a_source_is_written_as_a_kernels_files() {
    let directory = tempfile::tempdir().unwrap();
    let output = slabyard(&["export", "--as", "slabinfo"], "ebitmap-node.txt");
    let table = printed(&output);
    let original = std::fs::read_to_string(pasted("ebitmap-node.txt")).unwrap();
    for row in original.lines().filter(|line| line.contains(": slabdata")) {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(table.lines().any(|line| words(line) == words(row)), "{row}\n{table}");
    }
    let to = directory.path().join("copy");
    let export = |to: &Path| {
        let mut command = Command::new(SLABYARD);
        command.arg("export").arg(pasted("filp-merged.txt")).args(["--as", "sysfs", "-o"]).arg(to);
        command.output().unwrap()
    };
    assert_eq!(printed(&export(&to)), "");
    let list = Command::new(SLABYARD).arg("show").arg(&to).arg("filp").output().unwrap();
    assert!(
        printed(&list).contains("the kernel's name of it is :0000256"),
        "{}",
        text(&list.stdout)
    );
    let again = export(&to);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("is not empty"), "{}", text(&again.stderr));
    let names = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 1, "nothing else is left");
}

#[test]
fn what_has_no_slabs_is_no_slabinfo() {
    let output = slabyard(&["export", "--as", "slabinfo"], "glibc-arenas.xml");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("no cache of it has a row"), "{}", text(&output.stderr));
    for args in [&["export", "--as", "sysfs"][..], &["export", "-o", "x"]] {
        assert_eq!(slabyard(args, "ebitmap-node.txt").status.code(), Some(2), "{args:?}");
    }
}
