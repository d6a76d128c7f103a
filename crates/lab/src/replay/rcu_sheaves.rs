//! Frees objects by the calls of a trace's steps, and says until when sheaves of `kfree_rcu()` wait
//! for readers.
//!
//! [`super::run`] and [`super::contend`] free by it, and end the grace periods that are due.
//! [`Readers`](crate::prepare::Readers) says when the trace's readers were gone. Invariant: sheaves
//! that wait are in order of their ends, and those of a cache in the order in which it filled them.

use crate::prepare::{CacheNumber, Prepared, Step, Via};
use slabyard_model::cache::KernelCache;
use std::collections::{HashMap, VecDeque};

/// Sheaves of all caches and CPUs.
#[derive(Default)]
pub(super) struct RcuSheaves {
    /// The full ones.
    waiting: VecDeque<WaitingSheaf>,
    /// Of those that fill, by cache and CPU: when the first object was freed.
    since: HashMap<(CacheNumber, usize), u64>,
}

/// A full sheaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitingSheaf {
    /// When its readers are gone.
    pub(super) due_ns: u64,
    pub(super) cache: CacheNumber,
    /// The CPU that filled it.
    pub(super) cpu: usize,
}

impl RcuSheaves {
    /// A step's object was freed at a time on a CPU, whose sheaf is full of such objects or not.
    pub(super) fn freed(
        &mut self,
        prepared: &Prepared,
        step: &Step,
        (cpu, time_ns): (usize, u64),
        is_full: bool,
    ) {
        if step.via != Via::Rcu {
            return;
        }
        let since = *self.since.entry((step.cache, cpu)).or_insert(time_ns);
        if is_full {
            self.since.remove(&(step.cache, cpu));
            let before = self.waiting.back().map_or(0, |last| last.due_ns);
            let due_ns = prepared.readers.gone_at(since, time_ns).max(before);
            self.waiting.push_back(WaitingSheaf { due_ns, cache: step.cache, cpu });
        }
    }

    /// The next one whose readers are gone at a time: it is to be given back.
    pub(super) fn take_due(&mut self, time_ns: u64) -> Option<WaitingSheaf> {
        self.waiting.pop_front_if(|first| first.due_ns <= time_ns)
    }
}

/// Frees an object of a slab on a CPU, by a step's call. True: the CPU's sheaf is full, and waits for
/// readers.
pub(super) fn free(
    prepared: &Prepared,
    cache: &mut KernelCache,
    step: &Step,
    cpu: usize,
    slab: u32,
) -> bool {
    match step.via {
        Via::Rcu => return cache.free_rcu(cpu, slab),
        // Where the object was used again, its grace period was over.
        Via::AfterReaders if prepared.caches[usize::from(step.cache)].left_out.is_some() => {
            if cache.free_rcu(cpu, slab) {
                cache.end_grace();
            }
        }
        _ => cache.free(cpu, slab),
    }
    false
}
