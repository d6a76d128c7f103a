//! The engines on threads that run at once, for Miri, which finds data races, undefined behaviour
//! and stores that another thread may not see yet: `ci/miri` runs this for many seeds.
//!
//! Objects are real memory, and their owners write to them without atomics ([`owned`]). So if a
//! block passes from one thread to another and the allocator does not order the frees of the one
//! before the allocations of the other, Miri reports a race.
//!
//! It is a program of its own, which Miri alone runs, so that it is soon built anew: proofs that an
//! ordering is needed weaken it, one after the other, and run a test.
#![cfg(miri)]

#[path = "parallel/orders.rs"]
mod orders;
#[path = "parallel/owned.rs"]
mod owned;
#[path = "parallel/threads.rs"]
mod threads;

use slabyard::engine::Engine;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::parallel::{Owner, Parallel};

/// Threads beside the main one.
const THREADS: usize = 3;
/// Room for objects.
const RESERVED: usize = 2 << 20;

/// A yard on a machine, before it begins.
fn new_yard<E: Engine>(owner: Owner) -> Yard<Parallel, E> {
    Yard::new(Parallel::new(owner, THREADS))
}

/// On little memory, with a short decay time.
fn begun<E: Engine>(yard: Yard<Parallel, E>) -> Yard<Parallel, E> {
    assert!(yard.init(Settings { reserve_bytes: RESERVED, decay_ms: 20 }));
    yard
}
