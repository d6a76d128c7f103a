//! The library that writes a program's calls for a recorder: exceptions and thread exits can unwind
//! the stack through it.

use crate::skipped::skip;
use crate::stage::{SLABYARD, text};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

#[test]
fn exceptions_and_the_ends_of_threads_pass() {
    let beside = |name: &str| Path::new(SLABYARD).with_file_name(name).exists();
    if !["libslabyard_malloc.so", "libslabyard_recorder.so"].iter().all(|name| beside(name)) {
        return skip("no libraries beside the command: cargo build makes them");
    }
    let room = TempDir::new().unwrap();
    let program = room.path().join("throws");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/throws.cc");
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O1", "-w", "-pthread", "-o"]).arg(&program).arg(&source);
    match compiler.status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return skip(&format!("c++: {error}")),
    }
    let alone = Command::new(&program).output().unwrap();
    assert_eq!((alone.status.code(), text(&alone.stdout)), (Some(0), "0\n"));
    let mut record = Command::new(SLABYARD);
    record.args(["record", "-o"]).arg(room.path().join("a.slabtrace")).arg("--").arg(&program);
    let output = record.stdin(Stdio::null()).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "0\n"), "{said}");
}
