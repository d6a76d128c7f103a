//! Yards on the system that runs, in one program: each program would compile their engines anew.
//!
//! A yard is never given up, and what the system tells of mappings is of a whole process, so each test
//! runs in a process of its own, which is this program once more.

mod dense;
mod grows;
mod handlers;
mod huge_pages;
mod rows;
mod small_pages;
mod sparse;
mod typed;

use std::process::Command;

/// In the child alone.
const OWN: &str = "SLABYARD_OWN_PROCESS";

/// Runs a test's body in a process of its own. `name` is the test's, from this file on.
fn in_own_process(name: &str, body: fn()) {
    if std::env::var_os(OWN).is_some() {
        return body();
    }
    ran(again(name).env(OWN, "1"), name);
}

/// This program with one test alone.
fn again(name: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", name, "--nocapture", "--include-ignored"]);
    child
}

/// Waits for such a child, whose test passed.
fn ran(child: &mut Command, what: &str) {
    let output = child.output().expect("a child");
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}", output.status);
    // A name that is no test's would pass, too.
    assert!(said.contains("running 1 test"), "{what} is no test");
}
