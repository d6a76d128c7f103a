//! Page lists of every kind in front of a yard's buddy, below each engine.
//!
//! * a yard stays whole, alone, with preempted threads, and with refused memory ([`whole`]);
//! * the page that was freed last is the next, and what a list does is counted ([`calls`]).
//!
//! `crates/model/tests/page_lists.rs` holds them against the lists of modelled kernels.

mod calls;
mod whole;

use crate::conformance::books;
use slabyard::engine::Engine;
use slabyard::yard::{Settings, Yard};
use slabyard_kernels::PageLists;
use slabyard_testkit::machine::{Config, Machine};

/// A zone of which a batch is few pages, so that small yards reach every bound.
const SMALL_ZONE: u64 = 64 << 20;
/// A zone with the largest batch.
const BIG_ZONE: u64 = 4 << 30;

/// A yard with these lists, ready.
fn yard_of<E: Engine>(config: Config, kind: PageLists, zone: u64) -> Yard<Machine, E> {
    let decay_ms = [20, 0, 250][(config.seed % 3) as usize];
    let yard: Yard<Machine, E> = Yard::new(Machine::new(config));
    assert!(slabyard_page_lists::choose(&yard.heap, kind, zone));
    assert!(!slabyard_page_lists::choose(&yard.heap, kind, zone), "chosen already");
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms }));
    yard
}

/// Says which run failed.
struct Says(String);

impl Drop for Says {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it failed with {}", self.0);
        }
    }
}
