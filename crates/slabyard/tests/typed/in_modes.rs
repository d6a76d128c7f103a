//! Runs a body in a process for each mode, or one that has several yards.

use slabyard::ProcessYard;
use slabyard::platform::linux::Mode;
use std::process::Command;

const CHILD: &str = "SLABYARD_TYPED_CHILD";

static LIBRARY: ProcessYard = ProcessYard::new().mode(Mode::Library);
static OWN: ProcessYard = ProcessYard::new().mode(Mode::Own);
static SLOTS: ProcessYard = ProcessYard::new().mode(Mode::Slots);

/// Runs a test's body in a child for each mode that this machine has, and checks its yard after it.
/// `name` is the test's, from its module on.
pub fn in_each_mode(name: &str, body: fn(&'static ProcessYard)) {
    if let Ok(mode) = std::env::var(CHILD) {
        let (yard, wanted) = match mode.as_str() {
            "1" => (&LIBRARY, Mode::Library),
            "2" => (&OWN, Mode::Own),
            _ => (&SLOTS, Mode::Slots),
        };
        if yard.start().expect("memory").platform().mode() != wanted {
            return println!("mode {mode} is not there");
        }
        body(yard);
        return check(yard);
    }
    for mode in ["1", "2", "3"] {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", name, "--nocapture", "--include-ignored"]).env(CHILD, mode);
        if mode == "2" {
            // Ours is registered only where the C library's is off.
            child.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        }
        let status = child.status().expect("a child");
        assert!(status.success(), "mode {mode}: {status}");
    }
}

/// The yard is sound.
pub fn check(yard: &'static ProcessYard) {
    let yard = yard.start().expect("memory");
    yard.verify().expect("outside of a slow path").expect("a sound yard");
    assert_eq!(yard.set_aside(), 0);
}

/// Created caches that are there.
pub fn nr_caches(yard: &'static ProcessYard) -> usize {
    let yard = yard.start().expect("memory");
    yard.caches().numbers().count() - yard.caches().classes().len()
}
