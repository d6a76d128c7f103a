//! What is replayed for a row, and what came of it: a [`Variant`] of a recording's machine and rules,
//! and the figures of a [`ReplayOutcome`] that rows ask for.
//!
//! [`super::runs`] replays. Figures are of the slabs that events of the recording touch.

use super::basis::RowError;
use super::recordings::Recording;
use slabyard_lab::case::Case;
use slabyard_lab::counters::Counter;
use slabyard_lab::replay::report::CacheUse;
use slabyard_lab::replay::{Relief, Replayed};

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

/// What came of a replay.
pub struct ReplayOutcome {
    /// Of the lab.
    pub replayed: Replayed,
    ids: Vec<String>,
    sizes: Vec<u32>,
    orders: Vec<u8>,
    page_size: u32,
}

impl ReplayOutcome {
    pub(super) fn of(case: &Case, replayed: Replayed) -> ReplayOutcome {
        ReplayOutcome {
            replayed,
            ids: case.ids.clone(),
            sizes: case.sizes.clone(),
            orders: case.orders.clone(),
            page_size: case.page_size,
        }
    }

    /// A counter over all caches.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> f64 {
        self.replayed.caches.iter().map(|cache| cache.counters().get(counter)).sum::<u64>() as f64
    }

    fn slab_bytes(&self, cache: usize) -> u64 {
        u64::from(self.page_size) << self.orders[cache]
    }

    /// Bytes of slabs at the end.
    #[must_use]
    pub fn end_bytes(&self) -> f64 {
        self.over(|nth, used| u64::from(used.places.slabs) * self.slab_bytes(nth))
    }

    /// Most bytes of slabs at a time.
    #[must_use]
    pub fn peak_bytes(&self) -> f64 {
        let before = self.replayed.before.caches.iter().enumerate();
        let before = before.map(|(nth, used)| u64::from(used.places.slabs) * self.slab_bytes(nth));
        let mut now: u64 = before.sum();
        let mut peak = now;
        for change in &self.replayed.changes {
            let bytes = self.slab_bytes(change.cache.into()) as i64;
            now = now.saturating_add_signed(i64::from(change.by) * bytes);
            peak = peak.max(now);
        }
        peak as f64
    }

    /// A sum over the caches at the end.
    pub fn over(&self, of: impl Fn(usize, &CacheUse) -> u64) -> f64 {
        let caches = self.replayed.after.caches.iter().enumerate();
        caches.map(|(nth, used)| of(nth, used)).sum::<u64>() as f64
    }

    /// Slabs on nodes' lists at the end.
    #[must_use]
    pub fn node_partial(&self) -> f64 {
        self.over(|_, used| used.places.node_partial.into())
    }

    /// Slabs without an object in use on CPU partial lists at the end, in bytes.
    #[must_use]
    pub fn empty_parked_bytes(&self) -> f64 {
        self.over(|nth, used| u64::from(used.places.cpu_empty) * self.slab_bytes(nth))
    }

    /// Free objects that CPUs and barns hold at the end, in bytes.
    #[must_use]
    pub fn parked_bytes(&self) -> f64 {
        self.over(|nth, used| used.free.parked() * u64::from(self.sizes[nth]))
    }

    /// The number of a cache.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn cache(&self, name: &str) -> Result<usize, RowError> {
        let found = self.ids.iter().position(|id| id == name);
        found.ok_or_else(|| RowError::Broken(format!("no cache {name} in the replay")))
    }
}
