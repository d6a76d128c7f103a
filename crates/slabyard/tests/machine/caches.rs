//! Created caches: they come, serve calls and go, while other CPUs run.
//!
//! * one thread at a time ([`one`]): geometry, names, constructors, what remains live, what the
//!   system refuses, forks, and planted bugs that `verify` must find;
//! * bulk calls, prefilled sheaves, walks over live objects, settings ([`bulk`]);
//! * preempted threads on the modelled machine ([`threads`]);
//! * threads of a real process ([`on_linux`]): 4,000 caches, made and destroyed again;
//! * what caches that a program does not use cost it ([`ten`]);
//! * objects of 8 bytes, whose slabs hold a part of their free set ([`small`]).

mod bulk;
#[cfg(target_os = "linux")]
mod on_linux;
mod one;
mod small;
#[cfg(target_os = "linux")]
mod ten;
mod threads;

use slabyard::engine::Engine;
use slabyard::platform::{GRANULE, Memory, PerCpu};
use slabyard::verify::Sound;
use slabyard::yard::{Settings, Yard};
use slabyard_abi::counters::YARD_FIELDS;
use slabyard_testkit::machine::{Config, Machine};

/// A yard of sheaves on a machine, ready.
fn yard_on(config: Config) -> Yard<Machine> {
    begun(Yard::new(Machine::new(config)))
}

fn begun<E: Engine>(yard: Yard<Machine, E>) -> Yard<Machine, E> {
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 20 }));
    yard
}

/// What a sound yard holds; the counters' parts add up, and the metadata is what the machine
/// committed.
fn sound<E: Engine>(yard: &Yard<Machine, E>) -> Sound {
    let sound = yard.verify().expect("outside of a slow path").expect("a sound yard");
    let sum = yard.quiesce(|quiesced| Yard::count(quiesced, |_, _| ())).expect("no slow path");
    let parts: u64 = YARD_FIELDS.iter().filter(|f| f.field.part).map(|f| (f.get)(&sum)).sum();
    assert_eq!(parts, sum.committed, "{sum:?}");
    let platform = yard.platform();
    // The machine gives the first page of each row, and the page in front of them, without
    // counting them.
    let first = 4096usize.next_multiple_of(platform.page_bytes()).min(1 << 16);
    let uncounted = platform.rows().len() * first + platform.page_bytes();
    let machine = yard.platform();
    let committed = machine.committed_bytes() + machine.mapped_bytes() + uncounted;
    // What the region has beyond its top is no part of it yet.
    let ahead = yard.heap.region.ahead() * GRANULE;
    assert_eq!(sum.committed + sum.returned, (committed - ahead) as u64, "{sum:?}");
    sound
}
