//! A replay in which CPUs overlap in time: it counts failed compare-exchanges, and how often and
//! how long calls wait for list locks.
//!
//! It makes the same calls as [`super::replay`] and does nothing else: it takes no samples and has
//! no memory limit. A call begins at its step's time, or when its CPU has finished the previous
//! call, if that is later. Shrinks of caches happen at their time, on the first CPU. The copies of a
//! task do not act at the same nanosecond: each copy is delayed by its own time, up to
//! [`SPREAD_NS`]. The steps of all copies run in the order of the resulting times.
//!
//! [`slabyard_model::cache::contention`] models the clocks, locks and shared words; [`costs`] is
//! the one table of operations' durations, with sources. Invariant: the same plan and costs give
//! the same counts.

use super::events::{Event, MachineEvent};
use super::plan::Plan;
use super::rcu_sheaves::{self, RcuSheaves};
use super::start::{self, PlacedSlabs};
use super::tasks::Tasks;
use crate::prepare::{self, Step, StepKind};
pub use slabyard_model::cache::contention::{Costs, Counts};
use slabyard_model::cache::{KernelCache, NONE};
use slabyard_model::counters::Counters;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How late copies of tasks are, at most: long against a call, short against a task.
pub const SPREAD_NS: u64 = 1_000_000;

/// How long operations take where nothing else is said: the table of [`costs`].
pub const COSTS: Costs = Costs {
    fast: 5,
    slow: 100,
    exchange: 3,
    exchange_moved: 28,
    lock: 3,
    lock_moved: 28,
    link: 5,
    pages: 300,
};

/// One length of the model.
pub struct Cost {
    /// As typed, and as JSON names it.
    pub name: &'static str,
    /// What takes so long.
    pub what: &'static str,
    /// Where the number is from.
    pub source: &'static str,
    /// The field that it is written to.
    pub of: fn(&mut Costs) -> &mut u32,
}

/// What `cargo run --release -p slabyard-lab --example costs` says.
const EXAMPLE: &str = "example costs of this crate, medians, two virtual CPUs of an AMD EPYC";

/// All lengths, with their sources.
#[must_use]
pub fn costs() -> &'static [Cost] {
    &[
        Cost {
            name: "fast",
            what: "a call that finds its object on its CPU",
            source: "docs/decisions.md: a pair of calls by arrays, 2.8 to 4.5 ns",
            of: |costs| &mut costs.fast,
        },
        Cost {
            name: "slow",
            what: "a slow path, beside the operations below",
            source: "docs/decisions.md: a pair of calls that always take it, 240 ns, less the operations",
            of: |costs| &mut costs.slow,
        },
        Cost {
            name: "exchange",
            what: "a compare-exchange of a slab that this CPU changed last",
            source: EXAMPLE,
            of: |costs| &mut costs.exchange,
        },
        Cost {
            name: "exchange_moved",
            what: "one of a slab that another CPU changed last: the line moves",
            source: EXAMPLE,
            of: |costs| &mut costs.exchange_moved,
        },
        Cost {
            name: "lock",
            what: "a list lock that this CPU held last, and its release",
            source: EXAMPLE,
            of: |costs| &mut costs.lock,
        },
        Cost {
            name: "lock_moved",
            what: "one that another CPU held last",
            source: EXAMPLE,
            of: |costs| &mut costs.lock_moved,
        },
        Cost {
            name: "link",
            what: "linking or unlinking a slab",
            source: EXAMPLE,
            of: |costs| &mut costs.link,
        },
        Cost {
            name: "pages",
            what: "getting a slab's pages, or giving them back",
            source: "docs/decisions.md: to find a block, 900 to 2400 cycles",
            of: |costs| &mut costs.pages,
        },
    ]
}

/// What came of a replay with CPUs that overlap.
#[derive(Clone, Debug)]
pub struct Contended {
    /// All caches together.
    pub counts: Counts,
    /// In the order of the plan's caches.
    pub caches: Vec<Counts>,
    /// What the caches counted.
    pub counters: Counters,
    /// From the first call's begin to the last one's end.
    pub span_ns: u64,
    /// How late a call began at most, because its CPU was in another one.
    pub latest_ns: u64,
    /// Slabs at the end.
    pub slabs: u64,
}

/// Replays a trace with CPUs that overlap in time.
#[must_use]
pub fn contend(plan: &Plan<'_>, costs: Costs) -> Contended {
    let mut run = Run::new(plan, costs);
    while let Some((time_ns, copy, step)) = run.next_step() {
        run.shrink(time_ns);
        run.end_grace(time_ns);
        run.call(time_ns, copy, &step);
    }
    run.finish()
}

/// A step of a copy: its time, the copy, and the number of the step.
type CopiedStep = Reverse<(u64, u32, u32)>;

/// The machine, and how far it is.
struct Run<'p, 'a> {
    plan: &'p Plan<'a>,
    caches: Vec<KernelCache>,
    placed: PlacedSlabs,
    /// Model's slab of each object that is live, of each copy of its task.
    slab_of: Vec<u32>,
    copies: u32,
    /// How many memory nodes the machine has.
    nodes: u16,
    tasks: Tasks,
    /// When each CPU is done with its last call.
    free_at: Vec<u64>,
    steps: Window<'a>,
    /// The next step of each copy, the earliest first.
    next: BinaryHeap<CopiedStep>,
    begun_ns: u64,
    latest_ns: u64,
    rcu_sheaves: RcuSheaves,
    /// What happens to the machine, as far as it did not yet.
    events: std::iter::Peekable<std::slice::Iter<'a, Event>>,
}

impl<'p, 'a> Run<'p, 'a> {
    fn new(plan: &'p Plan<'a>, costs: Costs) -> Run<'p, 'a> {
        let mut caches = plan.caches();
        let placed = start::place(plan, &mut caches);
        let copies = plan.tasks.max(1);
        let mut slab_of = vec![NONE; plan.prepared.nr_objects() * copies as usize];
        start::own(plan, &placed, &mut slab_of);
        for cache in &mut caches {
            cache.begin();
            cache.contend(costs);
        }
        let mut steps = Window::new(plan, copies);
        let first = steps.get(0);
        let next = (0..copies).filter_map(|copy| copied(first, 0, copy)).collect();
        Run {
            plan,
            caches,
            placed,
            slab_of,
            copies,
            nodes: plan.node_of.iter().max().map_or(1, |node| node + 1),
            tasks: Tasks::new(plan),
            free_at: vec![0; plan.node_of.len()],
            steps,
            next,
            begun_ns: first.map_or(0, |step| step.time_ns),
            latest_ns: 0,
            rcu_sheaves: RcuSheaves::default(),
            events: plan.events.iter().peekable(),
        }
    }

    /// Shrinks the caches that were shrunk before a time.
    fn shrink(&mut self, time_ns: u64) {
        let due_ns = time_ns.saturating_sub(*self.plan.prepared.span.start());
        while let Some(event) = self.events.next_if(|event| event.at_ns <= due_ns) {
            let caches = match event.what {
                MachineEvent::Shrink => 0..self.caches.len(),
                MachineEvent::ShrinkOf(cache) => usize::from(cache)..usize::from(cache) + 1,
                MachineEvent::Offline(_) | MachineEvent::Online(_) => 0..0,
            };
            for cache in &mut self.caches[caches] {
                let at_ns = time_ns.max(self.free_at[0]);
                let shrink = |cache: &mut KernelCache| cache.shrink();
                ((), self.free_at[0]) = cache.call_at(0, at_ns, time_ns, shrink);
                cache.take_pages();
            }
        }
    }

    /// The earliest step of any copy, its time and the copy.
    fn next_step(&mut self) -> Option<(u64, u32, Step)> {
        let Reverse((time_ns, copy, nth)) = self.next.pop()?;
        self.next.extend(copied(self.steps.get(nth + 1), nth + 1, copy));
        let step = self.steps.get(nth)?;
        self.steps.done(nth, copy);
        Some((time_ns, copy, step))
    }

    /// Makes a step's call, when its CPU is done with the one before.
    fn call(&mut self, time_ns: u64, copy: u32, step: &Step) {
        if self.plan.is_gone(step.cache.into()) {
            return;
        }
        let cpu = self.tasks.cpu_of(&Step { time_ns, ..*step }, copy);
        let at_ns = time_ns.max(self.free_at[cpu]);
        self.latest_ns = self.latest_ns.max(at_ns - time_ns);
        let number = step.cache as usize;
        let cache = &mut self.caches[number];
        let object = step.object as usize * self.copies as usize + copy as usize;
        let object = &mut self.slab_of[object];
        if step.op == StepKind::Alloc {
            self.placed.before_alloc(cache, number, cpu);
            let node = u16::try_from(step.node).ok().filter(|node| *node < self.nodes);
            cache.may_wait.set(!step.nowait);
            let call = step.via.alloc_call();
            (*object, self.free_at[cpu]) =
                cache.call_at(cpu, at_ns, time_ns, |cache| cache.alloc_by(call, cpu, node));
        } else {
            let mut slab = core::mem::replace(object, NONE);
            if slab == NONE && copy == 0 {
                slab = self.placed.bind(cache, number, step.slab);
            }
            if slab != NONE {
                let prepared = self.plan.prepared;
                let free =
                    |cache: &mut KernelCache| rcu_sheaves::free(prepared, cache, step, cpu, slab);
                let is_full;
                (is_full, self.free_at[cpu]) = cache.call_at(cpu, at_ns, time_ns, free);
                self.rcu_sheaves.freed(prepared, step, (cpu, time_ns), is_full);
            }
        }
        cache.take_pages();
    }

    /// Gives sheaves back whose readers are gone, each on the CPU that had it.
    fn end_grace(&mut self, time_ns: u64) {
        while let Some(sheaf) = self.rcu_sheaves.take_due(time_ns) {
            let cpu = sheaf.cpu;
            let at_ns = time_ns.max(self.free_at[cpu]);
            let cache = &mut self.caches[usize::from(sheaf.cache)];
            let end = |cache: &mut KernelCache| _ = cache.end_grace();
            ((), self.free_at[cpu]) = cache.call_at(cpu, at_ns, time_ns, end);
            cache.take_pages();
        }
    }

    fn finish(self) -> Contended {
        let mut counts = Counts::default();
        let counters = Counters::default();
        for cache in &self.caches {
            counts.merge(&cache.contended());
            counters.merge(cache.counters());
        }
        let ended_ns = self.free_at.iter().copied().max().unwrap_or(self.begun_ns);
        Contended {
            counts,
            caches: self.caches.iter().map(KernelCache::contended).collect(),
            counters,
            span_ns: ended_ns.saturating_sub(self.begun_ns),
            latest_ns: self.latest_ns,
            slabs: self.caches.iter().map(|cache| u64::from(cache.nr_slabs())).sum(),
        }
    }
}

/// A copy's step, if there is one.
fn copied(step: Option<Step>, nth: u32, copy: u32) -> Option<CopiedStep> {
    step.map(|step| Reverse((step.time_ns + late_by(copy), copy, nth)))
}

/// The steps from that of the latest copy to that of the first.
struct Window<'a> {
    steps: std::iter::Take<prepare::Iter<'a>>,
    /// Number of the first one held.
    first: u32,
    held: VecDeque<Step>,
    /// The copy that comes to each step last.
    last: u32,
}

impl<'a> Window<'a> {
    fn new(plan: &Plan<'a>, copies: u32) -> Window<'a> {
        let steps = plan.prepared.steps.iter().take(plan.steps.unwrap_or(usize::MAX));
        let last = (0..copies).max_by_key(|copy| (late_by(*copy), *copy)).unwrap_or(0);
        Window { steps, first: 0, held: VecDeque::new(), last }
    }

    fn get(&mut self, nth: u32) -> Option<Step> {
        let at = (nth - self.first) as usize;
        while self.held.len() <= at {
            self.held.push_back(self.steps.next()?);
        }
        self.held.get(at).copied()
    }

    /// A copy has made a step, and all before it.
    fn done(&mut self, nth: u32, copy: u32) {
        if copy == self.last {
            self.held.drain(..=(nth - self.first) as usize);
            self.first = nth + 1;
        }
    }
}

/// How late a copy is: the first one not at all, the others anything, and always the same
/// (multiplicative hashing, Knuth, TAOCP 6.4).
fn late_by(copy: u32) -> u64 {
    let hash = u64::from(copy).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (hash * SPREAD_NS) >> 32
}
