//! Runs a body in a process for each mode, or one that has several yards.

use crate::{again, ran};
use slabyard::ProcessYard;
use slabyard::engine::{Any, Engine};
use slabyard::observe::count;
use slabyard::platform::linux::Mode;

const CHILD: &str = "SLABYARD_TYPED_CHILD";

static LIBRARY: ProcessYard = ProcessYard::new().mode(Mode::Library);
static OWN: ProcessYard = ProcessYard::new().mode(Mode::Own);
static SLOTS: ProcessYard = ProcessYard::new().mode(Mode::Slots);

/// Of all engines, which may have debugging.
static ANY_LIBRARY: ProcessYard<Any> = ProcessYard::new().mode(Mode::Library);
static ANY_OWN: ProcessYard<Any> = ProcessYard::new().mode(Mode::Own);
static ANY_SLOTS: ProcessYard<Any> = ProcessYard::new().mode(Mode::Slots);

/// Runs a test's body in a child for each mode that this machine has, and checks its yard after it.
/// `name` is the test's, from the module in `typed` on.
pub fn in_each_mode(name: &str, body: fn(&'static ProcessYard)) {
    in_each_mode_of([&LIBRARY, &OWN, &SLOTS], name, body);
}

/// As [`in_each_mode`], with a yard of all engines.
pub fn in_each_mode_of_any(name: &str, body: fn(&'static ProcessYard<Any>)) {
    in_each_mode_of([&ANY_LIBRARY, &ANY_OWN, &ANY_SLOTS], name, body);
}

fn in_each_mode_of<E: Engine>(
    [library, own, slots]: [&'static ProcessYard<E>; 3],
    name: &str,
    body: fn(&'static ProcessYard<E>),
) {
    if let Ok(mode) = std::env::var(CHILD) {
        let (yard, wanted) = match mode.as_str() {
            "1" => (library, Mode::Library),
            "2" => (own, Mode::Own),
            _ => (slots, Mode::Slots),
        };
        if yard.start().expect("memory").platform().mode() != wanted {
            return println!("mode {mode} is not there");
        }
        body(yard);
        return check(yard);
    }
    for mode in ["1", "2", "3"] {
        let mut child = again(&format!("typed::{name}"));
        child.env(CHILD, mode);
        if mode == "2" {
            // Ours is registered only where the C library's is off.
            child.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        }
        ran(&mut child, &format!("{name} in mode {mode}"));
    }
}

/// The yard is sound.
pub fn check<E: Engine>(yard: &'static ProcessYard<E>) {
    let yard = yard.start().expect("memory");
    yard.verify().expect("outside of a slow path").expect("a sound yard");
    assert_eq!(count::set_aside(&yard.heap), 0);
}

/// Created caches that are there.
pub fn nr_caches<E: Engine>(yard: &'static ProcessYard<E>) -> usize {
    let yard = yard.start().expect("memory");
    yard.caches().numbers().count() - yard.caches().classes().len()
}
