//! A run in progress: the modelled machine, its caches, and the results so far.
//!
//! A step of the trace becomes one call on one CPU for each copy of its task. Before each call the
//! run does everything due by then: it allocates and frees the trace's non-slab pages, applies the
//! machine's events, and reaps by timers.
//!
//! [`super::replay`] starts and finishes a run; [`super::changes`] records which slabs a call
//! allocated and freed.

use super::changes::{Call, SlabChanges};
use super::events::{Event, MachineEvent};
use super::memory::{AllocRequest, Memory};
use super::outcome::{ReplayFailure, Replayed, Unsound};
use super::pages::Pages;
use super::plan::{Plan, Start};
use super::rcu_sheaves::{self, RcuSheaves};
use super::report::Sample;
use super::start::{self, PlacedSlabs};
use super::tasks::Tasks;
use super::timers::Timers;
use crate::prepare::{Step, StepKind};
use slabyard_model::cache::{KernelCache, NONE};

/// The machine, and how far it is.
pub(super) struct Run<'p, 'a> {
    plan: &'p Plan<'a>,
    caches: Vec<KernelCache>,
    /// Where the kernel's slabs are in the model.
    placed: PlacedSlabs,
    /// Model's slab of each object that is live, of each copy of its task.
    slab_of: Vec<u32>,
    /// How many copies there are of each task.
    copies: u32,
    /// How many memory nodes the machine has.
    nodes: u16,
    memory: Option<Memory<'a>>,
    pages: Option<Pages>,
    /// Of caches with arrays.
    timers: Option<Timers>,
    tasks: Tasks,
    /// Events of the machine that are to come.
    events: std::iter::Peekable<std::slice::Iter<'a, Event>>,
    rcu_sheaves: RcuSheaves,
    changes: SlabChanges,
    samples: Vec<Sample>,
    frees_left_out: u64,
    untouched: Vec<u64>,
}

/// How far a run came.
#[derive(Clone, Copy)]
pub(super) struct RunProgress {
    /// Steps done.
    done: usize,
    /// Time of the last one.
    time_ns: u64,
}

impl<'p, 'a> Run<'p, 'a> {
    /// The machine as it is before the first step.
    pub(super) fn new(plan: &'p Plan<'a>) -> Run<'p, 'a> {
        let mut caches = plan.caches();
        caches.iter_mut().for_each(|cache| {
            cache.follow_arrays(plan.slab.choice);
            if !plan.slab.has_aliens {
                cache.without_aliens();
            }
        });
        let placed = start::place(plan, &mut caches);
        let copies = plan.tasks.max(1);
        let mut slab_of = vec![NONE; plan.prepared.nr_objects() * copies as usize];
        start::own(plan, &placed, &mut slab_of);
        if plan.start != Start::Empty {
            start::repack(plan, &placed, &mut caches, &mut slab_of);
        }
        let all = caches.iter().enumerate();
        let untouched = all.map(|(nth, cache)| placed.untouched(plan, nth, cache)).collect();
        caches.iter_mut().for_each(KernelCache::begin);
        let memory = plan.memory.map(|limit| Memory::new(limit, plan, &mut caches, &placed));
        let nodes = plan.node_of.iter().max().map_or(1, |node| node + 1);
        let has_arrays = caches.iter().any(KernelCache::has_arrays);
        Run {
            plan,
            placed,
            slab_of,
            copies,
            nodes,
            memory,
            pages: plan.page_lists.map(|rules| Pages::new(rules, plan)),
            timers: has_arrays
                .then(|| Timers::new(plan.slab, plan.node_of.len(), caches.len(), nodes)),
            tasks: Tasks::new(plan),
            events: plan.events.iter().peekable(),
            rcu_sheaves: RcuSheaves::default(),
            changes: SlabChanges::default(),
            samples: Vec::new(),
            frees_left_out: 0,
            untouched,
            caches,
        }
    }

    /// The caches at a time.
    pub(super) fn sample(&self, time_ns: u64) -> Sample {
        Sample::of(time_ns, &self.caches)
    }

    /// Makes all requested steps, or ends where there is no memory.
    pub(super) fn steps(&mut self) -> Result<RunProgress, ReplayFailure> {
        let prepared = self.plan.prepared;
        let wanted = self.plan.steps.unwrap_or(usize::MAX).min(prepared.steps.len());
        let copies = self.copies;
        let steps = prepared.steps.iter().take(wanted).enumerate();
        let copied = steps.flat_map(|(nth, step)| (0..copies).map(move |copy| (nth, step, copy)));
        let mut reached = RunProgress { done: 0, time_ns: *prepared.span.start() };
        for (nth, step, copy) in copied {
            if !self.pass_time(nth, step.time_ns) {
                break;
            }
            reached = RunProgress { done: nth + 1, time_ns: step.time_ns };
            if self.plan.is_gone(step.cache.into()) {
                continue;
            }
            let cpu = self.tasks.cpu_of(&step, copy);
            let step = Step { cpu: cpu as u16, object: step.object * copies + copy, ..step };
            self.end_grace(step.time_ns);
            self.reap(cpu, step.time_ns);
            if !self.plan.is_without_slabs(step.cache.into()) {
                if step.op == StepKind::Free {
                    self.free(&step, copy);
                } else if !self.alloc(nth, &step) {
                    break;
                }
                self.note_call(nth, &step);
            }
            if copy + 1 == copies {
                self.look(nth, step.time_ns)?;
            }
        }
        Ok(reached)
    }

    /// Lets happen what is due before a step. False: there is no memory left.
    fn pass_time(&mut self, nth: usize, time_ns: u64) -> bool {
        if let Some(memory) = &mut self.memory {
            if memory.has_failed() || !memory.pass(self.plan, nth, time_ns, &self.caches) {
                return false;
            }
            if memory.was_relieved() {
                self.note_all(time_ns);
            }
        }
        let due_ns = time_ns.saturating_sub(*self.plan.prepared.span.start());
        while let Some(event) = self.events.next_if(|event| event.at_ns <= due_ns) {
            self.happen(event.what);
            self.note_all(time_ns);
        }
        true
    }

    /// Gives sheaves back whose readers are gone.
    fn end_grace(&mut self, time_ns: u64) {
        while let Some(sheaf) = self.rcu_sheaves.take_due(time_ns) {
            let cache = &mut self.caches[usize::from(sheaf.cache)];
            let cpu = cache.end_grace();
            let call = Call { cache: sheaf.cache, cpu, time_ns: sheaf.due_ns };
            self.changes.note(self.plan, cache, call, &mut self.pages);
        }
    }

    /// Lets the timers of SLAB's caches reap; what follows is a CPU's.
    fn reap(&mut self, cpu: usize, time_ns: u64) {
        let since_ns = time_ns.saturating_sub(*self.plan.prepared.span.start());
        if let Some(timers) = &mut self.timers
            && timers.reap(&self.caches, self.plan.orders, cpu, since_ns)
        {
            self.note_all(time_ns);
        }
        if let Some(memory) = &self.memory {
            memory.on(time_ns, cpu);
        }
    }

    /// Allocates the step's object. False: there is no memory for it.
    fn alloc(&mut self, nth: usize, step: &Step) -> bool {
        let (number, cpu) = (step.cache as usize, step.cpu as usize);
        let cache = &mut self.caches[number];
        self.placed.before_alloc(cache, number, cpu);
        // A node that the machine does not have is no wish.
        let node = u16::try_from(step.node).ok().filter(|node| *node < self.nodes);
        let object = &mut self.slab_of[step.object as usize];
        cache.may_wait.set(!step.nowait);
        *object = cache.alloc_by(step.via.alloc_call(), cpu, node);
        let Some(memory) = &mut self.memory else { return true };
        if !memory.was_refused() {
            return true;
        }
        if *object == NONE {
            let time_ns = step.time_ns;
            let request = AllocRequest { step: nth, time_ns, cache: number, cpu, node };
            *object = memory.retry(&request, &mut self.caches);
        } else {
            memory.relieve(&self.caches);
        }
        let is_there = *object != NONE;
        self.note_all(step.time_ns);
        is_there
    }

    /// Frees the step's object, if the model has it.
    fn free(&mut self, step: &Step, copy: u32) {
        let (number, cpu) = (step.cache as usize, step.cpu as usize);
        let cache = &mut self.caches[number];
        let object = &mut self.slab_of[step.object as usize];
        let mut slab = std::mem::replace(object, NONE);
        // What was there before is the first copies'.
        if slab == NONE && copy == 0 {
            slab = self.placed.bind(cache, number, step.slab);
        }
        if slab == NONE {
            self.frees_left_out += u64::from(copy == 0);
            return;
        }
        let prepared = self.plan.prepared;
        let is_full = rcu_sheaves::free(prepared, cache, step, cpu, slab);
        self.rcu_sheaves.freed(prepared, step, (cpu, step.time_ns), is_full);
    }

    /// Notes the slabs that a step's call began and ended.
    fn note_call(&mut self, nth: usize, step: &Step) {
        let cache = &mut self.caches[step.cache as usize];
        if cache.has_pages() {
            let cpu = step.cpu as usize;
            let call = Call { cache: step.cache, cpu, time_ns: step.time_ns };
            self.changes.note(self.plan, cache, call, &mut self.pages);
            self.changes.note_peak(nth + 1);
        }
    }

    /// Notes the slabs that something ended in any cache.
    fn note_all(&mut self, time_ns: u64) {
        self.changes.note_all(self.plan, &mut self.caches, time_ns, &mut self.pages);
    }

    /// Samples and checks the caches behind a step, where that is due.
    fn look(&mut self, nth: usize, time_ns: u64) -> Result<(), Unsound> {
        let is_due = |every: usize| every > 0 && nth.is_multiple_of(every);
        if is_due(self.plan.sample_every) {
            self.samples.push(self.sample(time_ns));
        }
        if is_due(self.plan.audit_every) {
            self.audit(nth)?;
        }
        Ok(())
    }

    /// Lets an event happen to the machine.
    fn happen(&mut self, event: MachineEvent) {
        match event {
            MachineEvent::Offline(cpu) => {
                self.caches.iter().for_each(|cache| cache.unplug(cpu.into()));
                self.tasks.unplug(cpu.into());
                if let Some(pages) = &self.pages {
                    pages.unplug(cpu.into());
                }
                if let Some(memory) = &self.memory {
                    memory.unplug(cpu.into());
                }
            }
            MachineEvent::Online(cpu) => self.tasks.plug(cpu.into()),
            MachineEvent::Shrink => self.caches.iter().for_each(KernelCache::shrink),
            MachineEvent::ShrinkOf(cache) => self.caches[usize::from(cache)].shrink(),
        }
    }

    fn audit(&self, step: usize) -> Result<(), Unsound> {
        for (cache, it) in self.caches.iter().enumerate() {
            it.audit(None).map_err(|what| Unsound { step, cache, what })?;
        }
        Ok(())
    }

    /// Does what is due between the last step and the end, and returns the outcome.
    pub(super) fn finish(
        mut self,
        before: Sample,
        reached: RunProgress,
    ) -> Result<Replayed, ReplayFailure> {
        let prepared = self.plan.prepared;
        let is_whole = reached.done == prepared.steps.len();
        while let Some(event) = self.events.next().filter(|_| is_whole) {
            self.happen(event.what);
            self.note_all(prepared.span.start() + event.at_ns);
        }
        if self.plan.audit_every > 0 {
            self.audit(reached.done)?;
        }
        prepared.steps.sound()?;
        let end_ns = if is_whole { *prepared.span.end() } else { reached.time_ns };
        let after = self.sample(end_ns);
        let (changes, peak) = self.changes.sorted();
        Ok(Replayed {
            changes,
            before,
            samples: self.samples,
            after,
            peak,
            caches: self.caches,
            frees_left_out: self.frees_left_out,
            untouched: self.untouched,
            memory: self.memory.map(|memory| memory.outcome(end_ns)),
        })
    }
}
