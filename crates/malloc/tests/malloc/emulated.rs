//! Programs of `process.rs` under qemu-user, as in containers of another architecture. Its system
//! calls do not do all that they promise: it loses track of pages that were moved out of a mapping,
//! and ignores `madvise`.

use crate::process_runner::{LIMIT, Program};
use std::process::Command;

const EMULATOR: &str = "qemu-x86_64";

fn passes(source: &str) {
    if Command::new(EMULATOR).arg("--version").output().is_err() {
        println!("skipped: {EMULATOR} is not installed");
        return;
    }
    let Some(program) = Program::compile(source, &[]) else {
        return;
    };
    let library = crate::process_runner::library().display();
    let output = Command::new("timeout")
        .arg(LIMIT.as_secs().to_string())
        .args([EMULATOR, "-E", &format!("LD_PRELOAD={library}")])
        .arg(program.path())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{source}: {}\n{said}", output.status);
}

#[test]
fn what_grew_leaves_memory_that_others_can_use() {
    passes("c/buffers.c");
}

#[test]
fn alignment_is_kept() {
    passes("c/aligned.c");
}
