//! Decides where tasks run on a machine with other CPUs than the traced one, or with more tasks.
//!
//! A trace names the task of each event. With the traced CPUs and tasks, each event runs on its
//! traced CPU. Otherwise a small scheduler places tasks:
//!
//! 1. At its first event a task goes to the CPU with the fewest tasks; among equals, to the
//!    lowest-numbered CPU.
//! 2. It stays on that CPU, where its objects are warm, while it runs. A task wakes at its first
//!    event after [`WAKE_NS`] without events: it then moves to the CPU with the fewest tasks if its
//!    own CPU has at least two more.
//! 3. A task counts towards its CPU's load until its last event.
//! 4. Events of an idle CPU, and of interrupts on it, belong to task 0. The frees among them are
//!    assumed to be callbacks, and run on the CPU that allocated the object; the other events run
//!    on the CPU where the traced CPU's last task is.
//!
//! The tasks of a CPU that goes offline move to the CPUs with the fewest tasks, one after the
//! other; a CPU that comes online has no tasks, and receives tasks as they wake. Until the first
//! CPU goes offline or comes online, events run on their traced CPU, if it exists.
//!
//! If a machine has more tasks than were traced, each task is copied, with objects of its own. A
//! copy acts at the same times as its task; objects from before the trace belong to the original.
//!
//! [`super::replay`] asks this module before each step. Limit: in a trace of few CPUs, no more
//! tasks than CPUs run at once, so on more CPUs the replay holds fewer objects at once than a
//! kernel with more tasks would. Invariant: the placement depends only on the trace and on the
//! numbers of CPUs and copies, so settings that change neither have the same live objects on the
//! same CPUs at every moment.

use super::Plan;
use crate::prepare::{Step, StepKind};
use std::collections::HashMap;

/// A task that was silent for so long slept.
const WAKE_NS: u64 = 1_000_000;

const NOBODY: u32 = u32::MAX;

/// The scheduler.
pub(super) struct Tasks {
    /// Each event runs where it ran.
    as_traced: bool,
    copies: u32,
    nr_cpus: usize,
    /// CPUs that are online.
    there: Vec<bool>,
    /// By task, its first copy first.
    tasks: Vec<Task>,
    /// Index of each task of the trace.
    index_of: HashMap<u32, u32>,
    /// Tasks on each CPU.
    load: Vec<u32>,
    /// The task that each traced CPU ran last, by copy.
    ran_last: Vec<u32>,
    /// The CPU that allocated each object, by copy; [`NOBODY`] if none did.
    allocated_on: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Task {
    /// Where it is; [`NOBODY`]: it has not begun.
    cpu: u32,
    ran_ns: u64,
    /// Steps to come; a task without any counts on no CPU.
    left: u32,
}

impl Tasks {
    /// The tasks of a trace, each copied so many times, on a machine.
    pub(super) fn new(plan: &Plan<'_>) -> Self {
        let Plan { prepared, tasks: copies, .. } = *plan;
        let (nr_cpus, copies) = (plan.node_of.len(), copies.max(1));
        let (tally, there) = (&prepared.tally, plan.there_at_start());
        let as_traced = copies == 1 && plan.nr_traced() == nr_cpus && !there.contains(&false);
        let stays = as_traced && !plan.events.iter().any(|event| event.what.is_of_cpus());
        let (mut index_of, mut tasks) = (HashMap::new(), Vec::new());
        if !stays {
            for (index, (task, left)) in (0u32..).zip(&tally.steps_of_task) {
                index_of.insert(*task, index);
                let task = Task { cpu: NOBODY, ran_ns: 0, left: *left };
                tasks.extend(std::iter::repeat_n(task, copies as usize));
            }
        }
        let objects = if stays { 0 } else { prepared.nr_objects() * copies as usize };
        Tasks {
            as_traced,
            copies,
            nr_cpus,
            there,
            tasks,
            index_of,
            load: vec![0; nr_cpus],
            ran_last: Vec::new(),
            allocated_on: vec![NOBODY; objects],
        }
    }

    /// The CPU of a copy of a step.
    pub(super) fn cpu_of(&mut self, step: &Step, copy: u32) -> usize {
        if self.as_traced {
            let cpu = step.cpu as usize % self.nr_cpus;
            if !self.tasks.is_empty() {
                self.follow(step, cpu);
            }
            return cpu;
        }
        let traced = step.cpu as usize * self.copies as usize + copy as usize;
        if traced >= self.ran_last.len() {
            self.ran_last.resize(traced + 1, NOBODY);
        }
        let object = step.object as usize * self.copies as usize + copy as usize;
        let index = self.index_of[&step.task];
        let cpu = if step.task == 0 {
            self.cpu_of_idle(step, copy, object)
        } else {
            self.ran_last[traced] = index;
            self.place((index * self.copies + copy) as usize, step.time_ns)
        };
        if step.op == StepKind::Alloc {
            self.allocated_on[object] = cpu as u32;
        }
        cpu
    }

    /// Notes where a task ran that is not placed yet.
    fn follow(&mut self, step: &Step, cpu: usize) {
        let index = self.index_of[&step.task];
        if step.op == StepKind::Alloc {
            self.allocated_on[step.object as usize] = cpu as u32;
        }
        if step.task == 0 {
            return;
        }
        if cpu >= self.ran_last.len() {
            self.ran_last.resize(cpu + 1, NOBODY);
        }
        self.ran_last[cpu] = index;
        let task = &mut self.tasks[index as usize];
        if task.cpu != NOBODY {
            self.load[task.cpu as usize] -= 1;
        }
        *task = Task { cpu: cpu as u32, ran_ns: step.time_ns, left: task.left - 1 };
        self.load[cpu] += u32::from(task.left > 0);
    }

    /// A CPU goes.
    pub(super) fn unplug(&mut self, cpu: usize) {
        self.as_traced = false;
        self.there[cpu] = false;
        for task in 0..self.tasks.len() {
            let Task { cpu: on, left, .. } = self.tasks[task];
            if on == cpu as u32 {
                let idlest = self.idlest();
                self.load[idlest] += u32::from(left > 0);
                self.tasks[task].cpu = idlest as u32;
            }
        }
        self.load[cpu] = 0;
    }

    /// A CPU comes.
    pub(super) fn plug(&mut self, cpu: usize) {
        self.as_traced = false;
        self.there[cpu] = true;
    }

    /// The CPU with the fewest tasks.
    fn idlest(&self) -> usize {
        let there = (0..self.nr_cpus).filter(|cpu| self.there[*cpu]);
        there.min_by_key(|cpu| self.load[*cpu]).unwrap_or(0)
    }

    fn cpu_of_idle(&self, step: &Step, copy: u32, object: usize) -> usize {
        let allocated_on = self.allocated_on[object];
        let is_there = |cpu: u32| cpu != NOBODY && self.there[cpu as usize];
        if step.op == StepKind::Free && is_there(allocated_on) {
            return allocated_on as usize;
        }
        let traced = (step.cpu as u32 * self.copies + copy) as usize;
        let last = self.ran_last.get(traced).copied().unwrap_or(NOBODY);
        let task = (last != NOBODY).then(|| self.tasks[(last * self.copies + copy) as usize]);
        match task.filter(|task| is_there(task.cpu)) {
            Some(task) => task.cpu as usize,
            None => {
                let from = step.cpu as usize + copy as usize;
                let mut all = (0..self.nr_cpus).map(|nth| (from + nth) % self.nr_cpus);
                all.find(|cpu| self.there[*cpu]).unwrap_or(0)
            }
        }
    }

    fn place(&mut self, task: usize, now_ns: u64) -> usize {
        let Task { mut cpu, ran_ns, left } = self.tasks[task];
        let woke = now_ns.saturating_sub(ran_ns) > WAKE_NS;
        if cpu == NOBODY || woke {
            let idlest = self.idlest();
            if cpu == NOBODY {
                cpu = idlest as u32;
                self.load[idlest] += 1;
            } else if self.load[cpu as usize] >= self.load[idlest] + 2 {
                self.load[cpu as usize] -= 1;
                self.load[idlest] += 1;
                cpu = idlest as u32;
            }
        }
        self.tasks[task] = Task { cpu, ran_ns: now_ns, left: left - 1 };
        if left == 1 {
            self.load[cpu as usize] -= 1;
        }
        cpu as usize
    }
}
