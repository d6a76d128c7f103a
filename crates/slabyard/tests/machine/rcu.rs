//! Readers, and objects that wait for them.
//!
//! * the protocol alone, every order of its steps, with store buffers ([`model`]);
//! * preempted threads on the modelled machine, whose readers' stores arrive late ([`machine`]);
//! * one thread at a time: what waits, what is refused, forks ([`one`]);
//! * caches whose memory is type-safe for readers ([`typesafe`]);
//! * threads of a real process ([`on_linux`]), with as many operations as
//!   `STRESS_OPS` says.

mod machine;
mod model;
#[cfg(target_os = "linux")]
mod on_linux;
mod one;
mod typesafe;

use slabyard::engine::Engine;
use slabyard::platform::Platform;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

/// A yard of sheaves on a machine, ready.
fn yard_on(config: Config) -> Yard<Machine> {
    let yard = Yard::new(Machine::new(config));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 20 }));
    yard
}

/// The yard is sound.
fn check(yard: &Yard<Machine>) {
    if let Err(fault) = yard.verify().expect("outside of a slow path") {
        panic!("{fault}");
    }
}

/// A section: it ends when this is dropped.
#[must_use]
struct Section<'a, P: Platform, E: Engine>(&'a Yard<P, E>);

impl<'a, P: Platform, E: Engine> Section<'a, P, E> {
    fn of(yard: &'a Yard<P, E>) -> Self {
        yard.rcu_read_lock();
        Section(yard)
    }
}

impl<P: Platform, E: Engine> Drop for Section<'_, P, E> {
    fn drop(&mut self) {
        self.0.rcu_read_unlock();
    }
}
