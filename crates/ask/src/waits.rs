//! How long calls wait for one another on a machine whose CPUs overlap in time.
//!
//! Neighbour: `slabyard_lab::replay::contend` runs it. Invariant: each CPU has as many tasks as one of
//! the traced machine, so that rows of different numbers of CPUs compare.

use crate::Error;
use anyhow::Context as _;
use serde::Serialize;
use slabyard_lab::case::Case;
use slabyard_lab::counters::Counter;
use slabyard_lab::replay::contend::{Contended, Costs, contend};
use slabyard_lab::replay::{Plan, Start};

/// What calls wait for, with overlapping CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waits {
    /// CPUs of the machine.
    pub cpus: u32,
    /// Tasks for each of the trace.
    pub tasks: u32,
    /// The share of list locks that another CPU held.
    pub list_locks_waited: f64,
    /// The share of barn locks that another CPU held.
    pub barn_locks_waited: f64,
    /// The share of compare-exchanges of slabs that failed.
    pub exchanges_failed: f64,
    /// Compare-exchanges under a list lock, for a million calls.
    pub exchanges_under_list_lock: f64,
    /// The share of all calls' time that is waiting for locks.
    pub waiting: f64,
    /// The longest wait for a list lock.
    pub longest_wait_ns: u64,
    /// Nanoseconds of a call in the mean, waiting included.
    pub ns: f64,
}

impl Waits {
    /// Runs a case, whose rules are of so many CPUs, with so many tasks for each of the trace.
    ///
    /// # Errors
    /// The trace's file cannot be read again.
    pub fn of(case: &Case, cpus: u32, tasks: u32, costs: Costs) -> Result<Waits, Error> {
        let done = contend(&Plan { tasks, ..case.plan(Start::LookAhead) }, costs);
        case.prepared.steps.sound().context("the replay failed")?;
        Ok(of(cpus, tasks, &done))
    }
}

fn of(cpus: u32, tasks: u32, done: &Contended) -> Waits {
    let counts = &done.counts;
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let under = done.counters.get(Counter::CmpxchgUnderLock);
    Waits {
        cpus,
        tasks,
        list_locks_waited: share(counts.waited, counts.locks),
        barn_locks_waited: share(counts.barn_waited, counts.barn_locks),
        exchanges_failed: share(counts.failed, counts.exchanges),
        exchanges_under_list_lock: share(under, counts.calls) * 1e6,
        waiting: share(counts.wait_ns + counts.barn_wait_ns, counts.call_ns),
        longest_wait_ns: counts.longest_wait_ns,
        ns: share(counts.call_ns, counts.calls),
    }
}
