//! What is replayed for a row, and what came of it: a [`Variant`] of a recording's machine and rules,
//! and the figures of a [`ReplayOutcome`] that rows ask for.
//!
//! [`super::runs`] replays, [`crate::figures`] has the figures. They are of the slabs that events of
//! the recording touch.

use super::basis::RowError;
use super::recordings::Recording;
use crate::figures::{self, CacheFigures, Figures};
use slabyard_lab::case::Case;
use slabyard_lab::counters::Counter;
use slabyard_lab::replay::contend::Contended;
use slabyard_lab::replay::{Relief, Replayed, Start};
use slabyard_lab::snapshot::KernelSnapshot;

/// Which of the kernel's allocators replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// `mm/slub.c`, with the fronts that its releases had.
    Slub,
    /// `mm/slab.c`, with arrays for CPUs.
    Slab,
}

/// A machine and rules for a recording; what is not said is the recording's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// A kernel's.
    pub release: &'static str,
    /// `KEY=VALUE`, as `slabyard replay --set` takes them.
    pub set: &'static [&'static str],
    /// CPUs of the machine.
    pub cpus: Option<u32>,
    /// Memory nodes that share the CPUs out.
    pub nodes: Option<u32>,
    /// Copies of each task.
    pub tasks: u32,
    /// Whose rules hold.
    pub allocator: Allocator,
    /// All caches are shrunk after the last event.
    pub shrunk: bool,
    /// Bytes of its memory, and what is done when they are short.
    pub memory: Option<(u64, Relief)>,
}

impl Variant {
    /// A release's rules on the recording's machine.
    #[must_use]
    pub const fn of(release: &'static str) -> Variant {
        Variant {
            release,
            set: &[],
            cpus: None,
            nodes: None,
            tasks: 1,
            allocator: Allocator::Slub,
            shrunk: false,
            memory: None,
        }
    }

    /// With settings.
    #[must_use]
    pub const fn set(mut self, set: &'static [&'static str]) -> Variant {
        self.set = set;
        self
    }

    /// On so many CPUs, with as many copies of the tasks.
    #[must_use]
    pub const fn on(mut self, cpus: u32, nodes: u32, tasks: u32) -> Variant {
        (self.cpus, self.nodes, self.tasks) = (Some(cpus), Some(nodes), tasks);
        self
    }

    /// Replayed with arrays instead of CPU slabs.
    #[must_use]
    pub const fn by_slab(mut self) -> Variant {
        self.allocator = Allocator::Slab;
        self
    }

    /// Shrunk at the end.
    #[must_use]
    pub const fn shrunk(mut self) -> Variant {
        self.shrunk = true;
        self
    }

    /// With so much memory.
    #[must_use]
    pub const fn memory(mut self, bytes: u64, relief: Relief) -> Variant {
        self.memory = Some((bytes, relief));
        self
    }

    pub(super) fn key(&self, recording: &Recording) -> String {
        format!("{} {self:?}", recording.name)
    }
}

/// Nanoseconds of a call in the mean, waiting included.
pub(super) fn ns_a_call(done: &Contended) -> f64 {
    done.counts.call_ns as f64 / done.counts.calls as f64
}

/// What came of a replay.
pub struct ReplayOutcome {
    /// Of the lab.
    pub replayed: Replayed,
    /// What `slabyard replay` shows of it.
    pub figures: Figures,
    page_bytes: u64,
}

fn known(number: Option<u64>) -> Result<f64, RowError> {
    number.map(|number| number as f64).ok_or_else(|| RowError::Broken("not known".into()))
}

impl ReplayOutcome {
    pub(super) fn of(snapshot: &KernelSnapshot, case: &Case, replayed: Replayed) -> ReplayOutcome {
        let changes = case.changes.clone();
        let figures = figures::of(snapshot, case, Start::LookAhead, changes, &replayed);
        ReplayOutcome { replayed, figures, page_bytes: case.page_size.into() }
    }

    /// A counter over all caches.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> f64 {
        self.figures.counters.get(counter) as f64
    }

    /// Bytes of slabs at the end.
    ///
    /// # Errors
    /// They are not known.
    pub fn end_bytes(&self) -> Result<f64, RowError> {
        known(self.figures.totals.after.bytes)
    }

    /// Slabs on nodes' lists at the end.
    ///
    /// # Errors
    /// They are not known.
    pub fn node_partial(&self) -> Result<f64, RowError> {
        known(self.figures.caches.iter().map(|cache| cache.after.partial).sum())
    }

    /// Slabs without an object in use on CPU partial lists at the end, in bytes.
    ///
    /// # Errors
    /// They are not known.
    pub fn empty_parked_bytes(&self) -> Result<f64, RowError> {
        let bytes = |cache: &CacheFigures| {
            Some(cache.after.slabs_cpu_partial_empty? * (self.page_bytes << cache.order))
        };
        known(self.figures.caches.iter().map(bytes).sum())
    }

    /// Free objects that CPUs and barns hold at the end, in bytes.
    ///
    /// # Errors
    /// They are not known.
    pub fn parked_bytes(&self) -> Result<f64, RowError> {
        known(self.figures.totals.after.parked)
    }

    /// The number of a cache.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn cache(&self, name: &str) -> Result<usize, RowError> {
        let found = self.figures.caches.iter().position(|cache| cache.name == name);
        found.ok_or_else(|| RowError::Broken(format!("no cache {name} in the replay")))
    }
}
