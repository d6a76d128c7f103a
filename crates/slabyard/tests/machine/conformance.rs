//! Conformance of the engines: one body over an oracle ([`actor`]), for each engine, on
//! modelled machines of 4, 16 and 64 KiB pages, 1, 2 and 8 CPUs, with and without a way
//! to stop another CPU.
//!
//! * no address is handed out twice, alignment and size hold ([`oracle`]);
//! * `verify`, the counters, the oracle and the machine agree ([`books`]);
//! * so they do after preempted threads ([`threads`]) and refused memory
//!   ([`refusals`]);
//! * each of these checks finds the bug that it is for ([`planted`], [`engines`]).
//!
//! A failure names its machine and seed. `ci/miri` runs the tests whose names
//! begin with `miri_` under Miri.

pub mod actor;
pub mod books;
mod engines;
mod large;
pub mod oracle;
mod planted;
mod refusals;
mod sequences;
mod threads;

use crate::each_engine;
use slabyard::engine::Engine;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

/// Page sizes and numbers of CPUs that everything runs on.
const PAGES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];
const CPUS: [usize; 3] = [1, 2, 8];

/// Every machine, with a preemption and decay time that differ from seed to seed.
fn each_machine(mut f: impl FnMut(Config)) {
    for page_bytes in PAGES {
        for cpus in CPUS {
            for can_stop in [true, false] {
                f(Config { page_bytes, cpus, can_stop, ..Config::default() });
            }
        }
    }
}

/// A yard of sheaves on a machine, ready.
fn yard_on(config: Config) -> Yard<Machine> {
    yard_of(config)
}

/// A yard of any engine on a machine, ready.
fn yard_of<E: Engine>(config: Config) -> Yard<Machine, E> {
    let config = Config { nodes: each_engine::nodes(), ..config };
    let settings = settings(&config);
    let yard = each_engine::new_yard(Machine::new(config));
    assert!(yard.init(settings));
    yard
}

fn settings(config: &Config) -> Settings {
    let decay_ms = [20, 0, 250][(config.seed % 3) as usize];
    // More than a run holds at once, of some thousands.
    Settings { reserve_bytes: 1 << 30, decay_ms }
}

/// Says which run failed.
struct Says(String);

impl Says {
    fn of(config: &Config) -> Self {
        Says(format!("{config:?}"))
    }
}

impl Drop for Says {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it failed on {}", self.0);
        }
    }
}
