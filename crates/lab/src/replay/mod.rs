//! Runs a prepared trace through the caches of a modelled kernel.
//!
//! An allocation asks the model for an object and remembers its slab; the free of
//! it goes to that slab, whatever the real kernel did. What is compared is slabs
//! over time ([`crate::check`]).
//!
//! Neighbours: [`start`] puts the slabs in place that the trace begins with,
//! [`report`] says what is where at the end and on the way.
//!
//! Invariants: the same trace, rules and start give the same run; memory is bounded
//! by the trace's live objects and the model's slabs.

pub mod contend;
pub mod events;
mod layout;
mod lists;
pub mod memory;
pub mod others;
mod pages;
mod plan;
pub mod report;
pub mod start;
mod tasks;
mod timers;

use crate::prepare::truth::Change;
use crate::prepare::{self, Op, Step};
use events::What;
use memory::{Memory, Told};
use pages::Pages;
use report::Sample;
use slabyard_model::cache::{KernelCache, NONE, Page};
use tasks::Tasks;
use timers::Timers;

pub use plan::{Limit, Parked, Plan, Relief, Start};

/// What came of it.
pub struct Replayed {
    /// Slabs made and given back, in order of time.
    pub changes: Vec<Change>,
    /// The caches, with what they counted.
    pub caches: Vec<KernelCache>,
    /// The caches as they were at the start.
    pub before: Sample,
    /// Samples on the way.
    pub samples: Vec<Sample>,
    /// The caches as they are at the end.
    pub after: Sample,
    /// Steps after which the caches first had the most slabs: for [`Plan::steps`] of a
    /// second run, as no run can know it on its way. Slabs that wait for readers before
    /// their pages are back are gone.
    pub peak: usize,
    /// Frees that had no object: those that the start did not know of.
    pub frees_left_out: u64,
    /// What became of the machine's memory, if that has an end.
    pub memory: Option<Told>,
}

/// The books of a cache were wrong: the model has a bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("after step {step}, cache number {cache}: {what}; this is a bug in the model")]
pub struct Unsound {
    /// Steps done.
    pub step: usize,
    /// The cache.
    pub cache: usize,
    /// What is wrong.
    pub what: String,
}

/// Why a run ended before its time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The books of a cache were wrong.
    #[error(transparent)]
    Unsound(#[from] Unsound),
    /// The trace's file cannot be read again.
    #[error(transparent)]
    Trace(#[from] prepare::Error),
}

/// Runs it.
///
/// # Errors
/// If an audit was asked for and found wrong books, or the trace's file changed meanwhile.
pub fn replay(plan: &Plan<'_>) -> Result<Replayed, Failed> {
    let prepared = plan.prepared;
    let mut caches: Vec<KernelCache> =
        plan.rules.iter().map(|rules| KernelCache::new(*rules, plan.node_of)).collect();
    caches.iter_mut().for_each(|cache| {
        cache.follow_arrays(plan.slab.choice);
        if !plan.slab.has_aliens {
            cache.without_aliens();
        }
    });
    let mut placed = start::place(plan, &mut caches);
    // Model's slab of each object that is live, of each copy of its task.
    let copies = plan.tasks.max(1);
    let mut slab_of = vec![NONE; prepared.nr_objects() * copies as usize];
    start::own(plan, &placed, &mut slab_of);
    if plan.start != Start::Empty {
        start::repack(plan, &mut caches, &mut slab_of);
    }
    caches.iter_mut().for_each(KernelCache::begin);
    let mut run = Run::default();
    let all = prepared.steps.len();
    let wanted = plan.steps.unwrap_or(all).min(all);
    let before = Sample::of(*prepared.span.start(), &caches);
    let mut frees_left_out = 0;
    let mut memory = plan.memory.map(|limit| Memory::new(limit, plan, &mut caches, &placed));
    let mut done = 0;
    let mut last = *prepared.span.start();
    let nr_cpus = plan.node_of.len();
    let nr_nodes = plan.node_of.iter().max().map_or(1, |node| node + 1);
    let mut pages = plan.page_lists.map(|rules| Pages::new(rules, plan));
    let mut timers = Timers::new(plan.slab, nr_cpus, caches.len());
    let mut tasks = Tasks::new(plan);
    let mut events = plan.events.iter().peekable();
    let steps = prepared.steps.iter().take(wanted).enumerate();
    let copied = steps.flat_map(|(nth, step)| (0..copies).map(move |copy| (nth, step, copy)));
    for (nth, step, copy) in copied {
        if let Some(memory) = &mut memory {
            if memory.has_failed() || !memory.pass(plan, nth, step.time_ns, &caches) {
                break;
            }
            if memory.was_relieved() {
                run.note_all(plan, &mut caches, step.time_ns, &mut pages);
            }
        }
        let due_ns = step.time_ns.saturating_sub(*prepared.span.start());
        while let Some(event) = events.next_if(|event| event.at_ns <= due_ns) {
            happen(event.what, &caches, &mut tasks, pages.as_ref(), memory.as_ref());
            run.note_all(plan, &mut caches, step.time_ns, &mut pages);
        }
        let cpu = tasks.cpu_of(&step, copy);
        let step = &Step { cpu: cpu as u16, object: step.object * copies + copy, ..step };
        (done, last) = (nth + 1, step.time_ns);
        let since_ns = step.time_ns.saturating_sub(*prepared.span.start());
        if timers.reap(&caches, plan.orders, cpu, since_ns) {
            run.note_all(plan, &mut caches, step.time_ns, &mut pages);
        }
        if let Some(memory) = &memory {
            memory.on(step.time_ns, cpu);
        }
        let number = step.cache as usize;
        let cache = &mut caches[number];
        let object = &mut slab_of[step.object as usize];
        if step.op == Op::Alloc {
            placed.before_alloc(cache, number, cpu);
            // A node that the machine does not have is no wish.
            let node = u16::try_from(step.node).ok().filter(|node| *node < nr_nodes);
            *object = cache.alloc(cpu, node);
            if let Some(memory) = &mut memory
                && memory.was_refused()
            {
                if *object == NONE {
                    let wanted = (number, cpu, node);
                    *object = memory.retry(nth, step.time_ns, wanted, &mut caches);
                } else {
                    memory.relieve(&caches);
                }
                run.note_all(plan, &mut caches, step.time_ns, &mut pages);
                if *object == NONE {
                    break;
                }
            }
        } else {
            let mut slab = core::mem::replace(object, NONE);
            // What was there before is the first copies'.
            if slab == NONE && copy == 0 {
                slab = placed.bind(cache, number, step.slab);
            }
            if slab == NONE {
                frees_left_out += u64::from(copy == 0);
            } else if step.missed && prepared.caches[number].left_out.is_some() {
                // Where the object was used again, its grace period was over.
                cache.free_rcu(cpu, slab);
            } else {
                cache.free(cpu, slab);
            }
        }
        let cache = &mut caches[number];
        if cache.has_pages() {
            let at = At { cache: step.cache, cpu, time_ns: step.time_ns };
            run.note(plan, cache, at, &mut pages);
            if run.slabs > run.most_slabs {
                (run.most_slabs, run.peak) = (run.slabs, nth + 1);
            }
        }
        if copy + 1 < copies {
            continue;
        }
        if plan.sample_every > 0 && nth % plan.sample_every == 0 {
            run.samples.push(Sample::of(step.time_ns, &caches));
        }
        if plan.audit_every > 0 && nth % plan.audit_every == 0 {
            audit(nth, &caches)?;
        }
    }
    // Between the last step and the end.
    for event in events.filter(|_| done == all) {
        happen(event.what, &caches, &mut tasks, pages.as_ref(), memory.as_ref());
        let at_ns = prepared.span.start() + event.at_ns;
        run.note_all(plan, &mut caches, at_ns, &mut pages);
    }
    if plan.audit_every > 0 {
        audit(done, &caches)?;
    }
    run.changes.append(&mut run.late);
    run.changes.sort_by_key(|change| change.time_ns);
    prepared.steps.sound()?;
    let end = if done == all { *prepared.span.end() } else { last };
    let after = Sample::of(end, &caches);
    Ok(Replayed {
        changes: run.changes,
        before,
        samples: run.samples,
        after,
        peak: run.peak,
        caches,
        frees_left_out,
        memory: memory.map(|memory| memory.told(end)),
    })
}

#[derive(Default)]
struct Run {
    changes: Vec<Change>,
    /// Those that come true after a grace period.
    late: Vec<Change>,
    samples: Vec<Sample>,
    /// Slabs of all caches, more than at the start.
    slabs: i64,
    most_slabs: i64,
    /// Steps after which they were that many first.
    peak: usize,
}

/// A call to a cache.
#[derive(Clone, Copy)]
struct At {
    cache: u16,
    cpu: usize,
    time_ns: u64,
}

impl Run {
    /// Notes the slabs that a call began and ended.
    fn note(
        &mut self,
        plan: &Plan<'_>,
        cache: &mut KernelCache,
        at: At,
        pages: &mut Option<Pages>,
    ) {
        let number = usize::from(at.cache);
        let delay = plan.prepared.caches[number].return_delay_ns;
        if let Some(pages) = pages {
            pages.follow(cache, at.cache, plan.orders[number], at.cpu);
        }
        for page in cache.take_pages() {
            let (time_ns, by) = match page {
                Page::New(_) => (at.time_ns, 1),
                Page::Freed(_) => (at.time_ns + delay, -1),
            };
            let change = Change { time_ns, cache: at.cache, by };
            self.slabs += i64::from(by);
            if delay == 0 || by > 0 { &mut self.changes } else { &mut self.late }.push(change);
        }
    }

    /// Notes those that an event of the machine ended.
    fn note_all(
        &mut self,
        plan: &Plan<'_>,
        caches: &mut [KernelCache],
        time_ns: u64,
        pages: &mut Option<Pages>,
    ) {
        // Work of its kind runs on any CPU that is there.
        let cpu = plan.there_at_start().iter().position(|there| *there).unwrap_or(0);
        for (number, cache) in (0u16..).zip(caches) {
            self.note(plan, cache, At { cache: number, cpu, time_ns }, pages);
        }
    }
}

/// Lets an event happen to the machine.
fn happen(
    what: What,
    caches: &[KernelCache],
    tasks: &mut Tasks,
    pages: Option<&Pages>,
    memory: Option<&Memory<'_>>,
) {
    match what {
        What::Offline(cpu) => {
            caches.iter().for_each(|cache| cache.unplug(cpu.into()));
            tasks.unplug(cpu.into());
            if let Some(pages) = pages {
                pages.unplug(cpu.into());
            }
            if let Some(memory) = memory {
                memory.unplug(cpu.into());
            }
        }
        What::Online(cpu) => tasks.plug(cpu.into()),
        What::Shrink => caches.iter().for_each(KernelCache::shrink),
    }
}

fn audit(step: usize, caches: &[KernelCache]) -> Result<(), Unsound> {
    for (cache, it) in caches.iter().enumerate() {
        it.audit(None).map_err(|what| Unsound { step, cache, what })?;
    }
    Ok(())
}
