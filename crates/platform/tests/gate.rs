//! The gate, as the child of a fork finds it.

use slabyard_platform::gate::{Forgotten, Gate};
use slabyard_testkit::machine::{Body, Config, Machine};

/// The child of a fork has the counts of threads that are not there: none takes them off.
#[test]
fn a_child_waits_for_no_thread_of_its_parent() {
    let (machine, gate) = (Machine::new(Config::default()), Gate::new());
    let nobody = Forgotten { inside: false, looked: false };
    assert_eq!(gate.forget(), nobody);
    // Several of them, so that several stripes count them.
    let stays_inside = |_| -> Body<'_> {
        Box::new(|m| {
            let _ = gate.enter(m);
        })
    };
    machine.run((0..machine.config().max_threads).map(stays_inside).collect());
    assert_eq!(gate.forget(), Forgotten { inside: true, ..nobody });
    assert!(gate.close(&machine));
    assert_eq!(gate.forget(), Forgotten { looked: true, ..nobody });
    // The machine's only thread would sleep for ever, which it reports.
    assert!(gate.close(&machine));
    gate.open(&machine);
    let inside = gate.enter(&machine);
    gate.leave(&machine, inside);
    assert_eq!(gate.forget(), nobody);
}
