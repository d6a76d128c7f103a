//! Totals over all steps of a trace, which a replay needs before its first step.
//!
//! [`super::prepare`] collects the totals; the replay's start uses them to look ahead, and
//! [`super::left_out`] and [`super::grace`] decide by them. Invariant: steps may be added in any
//! order, except that steps of the same time are added in the order in which they run.

use super::frames::Slab;
use super::matching::{Step, StepKind};
use std::collections::BTreeMap;

/// What is known once all steps have passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Per cache.
    pub frees: Vec<Frees>,
    /// Of each initial slab that is allocated from: where that first happens; in order of time.
    pub first_uses: Vec<FirstUse>,
    /// By the task's number, in whose order CPUs that go hand tasks over: how many steps it makes.
    pub steps_of_task: BTreeMap<u32, u32>,
    /// One more than the highest CPU that a step names.
    pub cpus: usize,
}

/// Frees of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frees {
    /// Those too that no event shows.
    pub all: u64,
    /// Those of them that the trace missed.
    pub missed: u64,
}

/// The first allocation from a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstUse {
    /// Its number among the initial slabs.
    pub slab: u32,
    /// The CPU that allocated.
    pub cpu: u16,
}

impl Tally {
    /// Counts the tasks' steps again, after some were moved from one task to another.
    pub(super) fn count_tasks_again(&mut self, steps: &[Step]) {
        self.steps_of_task.clear();
        for of_task in steps.chunk_by(|a, b| a.task == b.task) {
            *self.steps_of_task.entry(of_task[0].task).or_default() += of_task.len() as u32;
        }
    }
}

/// Steps being counted.
pub(super) struct Counting {
    tally: Tally,
    /// Time, place among the steps, and CPU of the first allocation from each initial slab.
    first: Vec<Option<(u64, u64, u16)>>,
    last_free: Vec<Option<u64>>,
    steps: u64,
    /// The task of the last steps, and how many they are.
    task: (u32, u32),
}

impl Counting {
    pub(super) fn new(caches: usize, slabs: &[Slab]) -> Counting {
        let nr_initial = slabs.partition_point(|slab| slab.initial);
        Counting {
            tally: Tally { frees: vec![Frees::default(); caches], ..Tally::default() },
            first: vec![None; nr_initial],
            last_free: vec![None; slabs.len()],
            steps: 0,
            task: (0, 0),
        }
    }

    pub(super) fn add(&mut self, step: &Step) {
        self.steps += 1;
        if step.task != self.task.0 {
            self.add_task();
            self.task = (step.task, 0);
        }
        self.task.1 += 1;
        self.tally.cpus = self.tally.cpus.max(usize::from(step.cpu) + 1);
        if step.op == StepKind::Free {
            let frees = &mut self.tally.frees[step.cache as usize];
            frees.all += 1;
            frees.missed += u64::from(step.missed);
            if !step.missed {
                let last = &mut self.last_free[step.slab as usize];
                *last = (*last).max(Some(step.time_ns));
            }
        } else if let Some(first) = self.first.get_mut(step.slab as usize)
            && first.is_none_or(|(time_ns, ..)| step.time_ns < time_ns)
        {
            *first = Some((step.time_ns, self.steps, step.cpu));
        }
    }

    fn add_task(&mut self) {
        if self.task.1 > 0 {
            *self.tally.steps_of_task.entry(self.task.0).or_default() += self.task.1;
        }
    }

    /// The end: also the time of the last traced free in each slab.
    pub(super) fn finish(mut self) -> (Tally, Vec<Option<u64>>) {
        self.add_task();
        let uses = (0u32..).zip(&self.first).filter_map(|(slab, first)| Some((slab, (*first)?)));
        let mut uses: Vec<_> = uses.collect();
        uses.sort_unstable_by_key(|(_, (time_ns, nth, _))| (*time_ns, *nth));
        let first_use = |(slab, (_, _, cpu))| FirstUse { slab, cpu };
        self.tally.first_uses = uses.into_iter().map(first_use).collect();
        (self.tally, self.last_free)
    }
}
